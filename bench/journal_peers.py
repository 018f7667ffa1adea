"""`python -m bench.journal_peers`: what a step costs that another process can go on from, here and in other frameworks.

The job is a run of some rounds of one tool call, whose results have 1 KB: once alone, and 16 at once. Each framework keeps what
it needs in an SQLite file, in WAL mode at synchronous=NORMAL, and in a process of its own; what the same run costs without that is
taken off. The others have environments of their own: making them installs the frameworks from the package index, once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, cast

from .peers import Peer, python_of

RUNS = 16
OURS = "understudy"

PEERS = (
    Peer(
        OURS,
        "",
        """
import understudy as us
def look(number: int) -> str:
    return result(number)
def answer(request):
    return us.calls("look", number=request.turn) if request.turn <= rounds else us.says("done")
clerk = us.Agent("clerk", model=us.FunctionModel(answer), tools=[look], max_turns=rounds + 1, max_iterations=rounds + 1)
stored, plain = us.ActorSystem("stored", store="sqlite:///" + file), us.ActorSystem("plain")
def with_journal(): clerk.run("go", system=stored)
def without(): clerk.run("go", system=plain)
""",
    ),
    Peer(
        "langgraph",
        "langgraph langgraph-checkpoint-sqlite",
        """
import itertools, operator, sqlite3
from typing import Annotated, TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
class State(TypedDict):
    messages: Annotated[list, operator.add]
    turn: int
def model(state):
    number = state["turn"] + 1
    call = {"id": f"c{number}", "name": "look", "arguments": {"number": number}}
    return {"messages": [{"role": "assistant", "calls": [call]}], "turn": number}
def tool(state):
    return {"messages": [{"role": "tool", "id": f"c{state['turn']}", "content": result(state["turn"])}]}
graph = StateGraph(State)
graph.add_node("model", model)
graph.add_node("tool", tool)
graph.add_edge(START, "model")
graph.add_edge("model", "tool")
graph.add_conditional_edges("tool", lambda state: "model" if state["turn"] < rounds else END)
connection = sqlite3.connect(file, check_same_thread=False)
connection.execute("PRAGMA synchronous=NORMAL")
saver = SqliteSaver(connection)
saver.setup()
stored, plain, numbers = graph.compile(checkpointer=saver), graph.compile(), itertools.count()
def with_journal():
    config = {"recursion_limit": 10**6, "configurable": {"thread_id": str(next(numbers))}}
    stored.invoke({"messages": [], "turn": 0}, config, durability="sync")
def without(): plain.invoke({"messages": [], "turn": 0}, {"recursion_limit": 10**6})
""",
    ),
    Peer(
        "dbos",
        "dbos",
        """
import sqlalchemy
@sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, "connect")
def set_up(connection, record):
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
from dbos import DBOS
DBOS(config={"name": "bench", "system_database_url": "sqlite:///" + file, "run_admin_server": False, "log_level": "ERROR"})
def model(number): return {"id": f"c{number}", "name": "look", "arguments": {"number": number}}
def tool(number): return result(number)
model_step, tool_step = DBOS.step()(model), DBOS.step()(tool)
@DBOS.workflow()
def with_journal():
    for number in range(rounds): model_step(number), tool_step(number)
def without():
    for number in range(rounds): model(number), tool(number)
DBOS.launch()
""",
    ),
)

JOB = """
import json, os, sys, threading, time
file, rounds, runs, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
def result(number): return "x" * 1024
{code}
def seconds(action):
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
def at_once(action):
    threads = [threading.Thread(target=action) for _ in range(runs)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
with_journal(), without()
alone = sorted((seconds(with_journal) - seconds(without)) / (2 * rounds) for _ in range(repeats))
together = seconds(lambda: at_once(with_journal)) / (2 * rounds * runs)
print(json.dumps({{"alone": alone[len(alone) // 2], "together": together}}), flush=True)
os._exit(0)
"""


def do_job(peer: Peer, rounds: int, repeats: int) -> dict[str, float]:
    """Do the job in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        arguments = [f"{folder}/runs.db", str(rounds), str(RUNS), str(repeats)]
        python = sys.executable if peer.name == OURS else str(python_of(peer))
        command = [python, "-I", "-c", JOB.format(code=peer.code), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{peer.name} failed:\n{done.stderr[-2000:]}")
    return cast("dict[str, Any]", json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.journal_peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="how many rounds of one tool call a run has (50)")
    parser.add_argument("--repeats", type=int, default=5, help="how many runs a process makes alone (5)")
    parser.add_argument("--passes", type=int, default=3, help="how often each does the job, in turn (3)")
    options = parser.parse_args(arguments)
    found: dict[str, list[dict[str, float]]] = {peer.name: [] for peer in PEERS}
    for number in range(options.passes):
        print(f"pass {number + 1} of {options.passes}", file=sys.stderr, flush=True)
        for peer in PEERS:
            found[peer.name].append(do_job(peer, options.rounds, options.repeats))
    _print(found)
    return 0


def _print(found: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    print(f"{'':<12} {'a step alone':>14} {'ratio':>6} {f'of {RUNS} runs':>12} {'ratio':>6} {'steps/s':>8}   (medians)")
    for name, passes in found.items():
        line = f"{name:<12}"
        for key, width in (("alone", 11), ("together", 9)):
            ratio = statistics.median([one[key] / ours[key] for one, ours in zip(passes, found[OURS], strict=True)])
            line += f" {_median(passes, key) * 1e6:>{width},.0f} µs {ratio:>6.1f}"
        print(f"{line} {1 / _median(passes, 'together'):>8,.0f}")


def _median(passes: Sequence[Mapping[str, float]], key: str) -> float:
    return statistics.median([each[key] for each in passes])


if __name__ == "__main__":
    sys.exit(main())
