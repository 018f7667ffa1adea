"""Runs of agents whose memory is in a store: the store of their system, or one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

import understudy as us
from tests.support.together import all_at_once
from understudy.testing import FunctionModel, ScriptedModel, says

CLERK = """
import sys
import understudy as us
from understudy.testing import FunctionModel, says

clerk = us.Agent("clerk", model=FunctionModel(lambda request: says(str(len(request.messages)))), memory=us.PersistentMemory())
"""


def clerk(memory: us.Memory | None = None) -> us.Agent[str]:
    """Return an agent that answers with the number of messages that its model saw."""
    model = FunctionModel(lambda request: says(str(len(request.messages))))
    return us.Agent("clerk", model=model, memory=us.PersistentMemory() if memory is None else memory)


def in_process(body: str, *arguments: object) -> str:
    """Run a program in a process of its own and return what it prints."""
    command = [sys.executable, "-c", CLERK + textwrap.dedent(body), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_another_process_goes_on_with_a_conversation(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    program = """
        with us.ActorSystem("shop", store=sys.argv[1]) as system:
            print(clerk.run("hello", system=system, user_id="ada", conversation_id="c-42").text)
    """

    assert [in_process(program, url) for _ in range(3)] == ["1\n", "3\n", "5\n"]


@pytest.mark.filterwarnings("ignore:.*has no store:understudy.MemoryNotUsed")
def test_without_a_store_a_conversation_ends_with_its_system() -> None:
    agent = clerk()
    for _ in range(2):
        with us.ActorSystem("shop") as system:
            said = [agent.run("hi", system=system, conversation_id="c-42").text for _ in range(2)]

        assert said == ["1", "3"]


@pytest.mark.parametrize("memory", [us.PersistentMemory, us.WindowedMemory(memory=us.PersistentMemory())])
def test_a_memory_without_a_store_is_told_once_where_the_run_was_begun(memory: us.Memory, tmp_path: Path) -> None:
    agent = clerk(memory).replace(id=f"told-{type(memory).__name__}")
    line = us.SequentialAgent("line", [agent])
    with us.ActorSystem("shop") as system, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with us.ActorSystem("stored", store=f"sqlite:///{tmp_path}/shop.db") as stored:
            line.run("hi", system=stored, conversation_id="c-42")
        clerk(us.PersistentMemory(f"sqlite:///{tmp_path}/own.db")).run("hi", system=system, conversation_id="c-42")
        for each in (line, line, agent, agent.replace(max_turns=3)):
            each.run("hi", system=system, conversation_id="c-42")

    ours = [warning for warning in told if warning.category is us.MemoryNotUsed]
    assert [warning.filename for warning in ours] == [__file__]
    assert f"agent {agent.id!r} has a PersistentMemory, and system 'shop' has no store" in str(ours[0].message)


def test_one_memory_is_that_of_each_system_it_is_used_in(tmp_path: Path) -> None:
    agent = clerk()
    with (
        us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/shop.db") as shop,
        us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/other.db") as other,
    ):
        said = [agent.run("hi", system=system, conversation_id="c-42").text for system in (shop, shop, other, shop)]

    assert said == ["1", "3", "1", "5"]


def test_a_memory_with_a_store_of_its_own_uses_that_one_in_every_system(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    agent = clerk(us.PersistentMemory(url, turns=1))
    for _ in range(2):
        with us.ActorSystem("shop") as system:
            agent.run("hi", system=system, user_id="ada", conversation_id="c-42")

    kept = us.PersistentMemory(url).read(us.ConversationKey("shop", "ada", "c-42"))
    assert [[message.text for message in each.messages] for each in kept] == [["hi", "1"], ["hi", "3"]]


@pytest.mark.parametrize("memory", [us.PersistentMemory, us.WindowedMemory(turns=1, memory=us.PersistentMemory())])
def test_the_class_and_a_window_of_a_memory_use_the_store_of_the_system(memory: us.Memory, tmp_path: Path) -> None:
    with us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/shop.db") as system:
        for _ in range(3):
            clerk(memory).run("hi", system=system, user_id="ada", conversation_id="c-42")

    kept = us.PersistentMemory(f"sqlite:///{tmp_path}/shop.db").read(us.ConversationKey("shop", "ada", "c-42"))
    assert len(kept) == 3


def test_a_window_of_a_memory_limits_what_a_run_knows(tmp_path: Path) -> None:
    agent = clerk(us.WindowedMemory(turns=1, memory=us.PersistentMemory()))
    with us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/shop.db") as system:
        said = [agent.run("hi", system=system, conversation_id="c-42").text for _ in range(3)]

    assert said == ["1", "3", "3"]


def test_a_function_that_makes_a_memory_in_a_store_is_refused_by_the_run(tmp_path: Path) -> None:
    agent = us.Agent("clerk", model=ScriptedModel([says("hi")]), memory=lambda: us.PersistentMemory())

    with us.ActorSystem("shop") as system, pytest.raises(us.AgentCrashed, match="give the object itself"):
        agent.run("hi", system=system, conversation_id="c-42")


def test_runs_of_different_conversations_use_a_memory_at_once_and_lose_nothing(tmp_path: Path) -> None:
    agent = clerk()
    with us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/shop.db") as system:
        said: dict[int, list[str]] = {}

        def talk(number: int) -> None:
            conversation = f"c-{number}"
            said[number] = [agent.run("hi", system=system, conversation_id=conversation).text for _ in range(5)]

        all_at_once(talk, range(16))

        assert list(said.values()) == [["1", "3", "5", "7", "9"]] * 16
        assert "PersistentMemory" in system.tree()


def test_a_store_that_cannot_be_opened_ends_the_run_and_the_next_one_tries_again(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    agent = clerk(us.PersistentMemory(f"sqlite:///{folder}/shop.db"))
    with us.ActorSystem("shop", store_patience=0.0) as system:
        with pytest.raises((us.AgentCrashed, us.StoreError), match="there is no folder"):
            agent.run("hi", system=system, conversation_id="c-42")
        folder.mkdir()

        assert agent.run("hi", system=system, conversation_id="c-42").text == "1"


def test_to_make_an_agent_loads_no_database() -> None:
    loaded = in_process("""
        import json
        us.Agent("other", model="rehearsal", memory=us.PersistentMemory("sqlite:///shop.db"))
        print(json.dumps([name for name in ("sqlite3", "psycopg", "pydantic") if name in sys.modules]))
    """)

    assert json.loads(loaded) == []


def test_a_summary_outlives_its_process_and_the_turns_it_stands_for_stay_readable(tmp_path: Path) -> None:
    url, summaries, seen = f"sqlite:///{tmp_path}/shop.db", list[str](), list[list[str]]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.system.startswith("You sum up"):
            summaries.append(f"Summary {len(summaries) + 1}.")
            return says(summaries[-1])
        seen.append([message.text for message in request.messages])
        return says("a" * 2000)

    model = FunctionModel(answer, context_window=8000)
    chat = us.Agent("chat", model=model, memory=us.CompactedMemory(us.PersistentMemory(turns=None), prune=False))
    for number in range(30):
        with us.ActorSystem("shop", store=url) as system:
            chat.run(f"{number}:" + "q" * 800, system=system, user_id="ada", conversation_id="c-42")

    memory, key = us.PersistentMemory(url), us.ConversationKey("shop", "ada", "c-42")
    kept = memory.read(key)
    roles = [message.role for message in us.PersistentMemory(url, turns=None).load(key)]
    assert roles == ["user", "assistant"] * (len(roles) // 2)
    assert [each.messages[0].text[:3] for each in kept if each.kind == "turn"] == [f"{n}:q"[:3] for n in range(30)]
    assert [each.messages[0].text.split("\n\n")[-1] for each in kept if each.kind == "summary"] == summaries
    assert 1 <= len(summaries) < 10
    assert max(map(len, seen)) < 20
    assert summaries[-1] in seen[-1][0]
