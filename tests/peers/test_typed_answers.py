"""Typed answers over HTTP: the form that is asked for, and a bad answer that is sent back, for every provider."""

from __future__ import annotations

from typing import Literal

import pydantic
import pytest

import understudy as us
from tests.support import wire
from tests.support.peers import Peer, Provider, Tagged
from understudy.vocabulary.messages import JsonObject, JsonValue

TIMEOUT = 30.0


class Verdict(pydantic.BaseModel):
    label: Literal["spam", "ham"]
    score: float


def schema_in(provider: Provider, body: JsonObject) -> JsonValue:
    """Return the schema that a body asks for, where the provider looks for it."""
    match provider.name:
        case "openai":
            return wire.obj(wire.obj(body["response_format"])["json_schema"])["schema"]
        case "anthropic":
            return wire.obj(wire.obj(body["output_config"])["format"])["schema"]
        case _:
            config = wire.obj(body["generationConfig"])
            assert config["responseMimeType"] == "application/json"
            return config["responseJsonSchema"]


def test_a_bad_answer_is_asked_again_and_every_request_asks_for_the_form(
    peer: Peer, provider: Provider, request: pytest.FixtureRequest
) -> None:
    wire_tap = Tagged(request.node.nodeid)
    with provider.client(peer, transport=wire_tap) as model:
        outcome = us.Agent("judge", model=model, output_type=Verdict).run("Win a prize!", timeout=TIMEOUT)

    assert outcome.output == Verdict(label="spam", score=0.9)
    assert outcome.turns == 2
    assert [said[0] for said in peer.arrivals()[-1].conversation] == ["user", "assistant", "user"]
    schemas = [wire.obj(schema_in(provider, body)) for body in wire_tap.bodies]
    assert [list(wire.obj(schema["properties"])) for schema in schemas] == [["label", "score"]] * 2


def test_a_bad_final_call_is_answered_and_made_again(peer: Peer, provider: Provider) -> None:
    with provider.client(peer) as model:
        agent = us.Agent("judge", model=model, output_type=Verdict, output_mode="tool")
        outcome = agent.run("Win a car!", timeout=TIMEOUT)

    assert outcome.output == Verdict(label="spam", score=0.9)
    assert (outcome.turns, outcome.iterations) == (2, 0)
    (_, result), (_, taken) = [(m, m.tool_results[0]) for m in outcome.messages if m.tool_results]
    assert "'label': input should be 'spam' or 'ham', got 'eggs'" in result.content
    assert [said[:2] for said in peer.arrivals()[-1].conversation] == [
        ("user", "Win a car!"),
        ("call", "call_bad"),
        ("result", "call_bad"),
    ]
    assert taken.call_id == "call_good"


def test_a_conversation_goes_on_after_a_final_call(peer: Peer, provider: Provider) -> None:
    with provider.client(peer) as model:
        agent = us.Agent("judge", model=model, output_type=Verdict, output_mode="tool")
        first = agent.run("Win a car!", timeout=TIMEOUT)
        talker = us.Agent("talker", model=model)
        second = talker.run("And is that enough?", history=first.messages, timeout=TIMEOUT)

    assert second.text == "Plenty."
