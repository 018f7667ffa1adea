"""Many runs that change the same values of one session, from threads and processes; each change is accounted for."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, cast

import understudy as us
from tests.support.paths import ROOT
from understudy.testing import FunctionModel, calls, says

KEYS = ("n", "list", "user:n", "app:n", "app:m")
EACH = 4  # Keys that a run changes.
CONVERSATION = "c-1"
PATIENCE = 60.0  # Seconds for the first runs of all threads to meet.


class Update(NamedTuple):
    """A run set a key."""

    run_id: str
    key: str
    after: str
    """The run whose value it saw; empty for none."""


class Told(NamedTuple):
    """A run said that it has overwritten a key."""

    run_id: str
    key: str
    other: str


class Found(NamedTuple):
    """What one process found."""

    updates: list[Update]
    told: list[Told]


def update_together(url: str, *, processes: int, threads: int, runs: int) -> Counter[str]:
    """Have processes with threads with runs change the session of a store, and check each change.

    Args:
        url: the store; with `memory:` there is this process alone.
        processes: how many.
        threads: of each process.
        runs: of each thread.

    Returns:
        How many updates there were, by what became of them.
    """
    if url == "memory:":
        with us.ActorSystem("shop") as system:
            return _checked([_updated(system, threads, runs)], _left(system))
    command = [sys.executable, "-m", "tests.soak.sessions", url, str(threads), str(runs)]
    begun = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    said = [each.communicate()[0] for each in begun]
    assert not any(each.returncode for each in begun), "a process failed"
    with us.ActorSystem("shop", store=url) as system:
        return _checked([_read(text) for text in said], _left(system))


def _checked(found: Sequence[Found], left: dict[str, str]) -> Counter[str]:
    updates = [update for each in found for update in each.updates]
    told = [each for one in found for each in one.told]
    tellers = {(each.run_id, each.key) for each in told}
    times = Counter((each.other, each.key) for each in told)
    seen = Counter((each.after, each.key) for each in updates if (each.run_id, each.key) not in tellers)
    became: Counter[str] = Counter()
    for run_id, key, _ in updates:
        fates = {"left": int(left[key] == run_id), "told": times[run_id, key], "followed": seen[run_id, key]}
        assert sum(fates.values()) == 1, f"{key} of run {run_id}: {fates}"
        became.update(fates)
    return became


def _agent(updates: list[Update], seed: int, meeting: threading.Barrier) -> us.Agent:
    """Return the agent of one thread; its first run saves nothing before the first runs of all threads have read."""
    chance = random.Random(seed)
    is_first = True

    def update(ctx: us.ToolContext) -> str:
        nonlocal is_first
        for key in chance.sample(KEYS, EACH):
            before = cast("dict[str, str] | None", ctx.session.get(key))
            ctx.session[key] = {"by": ctx.run_id}
            updates.append(Update(ctx.run_id, key, "" if before is None else before["by"]))
        if is_first:
            is_first = False
            meeting.wait(PATIENCE)
        return "done"

    model = FunctionModel(lambda request: says("ok") if len(request.messages) > 1 else calls("update"))
    return us.Agent(f"clerk{seed}", model=model, tools=[update])


def _updated(system: us.ActorSystem, threads: int, runs: int) -> Found:
    found = Found([], [])
    meeting = threading.Barrier(threads)

    def work(seed: int) -> None:
        agent = _agent(found.updates, seed, meeting)
        for _ in range(runs):
            handle = agent.submit("go", conversation_id=CONVERSATION, user_id="ada", system=system)
            for event in handle.events():
                assert not isinstance(event, (us.SessionNotSaved, us.RunFailed)), (event, event.error)
                if isinstance(event, us.SessionOverwritten):
                    found.told.extend([Told(event.run_id, key, event.other_run_id) for key in event.keys])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return found


def _left(system: us.ActorSystem) -> dict[str, str]:
    reader = us.Agent("reader", model=FunctionModel(lambda request: says("ok")))
    session = reader.run("go", conversation_id=CONVERSATION, user_id="ada", system=system).session
    return {key: cast("dict[str, str]", value)["by"] for key, value in session.items()}


def _read(text: str) -> Found:
    updates, told = json.loads(text)
    return Found([Update(*each) for each in updates], [Told(*each) for each in told])


def _main(url: str, threads: str, runs: str) -> None:
    with us.ActorSystem("shop", store=url) as system:
        print(json.dumps(_updated(system, int(threads), int(runs))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
