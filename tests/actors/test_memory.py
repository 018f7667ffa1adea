"""What an agent with a memory knows of a conversation, what is stored when, and memories that fail, block or hang."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import sqlite3
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest

import understudy as us
from tests.support.paths import ROOT
from tests.support.scripts import WAIT, eventually, finished, needs_input
from tests.support.stores import DictStore
from understudy.actors.memory import memory_actor
from understudy.actors.runs.ownership import Stale
from understudy.actors.system import runtime
from understudy.actors.system.actor_system import runs_of
from understudy.orchestration.definitions.port import RunOptions
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.messages import user_message

KEY = us.ConversationKey("understudy", "default", "c-42")
DOCS = ROOT / "docs" / "memory.md"
QUESTION = says("__ask_user__: Who is there?")


def look(order: str) -> str:
    return f"order {order}"


class Notebook:
    """A memory that does what a test wants before it does what it should."""

    def __init__(self, **before: Callable[[], object]) -> None:
        self.kept: dict[us.ConversationKey, list[us.Message]] = {}
        self.runs: list[str] = []
        self._before = before

    def load(self, key: us.ConversationKey) -> Sequence[us.Message]:
        self._before.get("load", int)()
        return list(self.kept.get(key, ()))

    def append(self, key: us.ConversationKey, messages: Sequence[us.Message], run_id: str) -> None:
        self._before.get("append", int)()
        self.kept.setdefault(key, []).extend(messages)
        self.runs.append(run_id)

    def clear(self, key: us.ConversationKey) -> None:
        self.kept.pop(key, None)


def agent_with(memory: us.Memory | None, *turns: us.ModelTurn | Exception, id: str = "clerk") -> us.Agent:
    return us.Agent(id, model=ScriptedModel(turns), tools=[look], memory=memory)


def seen_by(agent: us.Agent) -> list[list[str]]:
    """Return the texts of every request that the agent's model got."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return [[message.text for message in request.messages] for request in model.requests]


def texts(memory: us.Memory, key: us.ConversationKey = KEY) -> list[str]:
    return [message.text for message in memory.load(key)]


@pytest.fixture
def memory() -> us.InMemoryMemory:
    return us.InMemoryMemory()


# --- what a run knows


def test_a_run_knows_what_was_said_in_its_conversation_before(memory: us.InMemoryMemory) -> None:
    agent = agent_with(memory, says("Hello, Ada."), says("Ada."))

    agent.run("My name is Ada", conversation_id="c-42")
    outcome = agent.run("What is my name?", conversation_id="c-42")

    assert seen_by(agent)[1] == ["My name is Ada", "Hello, Ada.", "What is my name?"]
    assert [message.text for message in outcome.messages] == ["What is my name?", "Ada."]  # its own only


def test_conversations_users_and_systems_do_not_hear_each_other(memory: us.InMemoryMemory) -> None:
    agent = agent_with(memory, *[says("Yes.")] * 4)

    agent.run("secret", conversation_id="c-42")
    agent.run("other conversation", conversation_id="c-1")
    agent.run("other user", conversation_id="c-42", user_id="bob")
    with us.ActorSystem("shop") as system:
        agent.run("other system", conversation_id="c-42", system=system)

    assert [len(each) for each in seen_by(agent)] == [1, 1, 1, 1]


def test_a_run_without_a_conversation_is_neither_told_nor_remembered(memory: us.InMemoryMemory) -> None:
    agent = agent_with(memory, *[says("Yes.")] * 3)
    agent.run("first", conversation_id="c-42")
    agent.run("alone")
    agent.run("last", conversation_id="c-42")

    assert seen_by(agent)[1:] == [["alone"], ["first", "Yes.", "last"]]
    assert len(memory) == 1


@pytest.mark.parametrize("given", [(), (user_message("given"),)])
def test_an_explicit_history_leaves_the_memory_alone(memory: us.InMemoryMemory, given: Sequence[us.Message]) -> None:
    agent = agent_with(memory, *[says("Yes.")] * 2)
    agent.run("first", conversation_id="c-42")
    agent.run("aside", conversation_id="c-42", history=given)

    assert seen_by(agent)[1] == [*[message.text for message in given], "aside"]
    assert texts(memory) == ["first", "Yes."]


