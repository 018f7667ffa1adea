"""Work that several threads do at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from .scripts import WAIT

T = TypeVar("T")


def all_at_once(work: Callable[[T], object], given: Sequence[T]) -> None:
    """Call `work` with each item in a thread of its own, all started together; raises the error of any of them."""
    gate, failures = threading.Barrier(len(given)), list[BaseException]()

    def run(one: T) -> None:
        try:
            gate.wait(WAIT)
            work(one)
        except BaseException as error:  # noqa: BLE001 (raised below)
            failures.append(error)

    threads = [threading.Thread(target=run, args=(one,), name="together", daemon=True) for one in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT)
        assert not thread.is_alive(), "a thread does not come to its end"
    for error in failures:
        raise error


@contextmanager
def restless_threads() -> Generator[None]:
    """Let the interpreter switch threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
