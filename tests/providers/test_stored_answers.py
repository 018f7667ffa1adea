"""Answers that OpenAI stores: which ones a request continues, and what it does when they are lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

import understudy as us
from tests.support.http import HELLO, Answers
from tests.support.responses import DIALECT, SAID, THOUGHT, answering, call, client, message, response
from tests.support.wire_streams import as_events
from understudy.errors import ProviderError
from understudy.providers import OpenAIResponses
from understudy.providers.openai.responses.client import StoredAnswers
from understudy.vocabulary.messages import (
    JsonObject,
    Message,
    ModelRequest,
    ModelTurn,
    Settings,
    TextPart,
    ToolResult,
    user_message,
)

LOST = httpx.Response(400, json={"error": {"message": "Previous response with id 'resp_1' not found.", "code": "previous_response_not_found"}})  # fmt: skip
NOT_RETAINED = httpx.Response(400, json={"error": {"message": "Previous response cannot be used for this organization due to Zero Data Retention.", "code": "unsupported_parameter"}})  # fmt: skip
Ask = Callable[[OpenAIResponses, ModelRequest], ModelTurn]


def plain(model: OpenAIResponses, request: ModelRequest) -> ModelTurn:
    return model.complete(request)


def streamed(model: OpenAIResponses, request: ModelRequest) -> ModelTurn:
    assembler = us.TurnAssembler()
    for piece in model.stream(request):
        assembler.add(piece)
    return assembler.turn()


def stored(ask: Ask, *answers: httpx.Response | dict[str, Any]) -> tuple[Answers, OpenAIResponses]:
    """Return a transport with these answers, in the form that is asked for, and a client whose answers are stored."""

    def answer(body: dict[str, Any]) -> httpx.Response:
        if ask is plain:
            return httpx.Response(200, json=body)
        events = as_events({"type": "response.completed", "response": body})
        return httpx.Response(200, content=events, headers={"content-type": "text/event-stream"})

    transport = Answers(*[each if isinstance(each, httpx.Response) else answer(each) for each in answers])
    return transport, client(transport, store=True)


def goes_on(history: Sequence[Message], turn: ModelTurn, words: str) -> ModelRequest:
    return ModelRequest([*history, Message("assistant", turn.parts, turn.dialect), user_message(words)])


def asked(transport: Answers) -> list[tuple[object, int]]:
    """Return of each request the id of the answer that it continues, and the number of its items."""
    bodies = [json.loads(request.content) for request in transport.requests]
    assert all(body["store"] is True for body in bodies)
    return [(body.get("previous_response_id"), len(body["input"])) for body in bodies]


each_way = pytest.mark.parametrize("ask", [plain, streamed])


@each_way
def test_a_stored_answer_is_continued_by_its_id(ask: Ask) -> None:
    transport, model = stored(ask, response(THOUGHT, message("Hi.")), response(message("Yes."), id="resp_2"), response(message("No."), id="resp_3"))  # fmt: skip

    second = goes_on(HELLO.messages, ask(model, HELLO), "Well?")
    third = goes_on(second.messages, ask(model, second), "Sure?")
    ask(model, third)

    assert asked(transport) == [(None, 1), ("resp_1", 1), ("resp_2", 1)]


@each_way
def test_results_of_tools_are_what_is_new_after_a_stored_answer(ask: Ask) -> None:
    transport, model = stored(ask, response(THOUGHT, call()), response(message("Seven.")))
    turn = ask(model, HELLO)
    results = user_message([ToolResult("a", "seven", name="look")])

    ask(model, ModelRequest([*HELLO.messages, Message("assistant", turn.parts, turn.dialect), results]))

    assert asked(transport) == [(None, 1), ("resp_1", 1)]
    assert transport.body()["input"] == [{"type": "function_call_output", "call_id": "a", "output": "seven"}]


CHANGES: dict[str, Callable[[list[Message]], list[Message]]] = {
    "another question": lambda messages: [user_message("Another question"), *messages[1:]],
    "another answer": lambda messages: [messages[0], Message("assistant", (TextPart("Ho."),), DIALECT), messages[2]],
    "shortened": lambda messages: messages[1:],
    "longer": lambda messages: [user_message("Before"), *messages],
    "nothing new": lambda messages: messages[:2],
}


@each_way
@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_a_history_that_was_changed_is_sent_whole(ask: Ask, changed: Callable[[list[Message]], list[Message]]) -> None:
    transport, model = stored(ask, response(message("Hi.")))
    request = goes_on(HELLO.messages, ask(model, HELLO), "Well?")

    ask(model, replace(request, messages=changed(list(request.messages))))

    assert asked(transport)[1][0] is None


@each_way
def test_an_answer_that_is_lost_is_replaced_by_the_whole_history_once(ask: Ask) -> None:
    transport, model = stored(ask, response(message("Hi.")), LOST, response(message("Yes."), id="resp_2"), response(message("No.")))  # fmt: skip
    second = goes_on(HELLO.messages, ask(model, HELLO), "Well?")

    turn = ask(model, second)

    assert turn.text == "Yes."
    assert asked(transport) == [(None, 1), ("resp_1", 1), (None, 3)]
    ask(model, goes_on(second.messages, turn, "Sure?"))
    assert asked(transport)[3] == ("resp_2", 1)


@each_way
def test_the_error_of_the_whole_history_is_not_answered_again(ask: Ask) -> None:
    transport, model = stored(ask, response(message("Hi.")), LOST)

    with pytest.raises(ProviderError, match="not found"):
        ask(model, goes_on(HELLO.messages, ask(model, HELLO), "Well?"))

    assert asked(transport) == [(None, 1), ("resp_1", 1), (None, 3)]


@each_way
def test_where_nothing_is_retained_everything_is_sent_from_then_on(ask: Ask) -> None:
    transport, model = stored(ask, response(message("Hi.")), NOT_RETAINED, response(message("Yes.")))
    second = goes_on(HELLO.messages, ask(model, HELLO), "Well?")

    turn = ask(model, second)
    ask(model, goes_on(second.messages, turn, "Sure?"))

    assert asked(transport) == [(None, 1), ("resp_1", 1), (None, 3), (None, 5)]


@each_way
def test_any_other_error_is_not_taken_for_a_lost_answer(ask: Ask) -> None:
    transport, model = stored(ask, response(message("Hi.")), httpx.Response(400, json={"error": {"message": "no"}}))

    with pytest.raises(ProviderError, match="no"):
        ask(model, goes_on(HELLO.messages, ask(model, HELLO), "Well?"))

    assert len(transport.requests) == 2


@each_way
@pytest.mark.parametrize("refusal", [LOST, NOT_RETAINED], ids=["lost", "not retained"])
def test_each_of_two_calls_at_once_that_named_a_lost_answer_sends_everything(ask: Ask, refusal: httpx.Response) -> None:
    both_named = threading.Barrier(2)
    transport, model = stored(ask, response(message("Hi.")), response(message("Yes."), id="resp_2"))

    def refuse_names(request: httpx.Request) -> httpx.Response:
        if "previous_response_id" not in json.loads(request.content):
            return transport.handle_request(request)
        both_named.wait(10)
        return httpx.Response(400, content=refusal.content)

    model = client(httpx.MockTransport(refuse_names), store=True)
    second = goes_on(HELLO.messages, ask(model, HELLO), "Well?")

    with ThreadPoolExecutor(2) as threads:
        asked_at_once = [threads.submit(ask, model, second) for _ in range(2)]

    assert [each.result(10).text for each in asked_at_once] == ["Yes.", "Yes."]


@each_way
@pytest.mark.parametrize("extra", [{"store": False}, {"store": None}])
def test_a_request_that_is_not_to_be_stored_names_no_answer_and_is_not_named(ask: Ask, extra: dict[str, Any]) -> None:
    transport, model = stored(ask, response(message("Hi.")))
    unstored = Settings(extra=extra)

    first = goes_on(HELLO.messages, ask(model, replace(HELLO, settings=unstored)), "Well?")
    second = goes_on(first.messages, ask(model, first), "Sure?")
    ask(model, replace(second, settings=unstored))
    ask(model, second)

    bodies = [json.loads(request.content) for request in transport.requests]
    assert [body.get("previous_response_id") for body in bodies] == [None, None, None, "resp_1"]


def test_answers_that_were_not_used_for_longest_are_forgotten() -> None:
    known = StoredAnswers(most=2)
    histories: list[list[JsonObject]] = [[{"n": number}] for number in range(3)]
    for number, history in enumerate(histories):
        known.keep(history, f"resp_{number}")
        known.latest([*histories[0], SAID])

    assert [known.latest([*history, SAID]) for history in histories] == [("resp_0", 1), None, ("resp_2", 1)]


def test_the_longest_part_of_a_history_that_is_stored_counts() -> None:
    known = StoredAnswers()
    known.keep([SAID], "resp_1")
    known.keep([SAID, SAID], "resp_2")

    assert known.latest([SAID, SAID, SAID]) == ("resp_2", 2)
    assert known.latest([SAID, SAID]) == ("resp_1", 1)
    assert known.latest([SAID]) is known.latest([]) is None


def test_a_user_who_says_where_the_conversation_stands_is_obeyed() -> None:
    transport, model = stored(plain, response(message("Hi.")))
    request = goes_on(HELLO.messages, plain(model, HELLO), "Well?")

    plain(model, replace(request, settings=Settings(extra={"previous_response_id": "resp_9"})))

    assert asked(transport)[1] == ("resp_9", 3)


def test_without_store_no_answer_is_continued() -> None:
    answers = answering(response(message("Hi.")))
    model = client(answers)

    model.complete(goes_on(HELLO.messages, model.complete(HELLO), "Well?"))

    assert [body.get("previous_response_id") for body in map(answers.body, (0, 1))] == [None, None]


def test_an_agent_whose_answers_are_stored_sends_only_results() -> None:
    transport, model = stored(plain, response(THOUGHT, call()), response(message("Seven."), id="resp_2"))

    @us.tool
    def look() -> str:
        """Look."""
        return "seven"

    outcome = us.Agent("clerk", model=model, tools=[look]).run("How many?")

    assert outcome.text == "Seven."
    assert asked(transport) == [(None, 1), ("resp_1", 1)]