def test_agents_share_a_conversation_if_they_share_a_memory(memory: us.InMemoryMemory) -> None:
    clerk, writer = agent_with(memory, says("Seven.")), agent_with(memory, says("7"), id="writer")
    stranger = agent_with(us.InMemoryMemory(), says("?"), id="stranger")
    for agent in (clerk, writer, stranger):
        agent.run("How many?", conversation_id="c-42")

    assert seen_by(writer) == [["How many?", "Seven.", "How many?"]]
    assert seen_by(stranger) == [["How many?"]]


def test_a_name_in_place_of_a_conversation_is_refused() -> None:
    agent = agent_with(None)
    with pytest.raises(ValueError, match="conversation_id must not be empty"):
        agent.run("go", conversation_id="")
    with pytest.raises(TypeError, match="conversation_id must be a string"):
        agent.run("go", conversation_id=42)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="user_id must be a string"):
        agent.run("go", user_id=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_memory_that_a_run_has_no_part_in_is_told_once_where_the_run_was_begun(memory: us.InMemoryMemory) -> None:
    agent = agent_with(memory, *[says("Yes.")] * 4, id="told-once")

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        agent.run("first")
        agent.run("second")
        agent.replace(max_turns=3).submit("made anew").result(WAIT)

    assert [(warning.filename, warning.category) for warning in told] == [(__file__, us.MemoryNotUsed)]
    assert "agent 'told-once' has a memory" in str(told[0].message)
    assert "pass conversation_id=…, or history=[]" in str(told[0].message)


def test_a_group_is_told_of_the_memories_inside_of_it(memory: us.InMemoryMemory) -> None:
    line = us.SequentialAgent("line-with-memory", [agent_with(memory, says("Yes."))])

    with pytest.warns(us.MemoryNotUsed, match="'line-with-memory' runs agents with a memory"):
        line.run("go")


@pytest.mark.parametrize("options", [{"conversation_id": "c-42"}, {"history": []}])
def test_nothing_is_told_of_a_run_that_says_what_it_remembers(
    options: dict[str, Any], memory: us.InMemoryMemory
) -> None:
    agent = agent_with(memory, says("Yes."), id=f"says-{next(iter(options))}")

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        agent.run("go", **options)

    assert us.MemoryNotUsed not in [warning.category for warning in told]


def test_a_service_that_makes_agents_with_ids_of_their_own_is_told_of_a_hundred(
    memory: us.InMemoryMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody: set[str] = set()
    monkeypatch.setattr(runtime, "_told", nobody)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in range(runtime.MOST + 5):
            agent_with(memory, says("Yes."), id=f"request-{number}").run("go")

    assert len(told) == runtime.MOST


def test_runs_without_a_user_share_a_conversation_and_tell_tools_that_there_is_none(
    memory: us.InMemoryMemory,
) -> None:
    seen: list[str | None] = []

    def prompt(context: us.RunContext) -> str:
        seen.append(context.user_id)
        return "Be brief."

    agent = agent_with(memory, says("One."), says("Two.")).replace(system_prompt=prompt)
    agent.run("first", conversation_id="c-42")
    agent.run("second", conversation_id="c-42", user_id=None)

    assert seen == [None, None]
    assert [message.text for message in memory.load(KEY)] == ["first", "One.", "second", "Two."]


def test_a_system_that_requires_users_refuses_a_conversation_of_nobody(memory: us.InMemoryMemory) -> None:
    agent = agent_with(memory, says("One."), says("Two."), says("Three."))
    with us.ActorSystem("shop", require_user=True) as system:
        for runner in (agent, us.SequentialAgent("line", [agent])):
            with pytest.raises(ValueError, match="conversation 'c-42', and no user_id says whose it is"):
                runner.run("go", conversation_id="c-42", system=system)

        agent.run("stands alone", system=system)
        agent.run("hers", conversation_id="c-42", user_id="ada", system=system)
        us.Agent("forgetful", model=ScriptedModel([says("Yes.")])).run("go", conversation_id="c-42", system=system)


def test_what_a_paused_run_kept_of_a_user_who_was_not_said_is_read_as_before(tmp_path: Path) -> None:
    memory = us.InMemoryMemory()
    agent = agent_with(memory, says("__ask_user__: Who?"), says("Ada."))
    store = f"sqlite:///{tmp_path}/shop.db"
    with us.ActorSystem("understudy", store=store) as system:
        paused = needs_input(agent.run("go", conversation_id="c-42", system=system))
    with sqlite3.connect(tmp_path / "shop.db") as base:  # as it was written when nobody was "default"
        base.execute(
            "UPDATE understudy_pauses SET payload = replace(payload, ?, ?)", ('"user_id":null', '"user_id":"default"')
        )
        assert '"user_id":"default"' in base.execute("SELECT payload FROM understudy_pauses").fetchone()[0]

    with us.ActorSystem("understudy", store=store) as system:
        agent.resume(paused.token, "Ada", system=system)

    assert memory.load(KEY)[0].text == "go"


# --- whole turns


def test_what_the_model_said_before_its_tools_and_what_they_gave_is_not_lost(memory: us.InMemoryMemory) -> None:
    first = says("Let me look.") + calls("look", order="7")
    agent = agent_with(memory, first, says("It is there."), says("Order 7."))

    outcome = agent.run("Where is it?", conversation_id="c-42")
    agent.run("Which one?", conversation_id="c-42")

    assert memory.load(KEY)[:4] == outcome.messages
    model = agent.model
    assert isinstance(model, ScriptedModel)
    shown = model.requests[2].messages
    assert list(shown[:4]) == list(outcome.messages)
    assert [call.name for call in shown[1].tool_calls] == ["look"]
    assert [result.call_id for result in shown[2].tool_results] == [shown[1].tool_calls[0].id]


def test_a_window_does_not_part_a_tool_call_from_its_result() -> None:
    memory = us.WindowedMemory(turns=1)
    agent = agent_with(memory, calls("look", order="1"), says("a"), calls("look", order="2"), says("b"), says("c"))
    for text in ("first", "second", "third"):
        agent.run(text, conversation_id="c-42")

    model = agent.model
    assert isinstance(model, ScriptedModel)
    shown = model.requests[-1].messages
    assert [message.text for message in shown] == ["second", "", "", "b", "third"]
    assert shown[1].tool_calls[0].id == shown[2].tool_results[0].call_id


def test_a_conversation_does_not_forget_which_provider_spoke_when_another_one_goes_on(
    memory: us.InMemoryMemory,
) -> None:
    thinking = us.ModelTurn((us.ReasoningPart("hm", signature="s"), us.TextPart("Hi.")), dialect="anthropic")
    agent = agent_with(memory, thinking)
    agent.run("Hello", conversation_id="c-42")
    other = ScriptedModel([says("ok")])
    agent.replace(model=other).run("Go on", conversation_id="c-42")

    shown = other.requests[0].messages[1]
    assert (shown.dialect, shown.parts) == ("anthropic", thinking.parts)


# --- what is stored when


def test_a_paused_run_stores_nothing_before_its_end_and_then_all_of_it_once(memory: us.InMemoryMemory) -> None:
    agent = agent_with(memory, QUESTION, QUESTION, says("Hello, Ada."))
    outcome = agent.run("go", conversation_id="c-42")
    for _ in range(2):
        assert isinstance(outcome, us.NeedsInput)
        assert texts(memory) == []
        outcome = agent.resume(outcome.token, "Ada")

    assert memory.load(KEY) == finished(outcome).messages
    assert texts(memory) == ["go", QUESTION.text, "Ada", QUESTION.text, "Ada", "Hello, Ada."]


def test_a_run_at_its_limit_stores_nothing_before_it_goes_on_to_its_end(memory: us.InMemoryMemory) -> None:
    agent = agent_with(memory, calls("look", order="1"), says("ok")).replace(max_iterations=0)
    with pytest.raises(us.MaxIterationsExceeded) as caught:
        agent.run("go", conversation_id="c-42")
    assert texts(memory) == []

    agent.resume(caught.value.token, max_iterations=1)
    assert texts(memory)[::3] == ["go", "ok"]


@pytest.mark.parametrize(
    "error", [us.ProviderError("no"), us.BadReply("no"), RuntimeError("no"), us.CallbackAbort("no")]
)
def test_a_run_that_fails_or_is_aborted_leaves_no_trace(memory: us.InMemoryMemory, error: Exception) -> None:
    aborts = isinstance(error, us.CallbackAbort)
    agent = agent_with(memory, calls("look", order="1"), says("No.") if aborts else error, says("Yes."))
    with pytest.raises((us.ProviderError, us.CallbackAbort)):
        agent.replace(callbacks=[Deciding(us.Abort("no"))] * aborts).run("go", conversation_id="c-42")
    agent.replace(model=ScriptedModel([says("Yes.")])).run("again", conversation_id="c-42")

    assert texts(memory) == ["again", "Yes."]


@pytest.mark.parametrize("timeout", [None, 0.05])
def test_a_run_that_is_cancelled_or_out_of_time_leaves_no_trace(
    memory: us.InMemoryMemory, timeout: float | None
) -> None:
    here, go, answered = threading.Event(), threading.Event(), threading.Event()

    def hold(request: us.ModelRequest) -> us.ModelTurn:
        here.set()
        assert go.wait(WAIT)
        answered.set()
        return says("too late")

    agent = us.Agent("clerk", model=FunctionModel(hold), memory=memory)
    with us.ActorSystem("shop") as system:
        handle = agent.submit("go", conversation_id="c-42", timeout=timeout, system=system)
        if timeout is None:
            assert here.wait(WAIT)
            assert handle.cancel()
        assert isinstance(handle.exception(WAIT), us.RunCancelled if timeout is None else us.RunTimedOut)
        go.set()
        eventually(lambda: system.hung == 0, "its work has come back")

    assert len(memory) == 0


@pytest.mark.parametrize("kind", [us.InMemoryMemory, Notebook])
def test_a_work_whose_run_somebody_else_ended_stores_nothing(kind: type[us.Memory]) -> None:
    memory = kind()
    with us.ActorSystem("understudy") as system:
        record = runs_of(system).prepare(agent_with(memory), "go", RunOptions(conversation_id="c-42"))
        epoch, answer = record.epoch, us.Complete(text="yes", output="yes", messages=(user_message("go"),))
        assert record.host.endings.cancel(record)
        with contextlib.suppress(Stale):
            record.host.endings.complete(record, answer, epoch)

    assert isinstance(record.promise.error(), us.RunCancelled)
    assert texts(memory) == []


def test_nobody_hears_of_an_answer_that_is_not_stored(memory: us.InMemoryMemory) -> None:
    agent, stored = agent_with(memory, says("Yes."), says("Again.")), list[list[str]]()
    following: list[us.RunHandle[str]] = []

    def go_on(handle: us.RunHandle[str]) -> None:
        stored.append(texts(memory))
        following.append(agent.submit("next", conversation_id="c-42"))

    handle = agent.submit("go", conversation_id="c-42")
    handle.add_done_callback(go_on)
    for event in handle.events():
        if isinstance(event, us.RunFinished):
            stored.append(texts(memory)[:2])
    eventually(lambda: len(following) == 1, "the callback was called")
    following[0].result(WAIT)

    assert stored == [["go", "Yes."]] * 2
    assert seen_by(agent)[1] == ["go", "Yes.", "next"]


def test_a_restart_on_the_way_does_not_store_a_turn_twice(memory: us.InMemoryMemory) -> None:
    model = ScriptedModel([says("a"), calls("look", order="1"), us.RateLimited("busy"), says("b")])
    agent = us.Agent("clerk", model=model, tools=[look], memory=memory, restart_on=[us.RateLimited])
    agent.run("first", conversation_id="c-42")
    agent.run("second", conversation_id="c-42")

    assert texts(memory) == ["first", "a", "second", "", "", "b"]
    assert [message.text for message in model.requests[-1].messages[:3]] == ["first", "a", "second"]


class Deciding(us.AgentCallback):
    """Says what a test wants about every turn of the model's."""

    def __init__(self, action: us.CallbackAction) -> None:
        self.action = action

    def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        return self.action


def test_an_override_by_a_callback_does_not_keep_the_turn_from_being_stored(memory: us.InMemoryMemory) -> None:
    agent = agent_with(memory, calls("look", order="1"), says("Yes."))
    agent.replace(callbacks=[Deciding(us.OverrideResponse("No."))]).run("go", conversation_id="c-42")

    assert texts(memory) == ["go", "No."]


def test_an_answer_that_meets_no_criterion_is_not_stored(memory: us.InMemoryMemory) -> None:
    agent = agent_with(memory, says("Hm."), says("Hm.")).replace(criteria=[us.KeywordCriteria("DONE")], max_continues=1)
    outcome = agent.run("go", conversation_id="c-42")

    assert isinstance(outcome, us.Incomplete)
    assert texts(memory) == []


# --- memories of users


class Failing:
    """Raises a few times, and then no more."""

    def __init__(self, times: int, error: BaseException | None = None) -> None:
        self.left = times
        self.error = error if error is not None else OSError("the disk is full")

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise self.error


class Gate:
    """Holds who comes until it is opened."""

    def __init__(self) -> None:
        self.came = threading.Semaphore(0)
        self.door = threading.Event()

    def __call__(self) -> object:
        self.came.release()
        assert self.door.wait(WAIT)
        return "open"


def test_a_users_own_memory_is_told_which_conversation_and_which_run() -> None:
    memory = Notebook()
    agent = agent_with(memory, says("a"), says("b"))
    with us.ActorSystem("shop") as system:
        ids = [
            agent.run(text, conversation_id="c-42", user_id="ada", system=system).run_id for text in ("first", "second")
        ]

    assert list(memory.kept) == [us.ConversationKey("shop", "ada", "c-42")]
    assert memory.runs == ids
    assert seen_by(agent)[1] == ["first", "a", "second"]


@dataclass
class NotHashable(Notebook):
    """A dataclass that can be compared cannot be hashed."""

    def __post_init__(self) -> None:
        super().__init__()


def test_a_memory_need_not_be_hashable() -> None:
    memory = NotHashable()
    agent_with(memory, says("a")).run("go", conversation_id="c-42")

    assert texts(memory) == ["go", "a"]


def test_the_memory_that_the_docs_show_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page").mkdir()
    monkeypatch.chdir(tmp_path / "page")  # the page makes a folder
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL) if "class " in block]
    names: dict[str, object] = {
        "us": us,
        "Path": Path,
        "Sequence": Sequence,
        "pickle": pickle,
        "json": json,
        "quote": quote,
        "ScriptedModel": ScriptedModel,
        "says": says,
    }
    exec(code, names)  # noqa: S102 (it is our own file)
    kind = names["FileMemory"]
    assert callable(kind)
    memory = kind(tmp_path / "kept")
    assert isinstance(memory, us.Memory)
    agent = agent_with(memory, calls("look", order="7"), says("a"), says("b"))
    first = agent.run("first", conversation_id="../c|42")
    agent.run("second", conversation_id="../c|42")

    key = KEY._replace(conversation="../c|42")
    assert tuple(memory.load(key)[:4]) == first.messages
    assert texts(memory, key)[-2:] == ["second", "b"]
    assert len(list((tmp_path / "kept").iterdir())) == 1
    memory.clear(key)
    assert texts(memory, key) == []


