"""Steps that must not keep a run from ending: the failure of one is logged, and the next one is taken."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from logging import ERROR
from typing import Protocol, TypeVarTuple

from understudy.diagnostics import emit

Ts = TypeVarTuple("Ts")


class Named(Protocol):
    """A run that the log can name."""

    @property
    def run_id(self) -> str:
        """Unique in its system."""
        ...


def safely(record: Named, do: Callable[[*Ts], object], *arguments: *Ts) -> BaseException | None:
    """Call `do` with the arguments, and return what it raised, which is logged; None if it raised nothing.

    Also an exit is caught: the thread, which may be a caller's, has the rest of the run's end to see to.
    """
    try:
        do(*arguments)
    except BaseException as failure:
        with contextlib.suppress(BaseException):  # a handler of the host's may fail in its turn
            name = getattr(do, "__qualname__", type(do).__name__)
            text = "run %s: %s failed; the run goes to its end all the same"
            values = {"run_id": record.run_id}
            emit(ERROR, "run_ending_failed", values, text, record.run_id, name, exc_info=failure)
        return failure
    return None
