"""One run carried by two worker processes through a queue; the first one dies in the middle of a turn.

    python examples/relay/relay.py

Everything is in one folder: the queue and the store are SQLite files. A queue and a database on servers would do the same.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import understudy as us
from understudy.testing import calls, says

LEASE = 1.0  # Seconds; a real worker would take a minute.
dies_in_turn = 0


class Queue:
    """A queue that delivers each message at least once: a message that was taken and not done comes back after `hidden` seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._do("CREATE TABLE IF NOT EXISTS messages (body TEXT PRIMARY KEY, due REAL NOT NULL)")

    def put(self, body: str) -> None:
        self._do("INSERT OR IGNORE INTO messages VALUES (?, 0)", body)

    def take(self, hidden: float = LEASE) -> str | None:
        now = time.time()
        found = self._do(
            "UPDATE messages SET due = ? WHERE body = (SELECT body FROM messages WHERE due <= ? LIMIT 1) RETURNING body",
            now + hidden,
            now,
        )
        return None if not found else str(found[0][0])

    def done(self, body: str) -> None:
        self._do("DELETE FROM messages WHERE body = ?", body)

    def _do(self, statement: str, *values: str | float) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self._path, timeout=10)) as file, file:
            return file.execute(statement, values).fetchall()


def on_shelf(sku: str) -> int:
    """Count the units of a product on the shelf."""
    return {"A-113": 7, "B-207": 0}.get(sku, 0)


def on_order(sku: str) -> int:
    """Count the units of a product that are on their way."""
    if dies_in_turn == 2:
        say("dies in its turn")
        os._exit(9)  # as kill -9 would have it
    return {"B-207": 12}.get(sku, 0)


def answer(request: us.ModelRequest) -> us.ModelTurn:
    """Stand in for a model: look twice, then answer."""
    match request.turn:
        case 1:
            return calls("on_shelf", sku="B-207")
        case 2:
            return calls("on_order", sku="B-207")
        case _:
            return says("None on the shelf, twelve on their way.")


clerk = us.Agent("clerk", model=us.FunctionModel(answer), tools=[on_shelf, on_order])


def work(folder: Path) -> None:
    """Carry out one turn for each message of the queue, until the run has its answer."""
    queue, result = Queue(folder / "queue.db"), folder / "result.txt"
    with us.ActorSystem("shop", store=f"sqlite:///{folder}/shop.db") as system:
        while not result.exists():
            token = queue.take()
            if token is None:
                time.sleep(0.05)
            else:
                deliver(queue, token, system, result)


def deliver(queue: Queue, token: str, system: us.ActorSystem, result: Path) -> None:
    """Do what a message says, and tell the queue that it is done, in this order."""
    try:
        step = clerk.run_turn(token=token, lease=LEASE, system=system)
    except us.TokenLeased:
        return  # the other worker does this turn, or has died: the message comes again
    except us.AnswerMissing as waits:
        say(f"a person is to decide about {[call.name for call in waits.calls]}, with the token {token}")
    except us.TokenUsed as used:  # the other worker committed the turn, and may have died before it told the queue
        if used.next is not None:
            queue.put(used.next)
    else:
        match step:
            case us.MoreTurns() | us.NeedsApproval() | us.NeedsInput():
                say(f"did turn {step.turns}")
                queue.put(step.token)
            case _:
                say(f"has the answer: {step.text}")
                result.write_text(step.text)
    queue.done(token)


def say(text: str) -> None:
    print(f"{sys.argv[1] if len(sys.argv) > 1 else 'main'}: {text}", flush=True)


def main() -> None:
    """Begin a run, put its token into the queue, and start a second worker after the first one has died."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with us.ActorSystem("shop", store=f"sqlite:///{folder}/shop.db") as system:
            step = clerk.run_turn("Do we have five of B-207?", system=system)
        assert isinstance(step, us.MoreTurns)
        say("did turn 1")
        Queue(folder / "queue.db").put(step.token)
        for worker, turn in (("first", "2"), ("second", "0")):
            subprocess.run([sys.executable, __file__, worker, name, turn], check=False, timeout=60)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        dies_in_turn = int(sys.argv[3])
        work(Path(sys.argv[2]))
    else:
        main()
