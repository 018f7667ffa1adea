"""Conversations in a store: how soon a run begins in a long one, and what the turns of many runs cost.

LangGraph's checkpointer for SQLite is a reference if it is installed (`pip install langgraph-checkpoint-sqlite`).
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from typing import Any

import understudy as us
from understudy.testing import FunctionModel
from understudy.vocabulary.messages import Message, says, user_message

from .batch import Batch, Round, timed, timing_itself, warmed
from .measure import Measure, Side
from .sizes import Sizes

RUNS = 16
TURN: tuple[Message, ...] = (user_message("q" * 500), Message("assistant", says("a" * 500).parts))

LONG, EMPTY, IN_MEMORY = "in a conversation of many turns", "in a new conversation", "in a new one in memory"
TURNS, RAW, CHECKPOINTS = (
    "16 threads, PersistentMemory",
    "16 threads, sqlite3, one lock",
    "16 threads, LangGraph's SqliteSaver",
)
WHOLE_RUNS = "16 whole runs, with their tickets"


def _url(folder: str) -> str:
    return f"sqlite:///{folder}/store.db"


@contextmanager
def _beginnings(sizes: Sizes) -> Generator[Round]:
    asked: list[float] = []

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        asked.append(time.perf_counter())
        return says("a")

    numbers = count()
    stored = us.Agent("stored", model=FunctionModel(answer), memory=us.PersistentMemory())
    in_memory = us.Agent("in_memory", model=FunctionModel(answer), memory=us.InMemoryMemory())
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        memory = us.PersistentMemory(_url(folder))
        key = us.ConversationKey("bench", "default", "long")
        for number in range(_length(sizes)):
            memory.append(key, TURN, f"before-{number}")
        with us.ActorSystem("bench", store=_url(folder)) as system:

            def beginning(agent: us.Agent[str], conversation: Callable[[], str]) -> float:
                named = conversation()
                began = time.perf_counter()
                agent.run("q", system=system, conversation_id=named)
                return asked[-1] - began

            def new() -> str:
                return f"new-{next(numbers)}"

            sides: dict[str, Callable[[int], Batch]] = {
                LONG: partial(timing_itself, partial(beginning, stored, lambda: "long")),
                EMPTY: partial(timing_itself, partial(beginning, stored, new)),
                IN_MEMORY: partial(timing_itself, partial(beginning, in_memory, new)),
            }
            yield warmed(sides, sizes.calls)


def _length(sizes: Sizes) -> int:
    return 100 if sizes.quick else 10_000


def _at_once(work: Callable[[int], object]) -> None:
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(RUNS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _raw(folder: str) -> Callable[[int], object]:
    """Return what writes as many bytes with sqlite3 alone."""
    connection = sqlite3.connect(f"{folder}/raw.db", isolation_level=None, check_same_thread=False)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", "CREATE TABLE turns (text TEXT)"):
        connection.execute(statement)
    text, lock = "x" * sum([len(message.text) for message in TURN]), threading.Lock()

    def write(number: int) -> None:
        with lock:
            connection.execute("INSERT INTO turns VALUES (?)", (text,))

    return write


def _checkpoints(folder: str) -> Callable[[int], object]:
    """Return what writes the turn of one of the runs with LangGraph's checkpointer."""
    saver_class: Any = import_module("langgraph.checkpoint.sqlite").SqliteSaver
    empty: Any = import_module("langgraph.checkpoint.base").empty_checkpoint
    saver = saver_class(sqlite3.connect(f"{folder}/langgraph.db", check_same_thread=False))
    saver.setup()
    messages = [{"role": message.role, "content": message.text} for message in TURN]

    def write(number: int) -> None:
        config = {"configurable": {"thread_id": str(number), "checkpoint_ns": ""}}
        checkpoint = empty() | {"channel_values": {"messages": messages}, "channel_versions": {"messages": 1}}
        saver.put(config, checkpoint, {"source": "loop", "step": 1, "parents": {}}, {"messages": 1})

    return write


@contextmanager
def _turns(sizes: Sizes) -> Generator[Round]:
    runs = count()
    agent = us.Agent("stored", model=FunctionModel(lambda request: says("a" * 500)), memory=us.PersistentMemory())
    with (
        tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder,
        us.ActorSystem("bench", store=_url(folder)) as system,
    ):
        memory = us.PersistentMemory(_url(folder))

        def write(number: int) -> None:
            memory.append(us.ConversationKey("bench", "turns", str(number)), TURN, f"run-{next(runs)}")

        def run(number: int) -> None:
            agent.run("q" * 500, system=system, user_id="runs", conversation_id=str(number))

        sides: dict[str, Callable[[int], Batch]] = {
            TURNS: partial(timed, partial(_at_once, write)),
            WHOLE_RUNS: partial(timed, partial(_at_once, run)),
            RAW: partial(timed, partial(_at_once, _raw(folder))),
        }
        if _has_langgraph():
            sides[CHECKPOINTS] = partial(timed, partial(_at_once, _checkpoints(folder)))
        yield warmed(sides, sizes.calls)


def _has_langgraph() -> bool:
    return find_spec("langgraph") is not None and find_spec("langgraph.checkpoint.sqlite") is not None


BEGINNING = Measure(
    name="conversation",
    title=lambda sizes: f"from the start of a run to its model call, in a conversation of {_length(sizes):,} turns",
    ours=(Side(label=LONG, target=0.02), Side(label=EMPTY)),
    references=(Side(label=IN_MEMORY),),
    prepare=_beginnings,
)

TURNS_AT_ONCE = Measure(
    name="turns",
    title=lambda _: (
        f"the turns of {RUNS} concurrent runs, written to one SQLite file"
        + ("" if _has_langgraph() else " (langgraph-checkpoint-sqlite is not installed, and not compared)")
    ),
    ours=(Side(label=TURNS), Side(label=WHOLE_RUNS)),
    references=(Side(label=RAW), *([Side(label=CHECKPOINTS)] if _has_langgraph() else [])),
    prepare=_turns,
)
