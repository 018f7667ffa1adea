"""Edge cases of other agents' loops, with real runs, where no test would have failed: named after what must not happen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import httpx
import pytest

import understudy as us
from tests.support import process_tools
from tests.support.events import numbers
from tests.support.http import FakeTime
from tests.support.scripts import WAIT, finished, needs_approval, results_of
from tests.support.tools import pay
from understudy.testing import FunctionModel, ScriptedModel, calls, says


def test_results_of_tools_of_every_kind_do_not_mix_and_stand_in_one_message() -> None:
    held = threading.Event()

    class Desk(us.Toolset):
        @us.tool
        def note(self) -> str:
            return "the desk's"

    @us.tool(isolation="caller")
    def book() -> str:
        held.set()
        return "the caller's"

    def look() -> str:
        assert held.wait(WAIT)  # so it ends after calls that stand behind it
        return "a function's"

    async def wait() -> str:
        await asyncio.sleep(0)
        return "a coroutine's"

    inner = us.Agent("inner", model=FunctionModel(lambda request: says("an agent's")))
    names = ["look", "wait", "nobody", "main_thread", "inner", "note", "book"]
    turn = us.ModelTurn(tuple([us.ToolCall(n, n, {"input": "go"} if n == "inner" else {}) for n in names]))
    model = ScriptedModel([turn, says("Done.")])
    tools: list[us.ToolLike | us.Toolset] = [look, wait, book, process_tools.main_thread, Desk()]
    clerk = us.Agent("clerk", model=model, tools=tools, sub_agents=[inner])

    outcome = finished(clerk.run("go"))

    (results,) = [message.tool_results for message in outcome.messages if message.tool_results]
    assert [result.call_id for result in results] == names
    assert [result.is_error for result in results] == [name == "nobody" for name in names]
    said = [result.content for result in results if not result.is_error]
    assert said == ["a function's", "a coroutine's", "true", "an agent's", "the desk's", "the caller's"]


def test_events_of_one_run_do_not_count_on_in_another() -> None:
    agent = us.Agent("clerk", model=FunctionModel(lambda request: says("Done.")))

    handles = [agent.submit("go") for _ in range(3)]
    told = [list(handle.events()) for handle in handles]

    for handle, events in zip(handles, told, strict=True):
        assert numbers(events) == list(range(len(numbers(events))))
        assert {event.run_id for event in events} == {handle.run_id}
        ends = [event for event in events if isinstance(event, (us.RunFinished, us.RunFailed))]
        assert ends == events[-1:]
        assert isinstance(ends[0], us.RunFinished)
        assert ends[0].outcome == handle.result(WAIT)
    assert len({handle.run_id for handle in handles}) == 3


# --- what a run that did not end leaves behind


def shown(model: ScriptedModel) -> Sequence[us.Message]:
    return model.requests[-1].messages


def test_a_pause_that_nobody_answers_leaves_no_call_without_a_result_in_its_conversation() -> None:
    model = ScriptedModel([calls("pay", cents=5), says("Hello.")])
    agent = us.Agent("clerk", model=model, tools=[pay], memory=us.InMemoryMemory())

    needs_approval(agent.run("Pay", conversation_id="c"))
    agent.run("Hello?", conversation_id="c")

    assert [message.text for message in shown(model)] == ["Hello?"]


def test_what_a_paused_run_added_is_refused_as_a_history_before_anything_starts() -> None:
    model = ScriptedModel([calls("pay", cents=5)])
    agent = us.Agent("clerk", model=model, tools=[pay])
    waits = agent.run("Pay")

    with pytest.raises(ValueError, match=r"the call of 'pay' .* has no result; a run that waits goes on with resume"):
        agent.run("Hello?", history=waits.messages)
    assert len(model.requests) == 1


def test_a_run_that_is_cancelled_in_a_tool_leaves_no_call_without_a_result_in_its_conversation() -> None:
    begun, over = threading.Event(), threading.Event()

    def hang() -> str:
        begun.set()
        over.wait(WAIT)
        return "late"

    model = ScriptedModel([calls("hang"), says("Hello.")])
    agent = us.Agent("clerk", model=model, tools=[hang], memory=us.InMemoryMemory())
    ends: list[object] = []
    handle = agent.submit("Hang", conversation_id="c")
    handle.add_done_callback(ends.append)
    assert begun.wait(WAIT)

    assert [handle.cancel(), handle.cancel()] == [True, False]
    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    agent.run("Hello?", conversation_id="c")
    over.set()

    assert [message.text for message in shown(model)] == ["Hello?"]
    assert len(ends) == 1


def test_an_input_that_a_guardrail_rejects_is_not_in_the_conversation() -> None:
    model = ScriptedModel([says("Hello.")])
    guard = us.InputGuardrail("polite", lambda ctx, text: "rude" if "!" in text else None)
    agent = us.Agent("clerk", model=model, callbacks=[guard], memory=us.InMemoryMemory())

    with pytest.raises(us.CallbackAbort):
        agent.run("You!", conversation_id="c")
    agent.run("Hello?", conversation_id="c")

    assert [message.text for message in shown(model)] == ["Hello?"]


def test_nothing_runs_under_tool_choice_none_and_a_valid_name_is_no_way_around_it() -> None:
    ran: list[str] = []

    def look(word: str) -> str:
        ran.append(word)
        return word

    turn = us.ModelTurn((us.ToolCall("a", "look", {"word": "x"}), us.ToolCall("b", "nobody", {})))
    model = ScriptedModel([turn, says("Done.")])
    agent = us.Agent("clerk", model=model, tools=[look], settings=us.Settings(tool_choice="none"))

    outcome = finished(agent.run("go"))

    assert [(result.call_id, result.is_error) for result in results_of(outcome)] == [("a", True), ("b", True)]
    assert ran == []


# --- an answer that breaks off


GOOD = b'{"choices": [{"message": {"content": "Whole."}}], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}'
CUT = b'{"choices": [{"message": {"content": "Ha'


class Breaking(httpx.BaseTransport):
    """Breaks off in the middle of its first answers."""

    def __init__(self, breaks: int) -> None:
        self.asked = 0
        self._breaks = breaks

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        return httpx.Response(200, stream=Broken() if self.asked <= self._breaks else httpx.ByteStream(GOOD))


class Broken(httpx.SyncByteStream):
    def __iter__(self):  # type: ignore[no-untyped-def]  # bytes, and then an error
        yield CUT
        raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")


def answering(transport: Breaking) -> us.Agent:
    client = us.OpenAI("gpt-4o", api_key="k" * 20, attempts=2, transport=transport, timing=FakeTime().timing())
    return us.Agent("clerk", model=client, memory=us.InMemoryMemory())


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_OFFLINE", raising=False)


def test_half_an_answer_is_neither_shown_nor_counted_nor_remembered_beside_the_whole_one() -> None:
    transport = Breaking(1)

    outcome = finished(answering(transport).run("go", conversation_id="c"))

    assert (transport.asked, outcome.text, outcome.turns) == (2, "Whole.", 1)
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (7, 2)
    assert [message.text for message in outcome.messages] == ["go", "Whole."]


def test_an_answer_that_only_breaks_off_is_no_answer_and_leaves_no_trace() -> None:
    transport = Breaking(2)
    agent = answering(transport)

    with pytest.raises(us.BadReply):
        agent.run("go", conversation_id="c")
    outcome = finished(agent.run("again", conversation_id="c"))

    assert (transport.asked, [message.text for message in outcome.messages]) == (3, ["again", "Whole."])
