"""Things to do on another thread, because they run a user's code and nobody may have to wait for that."""

from __future__ import annotations

from collections.abc import Callable

from .pool import submit


def run_elsewhere(do: Callable[[], object]) -> None:
    """Have a lent thread call `do`, which must not raise; this one does when no other can be had."""
    submit(_Errand(do))


class _Errand:
    """Something for a lent thread to do once."""

    __slots__ = ("_do",)

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do

    def run_turns(self) -> None:
        self._do()

    def refused(self, cause: RuntimeError) -> None:
        self._do()
