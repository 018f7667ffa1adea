"""Many conversations in one file, and one conversation of many processes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import understudy as us
from tests.support.paths import ROOT
from understudy.vocabulary.messages import Message, says, user_message

TURN: tuple[Message, ...] = (user_message("q" * 500), Message("assistant", says("a" * 500).parts))

TALK = """
import sys, threading
import understudy as us
from understudy.testing import FunctionModel, says

url, threads, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = FunctionModel(lambda request: says(str(len(request.messages))))
clerk = us.Agent("clerk", model=model, memory=us.PersistentMemory(turns=None))

def talk(system):
    for _ in range(runs):
        print(clerk.run("hi", system=system, conversation_id="c-42").text, flush=True)

with us.ActorSystem("shop", store=url) as system:
    talkers = [threading.Thread(target=talk, args=(system,)) for _ in range(threads)]
    for each in talkers: each.start()
    for each in talkers: each.join()
"""


class Filled(NamedTuple):
    """A file with many conversations."""

    megabytes: float
    seconds: float
    """To write all of them."""
    load: float
    """Seconds to load one, the median of a hundred."""


def fill(folder: Path, conversations: int) -> Filled:
    """Write one turn of each of many conversations into a file, and load some of them."""
    memory = us.PersistentMemory(f"sqlite:///{folder}/many.db")
    keys = [us.ConversationKey("shop", f"user-{number % 1000}", f"c-{number}") for number in range(conversations)]
    began = time.perf_counter()
    for number, key in enumerate(keys):
        memory.append(key, TURN, f"run-{number}")
    seconds, loads = time.perf_counter() - began, list[float]()
    for key in keys[:: max(1, conversations // 100)]:
        began = time.perf_counter()
        assert memory.load(key) == TURN
        loads.append(time.perf_counter() - began)
    size = sum([path.stat().st_size for path in folder.iterdir()])
    return Filled(size / 1e6, seconds, sorted(loads)[len(loads) // 2])


def talk_together(url: str, processes: int, threads: int, runs: int) -> int:
    """Have processes and threads talk in one conversation; returns how many turns it has. Each run must know all before it."""
    command = [sys.executable, "-c", TALK, url, str(threads), str(runs)]
    talkers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    said = sorted([int(line) for talker in talkers for line in talker.communicate(timeout=3600)[0].split()])
    wanted = list(range(1, 2 * processes * threads * runs, 2))
    assert said == wanted, "a run did not know all turns before its own, or a turn is lost"
    kept = us.PersistentMemory(url).read(us.ConversationKey("shop", "default", "c-42"), limit=len(wanted) + 1)
    assert [each.messages[-1].text for each in kept] == [str(number) for number in wanted], "turns are out of order"
    return len(kept)
