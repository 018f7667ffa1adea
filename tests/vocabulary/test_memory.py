"""The memories of this process: whole turns, windows, and how much they keep."""

from __future__ import annotations

import os
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from tests.hosts.forking import in_child
from tests.support.together import all_at_once
from understudy.vocabulary.messages import user_message
from understudy.vocabulary.runs import memory as memory_module
from understudy.vocabulary.runs.conversations import DEFAULT_TURNS
from understudy.vocabulary.runs.memory import DEFAULT_CONVERSATIONS

KEY = us.ConversationKey("shop", "ada", "c-42")


def turn(*texts: str) -> list[us.Message]:
    return [user_message(text) for text in texts]


def texts(memory: us.Memory, key: us.ConversationKey = KEY) -> list[str]:
    return [message.text for message in memory.load(key)]


def test_a_conversation_nobody_had_is_empty() -> None:
    assert list(us.InMemoryMemory().load(KEY)) == []


@pytest.mark.parametrize(
    "other", [KEY._replace(app="bank"), KEY._replace(user="bob"), KEY._replace(conversation="c-1")]
)
def test_app_user_and_conversation_tell_conversations_apart(other: us.ConversationKey) -> None:
    memory = us.InMemoryMemory()
    memory.append(KEY, turn("secret"), "run-1")

    assert texts(memory, other) == []
    assert texts(memory) == ["secret"]


@given(st.lists(st.integers(1, 5), max_size=40), st.integers(1, 25))
def test_a_window_holds_the_last_turns_and_cuts_none(sizes: list[int], window: int) -> None:
    memory, turns = us.WindowedMemory(window), list[list[str]]()
    for number, size in enumerate(sizes):
        turns.append([f"{number}.{place}" for place in range(size)])
        memory.append(KEY, turn(*turns[-1]), f"run-{number}")

    assert texts(memory) == [text for each in turns[-window:] for text in each]


def test_a_window_is_one_of_each_conversation() -> None:
    memory = us.WindowedMemory(turns=1)
    other = KEY._replace(conversation="c-1")
    for key in (KEY, other):
        memory.append(key, turn("first"), "")
        memory.append(key, turn("last"), "")

    assert (texts(memory), texts(memory, other)) == (["last"], ["last"])


def test_of_too_many_conversations_the_one_that_was_used_least_recently_is_forgotten() -> None:
    memory = us.InMemoryMemory(max_conversations=2)
    a, b, c = [KEY._replace(conversation=name) for name in "abc"]
    memory.append(a, turn("a"), "")
    memory.append(b, turn("b"), "")
    assert texts(memory, a) == ["a"]  # to read is to use
    memory.append(c, turn("c"), "")

    assert [texts(memory, key) for key in (a, b, c)] == [["a"], [], ["c"]]
    assert len(memory) == 2


def test_to_ask_for_conversations_nobody_had_keeps_nothing() -> None:
    memory = us.InMemoryMemory()
    for number in range(100):
        memory.load(KEY._replace(conversation=str(number)))

    assert len(memory) == 0
    assert memory  # and it is a memory all the same, for who writes `memory or …`


def test_a_conversation_is_forgotten_when_somebody_says_so() -> None:
    memory = us.InMemoryMemory()
    memory.append(KEY, turn("old"), "")
    memory.clear(KEY)
    memory.clear(KEY)

    assert texts(memory) == []


def test_the_usual_bounds_are_those_of_the_docs() -> None:
    memory = us.WindowedMemory()
    for number in range(DEFAULT_TURNS + 1):
        memory.append(KEY, turn(str(number)), "")
    for number in range(DEFAULT_CONVERSATIONS):
        memory.append(KEY._replace(conversation=str(number)), (), "")

    assert len(memory) == DEFAULT_CONVERSATIONS == 10_000
    assert texts(memory) == []
    assert DEFAULT_TURNS == 20


def test_what_was_loaded_does_not_change_when_the_conversation_goes_on() -> None:
    memory, added = us.InMemoryMemory(), turn("one")
    memory.append(KEY, added, "")
    seen = memory.load(KEY)
    added.append(user_message("two"))
    memory.append(KEY, turn("three"), "")

    assert [message.text for message in seen] == ["one"]
    assert texts(memory) == ["one", "three"]


@pytest.mark.parametrize("turns", [0, -1])
def test_a_window_is_at_least_one_turn(turns: int) -> None:
    with pytest.raises(ValueError, match=f"turns must be at least 1, got {turns}"):
        us.WindowedMemory(turns)


@pytest.mark.parametrize("number", [1.5, "3", True])
def test_numbers_are_whole(number: int) -> None:
    with pytest.raises(TypeError, match="turns must be a whole number"):
        us.WindowedMemory(number)
    with pytest.raises(TypeError, match="max_conversations must be a whole number"):
        us.InMemoryMemory(max_conversations=number)


@pytest.mark.parametrize("wrong", [{}, "memory", object()])
def test_an_agent_refuses_what_is_no_memory(wrong: us.Memory) -> None:
    with pytest.raises(TypeError, match=r"agent 'clerk': memory must have load\(\), append\(\) and clear\(\)"):
        us.Agent("clerk", model="rehearsal", memory=wrong)


def test_a_changed_copy_of_an_agent_has_the_same_memory_unless_it_is_changed() -> None:
    memory = us.InMemoryMemory()
    agent = us.Agent("clerk", model="rehearsal", memory=memory)

    assert agent.replace(max_iterations=3).memory is memory
    assert agent.replace(memory=None).memory is None


def test_a_memory_changes_no_fingerprint() -> None:
    agent = us.Agent("clerk", model="rehearsal")

    assert agent.replace(memory=us.InMemoryMemory()).run_spec.fingerprint() == agent.run_spec.fingerprint()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_was_forked_while_the_memory_was_in_use_can_use_it() -> None:
    memory = us.InMemoryMemory()
    memory.append(KEY, turn("before"), "")
    assert us.ActorSystem.__name__  # what renews locks in children is there once there can be runs
    seen: list[str] = []

    def read() -> None:
        all_at_once(lambda _: seen.extend(texts(memory)), [0])
        assert seen == ["before"]

    with memory_module._lock:  # pyright: ignore[reportPrivateUsage]  (held by a thread that the child does not have)
        in_child(read)


@pytest.mark.parametrize("wrong", ["c-42", None, ("ada", "c-42")])
def test_what_names_no_conversation_is_not_said_to_be_forgotten(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"named by ConversationKey\(app, user, conversation\)"):
        us.InMemoryMemory().clear(cast(us.ConversationKey, wrong))