@pytest.mark.parametrize("error", [OSError("no"), us.ProviderError("the summary failed"), SystemExit(3)])
@pytest.mark.parametrize("method", ["load", "append"])
def test_a_step_that_the_memory_fails_in_is_done_again(method: str, error: BaseException) -> None:
    memory = Notebook(**{method: Failing(2, error)})
    agent, told = agent_with(memory, says("Yes.")), list[us.SystemEvent]()
    with us.ActorSystem("shop") as system:
        system.subscribe(told.append, us.RunCrashed, us.ActorFailed)
        outcome = agent.run("go", conversation_id="c-42", system=system)
        eventually(lambda: len(told) == 2, "both failures were told")
        assert [(type(event), event.address) for event in told] == [(us.ActorFailed, "shop/memories/Notebook")] * 2

    assert finished(outcome).text == "Yes."
    assert len(seen_by(agent)) == 1  # an answer that was paid for is not asked for again
    assert memory.runs == [outcome.run_id]  # and not stored twice


@pytest.mark.parametrize("method", ["load", "append"])
def test_a_memory_that_goes_on_failing_ends_the_run(method: str) -> None:
    memory = Notebook(**{method: Failing(3)})
    agent = agent_with(memory, says("Yes."), says("Again."))
    with pytest.raises(us.AgentCrashed, match="OSError: the disk is full") as caught:
        agent.run("go", conversation_id="c-42")

    assert [type(cause) for cause in caught.value.causes] == [OSError] * 3
    assert memory.kept == {}
    assert finished(agent.run("next", conversation_id="c-42")).run_id in memory.runs


