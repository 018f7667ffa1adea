"""Calls on another thread, for functions that run code of the user, which the caller must not wait for."""

from __future__ import annotations

from collections.abc import Callable

from .pool import submit


def run_elsewhere(do: Callable[[], object]) -> None:
    """Have a lent thread call `do`, which must not raise; if no thread can be had, this one calls it."""
    submit(_Call(do))


class _Call:
    """A function for a lent thread to call once."""

    __slots__ = ("_do",)

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do

    def run_turns(self) -> None:
        self._do()

    def refused(self, cause: RuntimeError) -> None:
        self._do()
