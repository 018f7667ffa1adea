"""`RunStream`: the events of a run, for a loop, and the run's end with it."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self

from .events import Event, RunFailed, RunFinished, TextDelta
from .handles import RunHandle
from .outcomes import Complete, Incomplete, Outcome

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=str)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


class RunStream(Generic[T_co]):
    """The events of one run as they come. Iterating blocks the thread until the next one; for one thread at a time.

    A run that fails gives `RunFailed`, and the next step of the iteration raises its error. Leaving the loop lets the run
    go on; leaving a `with` block cancels a run that is not over.

    Attributes:
        handle: the run's handle.
    """

    __slots__ = ("_events", "_failed", "handle")

    def __init__(self, handle: RunHandle[T_co], events: Iterator[Event]) -> None:
        self.handle = handle
        self._events = events
        self._failed: BaseException | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        event = next(self._events)
        if isinstance(event, RunFailed):
            self._failed = event.error
        return event

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.handle.run_id

    def result(self, timeout: float | None = None) -> Outcome[T_co]:
        """Return the run's outcome, as of `RunHandle`: waiting up to `timeout` seconds."""
        return self.handle.result(timeout)

    def text(self) -> Iterator[str]:
        """Iterate over the model's text as it is written, in place of the events; `result()` has the outcome afterwards.

        It is the text of all turns of this run, and none of runs inside. A new turn, or another attempt at one, begins on a
        line of its own, also after a text that does not stand: outcome and events say which text is the answer. An
        answer that no turn has shown, such as that of a group, comes at the end.

        Raises:
            UnderstudyError: the run failed; raised behind the text that came before.
        """
        shown, turn = "", (0, 0)
        for event in self:
            match event:
                case TextDelta(text=text) if text and len(event.path) < 2:
                    if shown and (event.turn, event.attempt) != turn:
                        yield "\n"
                        shown = ""
                    turn = event.turn, event.attempt
                    shown += text
                    yield text
                case RunFinished(outcome=outcome):
                    yield from _rest_of_answer(outcome, shown)
                case _:
                    pass

    def close(self) -> None:
        """Read no more. The run goes on."""
        close = getattr(self._events, "close", None)
        if callable(close):
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ValueError:  # another thread is reading: it gets the end of the run
            pass
        finally:
            self.handle.cancel()


def _rest_of_answer(outcome: Outcome[object], shown: str) -> Iterator[str]:
    """Yield the part of an answer that the last text did not show."""
    match outcome:
        case Complete(text=answer) | Incomplete(last_text=answer):
            if shown and not answer.startswith(shown):
                yield f"\n{answer}"
            elif len(answer) > len(shown):
                yield answer[len(shown) :]
        case _:
            pass