def message_with(**wrong: Any) -> us.Message:
    """Return a message with values of wrong types in some attributes."""
    given: dict[str, Any] = {"role": "user", "parts": (us.TextPart("hi"),)}
    return us.Message(**(given | wrong))


class Loading(Notebook):
    """A memory that knows the same of each conversation, whatever its type."""

    def __init__(self, known: object) -> None:
        super().__init__()
        self.known = known
        self.loads = 0

    def load(self, key: us.ConversationKey) -> Sequence[us.Message]:
        self.loads += 1
        return cast("Sequence[us.Message]", self.known)


UNANSWERED = us.Message("assistant", (us.ToolCall("c-1", "look", {}),))


@pytest.mark.parametrize(
    ("known", "fault"),
    [
        (["hello"], "load must return Message objects, got a value of type str among them"),
        (None, "load must return a sequence of Message objects, got None"),
        ({}, "load must return a sequence of Message objects, got a value of type dict"),
        ("", "load must return a sequence of Message objects, got a value of type str"),
        (b"", "load must return a sequence of Message objects, got a value of type bytes"),
        ([message_with(role="tool")], r"no history: history\[0\] has the role 'tool', expected"),
        ([message_with(parts=None)], r"no history: history\[0\].parts are"),
        ([message_with(parts=(us.TextPart(cast(str, 5)),))], r"no history: history\[0\].parts\[0\]"),
        ([UNANSWERED], r"no history: history: the call of 'look' \(id 'c-1'\) has no result"),
    ],
)
def test_what_is_no_history_ends_the_run_at_once_and_is_not_shown_to_the_model(known: object, fault: str) -> None:
    memory = Loading(known)
    agent = agent_with(memory)

    with pytest.raises(us.AgentCrashed, match=fault) as caught:
        agent.run("go", conversation_id="c-42")

    assert (len(caught.value.causes), memory.loads, seen_by(agent)) == (1, 1, [])


