"""Turns of one run in several processes: forks, workers that die, and what travels with the run."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import understudy as us
from understudy.testing import FunctionModel, ScriptedModel, calls, says

WAIT = 60.0

HEAD = """
import os, sys, threading, time
import understudy as us
from understudy.testing import FunctionModel, ScriptedModel, calls, says

URL, TOKEN = sys.argv[1:]

def look() -> str:
    return "seven"
"""


def output(body: str, url: str, token: str = "") -> str:
    """Run a program to its end, all processes that it forks included, and return what it printed."""
    program = HEAD + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, url, token],
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db"


def first_token(url: str) -> str:
    """Do the first turn of a run, and return the token of the second."""

    def look() -> str:
        return "seven"

    clerk = us.Agent("clerk", model=FunctionModel(lambda request: calls("look")), tools=[look])
    with us.ActorSystem("shop", store=url) as system:
        step = clerk.run_turn("How many?", system=system)
    assert isinstance(step, us.MoreTurns)
    return step.token


# --- forks in the middle of a turn

FORKS = """
entered, gate = threading.Event(), threading.Event()

def answer(request):
    print("model", os.getpid() == parent, flush=True)
    if os.getpid() == parent:
        entered.set()
        gate.wait()
    return says("Done.")

parent = os.getpid()
clerk = us.Agent("clerk", model=FunctionModel(answer), tools=[look])
system = us.ActorSystem("shop", store=URL)
steps = []
worker = threading.Thread(target=lambda: steps.append(clerk.run_turn(token=TOKEN, lease=0.5, system=system)), daemon=True)
worker.start()
entered.wait()
child = os.fork()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_forked_during_a_turn_neither_does_it_nor_ends_its_lease(url: str) -> None:
    told = output(
        FORKS
        + """
        if child == 0:
            with us.ActorSystem("shop", store=URL) as own:
                try:
                    clerk.run_turn(token=TOKEN, system=own)
                except us.TokenLeased:
                    print("leased", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        gate.set()
        worker.join()
        print(steps[0].text)
        """.replace("\n        ", "\n"),
        url,
        first_token(url),
    )

    assert told == "model True\nleased\nDone.\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_forked_during_a_turn_does_not_renew_its_lease(url: str) -> None:
    told = output(
        FORKS
        + """
        if child:
            os._exit(0)  # in the middle of the turn
        with us.ActorSystem("shop", store=URL) as own:
            while True:
                try:
                    print(clerk.run_turn(token=TOKEN, system=own).text, flush=True)
                    break
                except us.TokenLeased as error:
                    time.sleep(max(0.01, error.until - time.time()))
        os._exit(0)
        """.replace("\n        ", "\n"),
        url,
        first_token(url),
    )

    assert told == "model True\nmodel False\nDone.\n"


# --- what travels with a run

WORKER = """
def visit(ctx: us.ToolContext) -> str:
    visits = ctx.session.setdefault("user:visits", [])
    visits.append(os.getpid())
    return "a shelf: " + "book " * 600

def answer(request):
    if request.system.startswith("You sum up"):
        return says("Shelves were seen.")
    if request.turn < 12:
        return calls("visit")
    return says("Summed up." if any("Shelves were seen." in each.text for each in request.messages) else "Whole.")

model = FunctionModel(answer, context_window=8000)
clerk = us.Agent("clerk", model=model, tools=[visit], compaction=us.Compaction(prune=False), max_iterations=20)
with us.ActorSystem("shop", store=URL) as system:
    for _ in range(6):
        step = clerk.run_turn(token=TOKEN, system=system) if TOKEN else clerk.run_turn("Look.", user_id="ada", system=system)
        TOKEN = getattr(step, "token", "")
    print(step.turns, len(set(step.session["user:visits"])), TOKEN or step.text)
"""


def test_a_summary_and_the_session_travel_with_a_run_from_process_to_process(url: str) -> None:
    turns, processes, token = output(WORKER, url).split()
    assert (turns, processes) == ("6", "1")

    told = output(WORKER, url, token)

    assert told == "12 2 Summed up.\n"
    with us.ActorSystem("shop", store=url) as system:
        later = us.Agent("later", model=ScriptedModel([says("Hi.")])).run("Hello", user_id="ada", system=system)
    visits = later.session["user:visits"]
    assert isinstance(visits, list)
    assert len(visits) == 11
