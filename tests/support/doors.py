"""A model whose calls wait until the test lets each of them go on."""

from __future__ import annotations

import threading
from collections import defaultdict

from understudy.testing import says
from understudy.vocabulary.messages import ModelRequest, ModelTurn

from .scripts import WAIT, eventually

QUESTION = "__ask_user__: Who?"


class Doors:
    """A model whose calls stand before a door each, and notes which inputs came in which order.

    It repeats its input; to `ask` it asks `QUESTION`.
    """

    def __init__(self) -> None:
        self.came: list[str] = []
        self.doors: dict[str, threading.Event] = defaultdict(threading.Event)
        self.lock = threading.Lock()

    def complete(self, request: ModelRequest) -> ModelTurn:
        name = request.text
        with self.lock:
            self.came.append(name)
            door = self.doors[name]
        assert door.wait(WAIT)
        return says(QUESTION if name == "ask" else name)

    def open(self, *names: str) -> None:
        with self.lock:
            for name in names:
                self.doors[name].set()

    def came_are(self, *names: str) -> None:
        """Wait until these inputs have come, in this order, and no others."""
        eventually(lambda: self.came == list(names), f"{names} and nobody else have come")