def test_a_memory_may_load_messages_as_any_iterable() -> None:
    agent = agent_with(Loading(iter([message_with()])), says("Yes."))

    assert finished(agent.run("go", conversation_id="c-42")).text == "Yes."
    assert seen_by(agent) == [["hi", "go"]]


def test_what_was_not_stored_when_append_returned_ends_the_run() -> None:
    async def later() -> None:
        """Store nothing, because nobody awaits it."""

    class Late(Notebook):
        def append(self, key: us.ConversationKey, messages: Sequence[us.Message], run_id: str) -> None:
            return later()  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    with pytest.raises(us.AgentCrashed, match="append must store before it returns, got a coroutine"):
        agent_with(Late(), says("Yes.")).run("go", conversation_id="c-42")


def test_a_memory_does_not_wait_for_itself() -> None:
    def summarize() -> None:
        inner.run("Sum up", conversation_id="c-1")

    memory = Notebook(load=summarize)
    inner = agent_with(memory, id="inner")

    with pytest.raises(us.CircularAgentCall) as caught:
        agent_with(memory).run("go", conversation_id="c-42")
    assert caught.value.path == ("inner", "memory of clerk", "clerk", "inner")


def test_a_memory_may_run_agents_that_have_another_one() -> None:
    inner = agent_with(None, says("He is called Ada."), id="inner")
    memory = Notebook(append=lambda: inner.run("Sum up"))
    agent_with(memory, says("Hello.")).run("go", conversation_id="c-42")

    assert seen_by(inner) == [["Sum up"]]
    assert texts(memory) == ["go", "Hello."]


