"""The tree of four levels in a process of its own, which does as it is told; what is done in all of them stands in a file."""

from __future__ import annotations

import os
import sys
from typing import cast

import understudy as us
from tests.support.nested import Leaf, nested

PATIENCE = 20.0
"""Seconds that a part may wait for another before that counts as a failure."""


def note(what: str) -> None:
    book = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(book, f"{what}\n".encode())
    os.close(book)


def told(outcome: us.Outcome[object]) -> str:
    """Return in one line what a run came to."""
    match outcome:
        case us.Complete(text=text):
            return f"complete {text}"
        case us.Incomplete():
            return "incomplete"
        case _:
            (pause,) = outcome.pauses
            return f"paused {outcome.token} {'/'.join(pause.path)} {outcome.status}"


def answered(token: str, answer: str | us.Decision, timeout: float) -> str:
    """Go on with a run, and return in one line how that went."""
    try:
        return told(tree.resume(token, answer, timeout=timeout, system=system))
    except (us.RunError, KeyboardInterrupt) as error:
        return type(error).__name__


if __name__ == "__main__":  # URL, ledger and leaf; then lines from standard input, each answered by a line
    tree = nested(cast(Leaf, sys.argv[3]), note)
    system = us.ActorSystem("office", store=sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["run", input]:
                said = told(tree.run(input, timeout=PATIENCE, system=system))
            case ["answer", token, text]:
                said = answered(token, text, PATIENCE)
            case ["approve", token, timeout]:
                said = answered(token, us.Approve(), float(timeout))
            case ["left"]:
                system.stop(PATIENCE)
                said = f"{system.in_flight} {system.hung}"
            case _:
                raise ValueError(line)
        print(said, flush=True)
