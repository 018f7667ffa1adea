"""The text of the outermost run's turn while it is written, as far as it may be shown."""

from __future__ import annotations

from understudy.vocabulary.runs.events import Event, TextDelta
from understudy.vocabulary.tools.questions import MARK

NOT_THE_ANSWER = "[not the answer: the run goes on]"


def taken_back(by: str) -> str:
    """Return the line that follows a text which does not stand; `by` is that of `TurnDropped`."""
    match by:
        case "":
            return "[taken back: the model call failed]"
        case "criteria":
            return NOT_THE_ANSWER
        case "output_type":
            return "[taken back: it does not fit the output type]"
        case _:
            return f"[taken back: by {by}]"


def is_of_outermost(event: Event) -> bool:
    """Whether an event is of the run that was called, and not of one inside."""
    return len(event.path) < 2


class TurnText:
    """Joins the pieces of a turn's text. A question to a person is held back: it is asked when the run waits.

    Attributes:
        shown: what `add` has returned so far.
    """

    def __init__(self) -> None:
        self.shown = ""
        self._held = ""
        self._attempt = (0, 0)

    def add(self, delta: TextDelta) -> str:
        """Add a piece, and return the text that may be shown now."""
        attempt = delta.turn, delta.attempt
        if attempt != self._attempt:
            self.clear()
            self._attempt = attempt
        self._held += delta.text
        if not self.shown and _may_be_question(self._held):
            return ""
        ready = self._held.removesuffix("\r")  # the other half of a line end may follow
        self._held = self._held[len(ready) :]
        self.shown += ready
        return ready

    def clear(self) -> None:
        """Forget the text: it is over."""
        self.shown = self._held = ""


def _may_be_question(text: str) -> bool:
    """Whether a text asks a person, or may do so when it goes on."""
    beginning = text.lstrip()[: len(MARK)]
    return MARK.startswith(beginning)