def test_what_a_memory_runs_has_no_more_time_than_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_actor, "DEFAULT_MEMORY_TIMEOUT", 0.05)
    gate = Gate()
    inner = us.Agent("inner", model=FunctionModel(lambda request: says(str(gate()))))
    agent = agent_with(Notebook(load=lambda: inner.run("Sum up")))

    with pytest.raises(us.AgentCrashed, match="the memory of agent 'clerk' took more than"):
        agent.run("go", conversation_id="c-42")
    gate.door.set()


# --- memories that block


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.mark.parametrize("method", ["load", "append"])
def test_a_memory_that_blocks_stalls_no_other_agent(method: str, gate: Gate) -> None:
    slow = agent_with(Notebook(**{method: gate}), says("slow"))
    other = agent_with(us.InMemoryMemory(), says("quick"), id="other")
    handle = slow.submit("go", conversation_id="c-1")
    assert gate.came.acquire(timeout=WAIT)

    assert finished(other.run("go", conversation_id="c-2", timeout=WAIT)).text == "quick"
    assert handle.status().doing == ("loading its conversation" if method == "load" else "storing its conversation")
    gate.door.set()
    assert finished(handle.result(WAIT)).text == "slow"


@pytest.mark.parametrize("method", ["load", "append"])
def test_a_memory_is_used_by_one_run_at_a_time(method: str) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def overlap() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        with lock:
            inside -= 1

    memory = Notebook(**{method: overlap})
    agent = us.Agent("clerk", model=FunctionModel(lambda request: says(request.text)), memory=memory)
    handles = [agent.submit(str(n), conversation_id=f"c-{n % 7}") for n in range(100)]

    assert sorted(finished(handle.result(WAIT)).text for handle in handles) == sorted(map(str, range(100)))
    assert most == 1
    assert len(memory.runs) == 100


