"""Conversations and memories that were in use before a fork, seen from the child."""

from __future__ import annotations

import os

import pytest

from . import processes

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.timeout(60),
]

PROGRAM = """
import threading
import understudy as us
from tests.hosts.forking import in_child
from understudy.actors.waiting.graph import graph

entered, gate = threading.Event(), threading.Event()

def answer(request):
    if request.text == "hold":
        entered.set()
        gate.wait()
    return us.says(str(len(request.messages)))

memory = us.InMemoryMemory()
agent = us.Agent("chat", model=us.FunctionModel(answer), memory=memory)

def talk(text):
    return agent.run(text, conversation_id="c-42", timeout=20).text

assert talk("hello") == "1"
held = agent.submit("hold", conversation_id="c-42")
assert entered.wait(10)
in_line = agent.submit("in line", conversation_id="c-42")

def child():
    assert talk("go on") == "3"      # what was said before, and not what the parent is at
    assert talk("and on") == "5"
    assert len(graph) == 0

in_child(child)
assert in_line.status().doing == "waiting for conversation c-42"
gate.set()
assert held.result(10).text == "3"
assert in_line.result(10).text == "5"
"""


def test_a_child_holds_no_conversation_and_remembers_on_its_own() -> None:
    processes.check(PROGRAM)
