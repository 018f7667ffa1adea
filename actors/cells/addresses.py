"""The addresses of the cells with seats of one kind in one system, such as those of its tools."""

from __future__ import annotations

import weakref
from itertools import count
from typing import Generic, TypeVar

from .seated_cell import SeatedCell
from .seats import Seated

M = TypeVar("M", bound=Seated)


class Addresses(Generic[M]):
    """Cells by address. An address is free again when its cell is gone. Its owner guards it with a lock.

    Args:
        prefix: what the addresses begin with, such as "shop/tools".
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._cells: weakref.WeakValueDictionary[str, SeatedCell[M]] = weakref.WeakValueDictionary()
        self._numbers: dict[str, count[int]] = {}
        """Name -> what to try next behind it."""
        self._closed = False

    def free(self, name: str) -> str:
        """Return an address for a name, with a number behind it if another cell has the name."""
        address = f"{self._prefix}/{name}"
        if address not in self._cells:
            return address
        numbers = self._numbers.setdefault(name, count(2))
        tries = (f"{address}-{number}" for number in numbers)
        return next(each for each in tries if each not in self._cells)

    def add(self, cell: SeatedCell[M]) -> None:
        """Note a new cell, which takes the place of one before it at its address; it is stopped if the system is."""
        self._cells[cell.address] = cell
        if self._closed:
            cell.stop()

    def close(self) -> list[SeatedCell[M]]:
        """Return all cells, for their owner to stop them; those that come later are stopped at once."""
        self._closed = True
        return list(self._cells.values())