@pytest.mark.parametrize("method", ["load", "append"])
def test_a_run_whose_memory_blocks_is_cancelled_at_once(method: str, gate: Gate) -> None:
    with us.ActorSystem("shop") as system:
        memory = Notebook(**{method: gate})
        handle = agent_with(memory, says("Yes.")).submit("go", conversation_id="c-42", system=system)
        assert gate.came.acquire(timeout=WAIT)

        assert handle.cancel()
        assert isinstance(handle.exception(0), us.RunCancelled)
        assert system.hung == 1
        gate.door.set()
        eventually(lambda: system.hung == 0, "its work has come back")


def test_a_run_that_is_cancelled_while_it_waits_for_the_memory_does_not_use_it(gate: Gate) -> None:
    memory = Notebook(load=gate)
    agent = agent_with(memory, *[says("Yes.")] * 2)
    with us.ActorSystem("shop") as system:
        first = agent.submit("first", conversation_id="c-1", system=system)
        assert gate.came.acquire(timeout=WAIT)
        second = agent.submit("second", conversation_id="c-2", system=system)
        eventually(lambda: second.status().doing == "loading its conversation", "it waits for the memory")
        assert second.cancel()
        eventually(lambda: system.hung == 0, "its work has come back")
        gate.door.set()

        assert finished(first.result(WAIT)).text == "Yes."
        assert not gate.came.acquire(blocking=False)
    assert memory.runs == [first.run_id]


@pytest.mark.parametrize("method", ["load", "append"])
def test_a_memory_that_hangs_ends_its_run(method: str, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_actor, "DEFAULT_MEMORY_TIMEOUT", 0.05)
    with us.ActorSystem("shop") as system:
        agent = agent_with(Notebook(**{method: gate}), says("Yes."))
        with pytest.raises(us.AgentCrashed, match="the memory of agent 'clerk' took more than"):
            agent.run("go", conversation_id="c-42", system=system, timeout=WAIT)
        assert system.hung == 1
        gate.door.set()
        eventually(lambda: system.hung == 0, "its work has come back")


