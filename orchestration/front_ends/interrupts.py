"""The ids under which a front end answers a run that waits for a person.

An id holds the token, the pause, the call, and how many ids there are. So the answers need no memory of what was asked,
and answers to some of them are not taken for answers to all. It is as secret as the token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from understudy.vocabulary.messages import ToolCall
from understudy.vocabulary.runs.outcomes import NeedsApproval, NeedsInput, Pause

QUESTION, CALL = "question", "call"
UNKNOWN = "no run waits for an answer with this id; expected one that us.agui or us.ai_sdk has sent, unchanged"
"""Without the id: it may hold a token that works."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """One question, or one tool call that needs a decision."""

    id: str
    pause: Pause
    call: ToolCall | None
    """None for a question."""

    @property
    def is_inner(self) -> bool:
        """Whether a run inside of the one that was called waits for it."""
        return len(self.pause.path) > 1

    @property
    def in_doubt(self) -> bool:
        """Whether the call was under way when its process died, and may have happened."""
        return self.call is not None and self.call.id in self.pause.in_doubt

    @property
    def reason(self) -> str:
        """Why a person is asked about the call; empty without a reason of its own."""
        return "" if self.call is None else self.pause.reasons.get(self.call.id, "")


@dataclass(frozen=True, slots=True)
class InterruptId:
    """An id, taken apart."""

    token: str
    of: int
    """How many ids the run waits for."""
    pause_id: str
    call_id: str | None
    """None for a question."""

    def __str__(self) -> str:
        call = [QUESTION] if self.call_id is None else [CALL, _quoted(self.call_id)]
        return "/".join([_quoted(self.token), str(self.of), _quoted(self.pause_id), *call])


def _quoted(text: str) -> str:
    """Return a text without a slash, as a JSON pointer has it."""
    return text.replace("~", "~0").replace("/", "~1")


def _unquoted(text: str) -> str:
    return text.replace("~1", "/").replace("~0", "~")


def parsed_id(text: str) -> InterruptId:
    """Take an id apart.

    Raises:
        ValueError: no encoder made it, or the run has no token.
    """
    match text.split("/"):
        case [token, of, pause_id, kind] if kind == QUESTION:
            call_id = None
        case [token, of, pause_id, kind, call] if kind == CALL:
            call_id = _unquoted(call)
        case _:
            raise ValueError(UNKNOWN)
    found = InterruptId(_unquoted(token), int(of) if of.isascii() and of.isdigit() else 0, _unquoted(pause_id), call_id)
    if not found.token or found.of < 1 or str(found) != text:
        raise ValueError(UNKNOWN)
    return found


def is_id(text: str) -> bool:
    """Whether a text is an id of an encoder's."""
    try:
        parsed_id(text)
    except ValueError:
        return False
    return True


def interrupts_of(outcome: NeedsInput | NeedsApproval) -> list[Interrupt]:
    """Return all that a run waits for: its questions, and each of its calls."""
    pauses = outcome.pauses or _only_pause(outcome)
    asked = [(pause, call) for pause in pauses for call in (pause.calls if pause.question is None else (None,))]
    return [
        Interrupt(str(InterruptId(outcome.token, len(asked), pause.id, None if call is None else call.id)), pause, call)
        for pause, call in asked
    ]


def _only_pause(outcome: NeedsInput | NeedsApproval) -> Sequence[Pause]:
    if isinstance(outcome, NeedsInput):
        return [Pause(id="question", question=outcome.question)]
    return [Pause(id="approval", calls=outcome.calls)]