def test_a_memory_knows_how_long_it_may_take_and_that_nobody_wants_it_any_more(gate: Gate) -> None:
    scopes: list[us.Scope] = []

    def note() -> None:
        scope = us.current_scope()
        assert scope is not None
        scopes.append(scope)
        gate()

    handle = agent_with(Notebook(load=note)).submit("go", conversation_id="c-42")
    assert gate.came.acquire(timeout=WAIT)
    left = scopes[0].remaining()
    assert left is not None and left <= 30
    handle.cancel()
    gate.door.set()

    assert scopes[0].cancelled


# --- values of a session that last as long as the run


def test_temporary_values_outlast_a_pause_and_never_come_out() -> None:
    seen: list[us.JsonValue] = []

    def note(ctx: us.ToolContext) -> None:
        seen.append((ctx.session.get("temp:draft"), ctx.session.get("kept")))
        ctx.session["temp:draft"] = ctx.session["kept"] = len(seen)

    model = ScriptedModel([calls("note"), QUESTION, calls("note"), QUESTION, calls("note"), says("ok")])
    agent = us.Agent("clerk", model=model, tools=[note])
    session = us.SessionState({"temp:given": 1})
    outcome = agent.run("go", session=session)
    left = [dict(outcome.session)]
    for _ in range(2):
        assert isinstance(outcome, us.NeedsInput)
        assert "temp:draft" not in session
        outcome = agent.resume(outcome.token, "Ada")
        left.append(dict(outcome.session))

    assert seen == [(None, None), (1, 1), (2, 2)]
    assert left == [{"kept": 1}, {"kept": 2}, {"kept": 3}]
    assert dict(session) == {"temp:given": 1, "kept": 3}  # what the caller put there is the caller's


def test_temporary_values_are_in_no_store() -> None:
    def note(ctx: us.ToolContext) -> None:
        ctx.session["temp:draft"] = "never to be seen"
        ctx.session["kept"] = "kept"

    store, model = DictStore(), ScriptedModel([calls("note"), QUESTION])
    agent = us.Agent("clerk", model=model, tools=[note])
    with us.ActorSystem("shop", store=store) as system:
        outcome = agent.run("go", system=system)
    (entry,) = store.runs.values()

    assert isinstance(outcome, us.NeedsInput)
    assert "kept" in entry.payload
    assert "temp:draft" not in entry.payload


def test_a_temporary_value_that_was_deleted_does_not_come_back_after_a_pause() -> None:
    seen: list[bool] = []

    def drop(ctx: us.ToolContext) -> None:
        seen.append("temp:given" in ctx.session)
        ctx.session.pop("temp:given", None)

    model = ScriptedModel([calls("drop"), QUESTION, calls("drop"), says("ok")])
    agent = us.Agent("clerk", model=model, tools=[drop])
    session = us.SessionState({"temp:given": 1})
    outcome = needs_input(agent.run("go", session=session))
    agent.resume(outcome.token, "Ada")

    assert seen == [True, False]
    assert dict(session) == {"temp:given": 1}


class TakesLess(us.InMemoryMemory):
    def append(self, key: us.ConversationKey, messages: Sequence[us.Message]) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]


class Appends(us.InMemoryMemory):
    append = None  # type: ignore[assignment]  # pyright: ignore

    def appends(self, key: us.ConversationKey, messages: Sequence[us.Message], run_id: str) -> None: ...


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (TakesLess(), r"has append\(key.*, messages.*expected append\(key, messages, run_id\)"),
        (Appends(), r"has no append\(key, messages, run_id\); did you mean appends\(\) to be it"),
    ],
)
def test_a_memory_of_the_wrong_shape_is_refused_when_the_agent_is_made(memory: us.Memory, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        us.Agent("clerk", model=ScriptedModel([]), memory=memory)
