"""The form of an answer on the wire: what each API is sent for it, and the recorded exchanges of such answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pydantic
import pytest

import understudy as us
from tests.support import wire
from tests.support.bodies import body_of
from tests.support.clients import client
from tests.support.http import HELLO
from tests.support.wire import Case, obj
from understudy.vocabulary.messages import JsonObject, OutputSpec, Settings, ToolSpec

FORM: JsonObject = {
    "type": "object",
    "description": "Whether a text is spam.",
    "properties": {"label": {"type": "string", "const": "spam"}, "sure": {"type": "boolean", "default": True}},
    "required": ["label"],
}
OUTPUT = OutputSpec("Verdict", FORM)
REQUEST = replace(HELLO, output=OUTPUT)
OPEN = OutputSpec("Counts", {"type": "object", "additionalProperties": {"type": "integer"}})
APIS = ("openai", "openai-responses", "anthropic", "gemini")
LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})


# --- what each API is sent


def test_openai_is_sent_a_strict_schema() -> None:
    assert body_of("openai", REQUEST)["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "Verdict",
            "description": "Whether a text is spam.",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"label": {"type": "string", "const": "spam"}, "sure": {"type": "boolean"}},
                "required": ["label", "sure"],
                "additionalProperties": False,
            },
        },
    }


def test_openai_is_sent_a_schema_that_cannot_be_strict_as_it_is() -> None:
    assert body_of("openai", replace(HELLO, output=OPEN))["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "Counts", "strict": False, "schema": OPEN.schema},
    }


@pytest.mark.parametrize("output", [OUTPUT, OPEN])
def test_the_responses_api_is_sent_the_same_form_in_a_field_of_its_own(output: OutputSpec) -> None:
    request = replace(HELLO, output=output, settings=Settings(extra={"text": {"verbosity": "low"}}))

    form = obj(body_of("openai", replace(HELLO, output=output))["response_format"])["json_schema"]
    assert body_of("openai-responses", request)["text"] == {
        "format": {"type": "json_schema", **obj(form)},
        "verbosity": "low",
    }


def test_anthropic_is_sent_a_closed_schema() -> None:
    assert body_of("anthropic", REQUEST)["output_config"] == {
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "description": "Whether a text is spam.",
                "properties": {"label": {"type": "string", "const": "spam"}, "sure": {"type": "boolean"}},
                "required": ["label"],
                "additionalProperties": False,
            },
        }
    }


def test_an_effort_of_the_users_stands_beside_the_form_for_anthropic() -> None:
    settings = Settings(extra={"output_config": {"effort": "low"}})

    sent = obj(body_of("anthropic", replace(REQUEST, settings=settings))["output_config"])

    assert sent["effort"] == "low"
    assert "format" in sent


def test_google_is_sent_the_schema_with_its_constants_as_choices() -> None:
    settings = Settings(temperature=0.0)

    assert body_of("gemini", replace(REQUEST, settings=settings))["generationConfig"] == {
        "temperature": 0.0,
        "responseMimeType": "application/json",
        "responseJsonSchema": {
            **FORM,
            "properties": {"label": {"type": "string", "enum": ["spam"]}, "sure": {"type": "boolean", "default": True}},
        },
    }


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("output", [None, replace(OUTPUT, tool="final_answer")])
def test_without_a_form_or_where_a_tool_takes_the_answer_no_form_is_sent(api: str, output: OutputSpec | None) -> None:
    text = json.dumps(body_of(api, replace(HELLO, output=output)))

    assert not any(word in text for word in ("response_format", "output_config", "responseMimeType", "json_schema"))


@pytest.mark.parametrize("api", APIS)
def test_the_tool_that_takes_the_answer_is_sent_as_any_other(api: str) -> None:
    tools = (LOOK, ToolSpec("final_answer", "Answer.", FORM))

    by_form = body_of(api, replace(HELLO, tools=tools, output=replace(OUTPUT, tool="final_answer")))

    assert by_form == body_of(api, replace(HELLO, tools=tools))
    assert json.dumps(by_form).count('"final_answer"') == 1


# --- recorded exchanges

RECORDED = {case.name: case for case in wire.cases()}
needs_recordings = pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)


@dataclass(frozen=True, slots=True)
class Answered:
    """A recorded exchange, and the type that its answer is of."""

    case: str
    form: type[object]
    prompt: str
    fields: JsonObject


class Joke(pydantic.BaseModel):
    """A joke and your self evaluation of it from 1 to 10"""

    joke: str
    rating: int


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str
    age: int


JOKE = Answered(
    "openai-chat-structured-a",
    Joke,
    "Tell me a joke about opentelemetry",
    {
        "joke": "Why did the developer break up with OpenTelemetry? Because it was always tracing his every move!",
        "rating": 7,
    },
)
PERSON = Answered(
    "vertex-gen-structured-a", Person, "Generate a person named John who is 30 years old", {"name": "John", "age": 30}
)


def answer(server: str, exchange: Answered) -> tuple[us.Outcome[object], JsonObject, Case]:
    """Run an agent against a recording; returns the outcome, what was sent, and the recording."""
    case = RECORDED[exchange.case]
    with client(case, server) as model:
        outcome = us.Agent("typed", model=model, output_type=exchange.form).run(exchange.prompt, timeout=30)
    return outcome, obj(wire.log_of(server)[-1]["body"]), case


@needs_recordings
@pytest.mark.parametrize("exchange", [JOKE, PERSON], ids=lambda e: e.case)
def test_a_recorded_answer_is_read_as_its_type(server: str, exchange: Answered) -> None:
    outcome, _, _ = answer(server, exchange)

    assert type(outcome.output) is exchange.form
    assert vars(outcome.output) == exchange.fields
    assert outcome.turns == 1


@needs_recordings
def test_openai_was_asked_in_the_form_that_was_recorded_and_strictly(server: str) -> None:
    _, sent, case = answer(server, JOKE)

    asked, recorded = obj(sent["response_format"]), obj(case.request["response_format"])
    ours, theirs = dict(obj(asked["json_schema"])), dict(obj(recorded["json_schema"]))
    schema = dict(obj(ours["schema"]))
    assert asked["type"] == recorded["type"]
    assert (ours.pop("strict"), schema.pop("additionalProperties")) == (True, False)
    assert {**ours, "schema": schema} == {**theirs, "schema": without_titles(theirs["schema"])}
    assert sent["messages"] == case.request["messages"]


@needs_recordings
def test_vertex_was_asked_exactly_as_was_recorded(server: str) -> None:
    _, sent, case = answer(server, PERSON)

    assert sent == case.request


def without_titles(schema: us.JsonValue) -> us.JsonValue:
    about = obj(schema)
    properties = {k: {n: v for n, v in obj(p).items() if n != "title"} for k, p in obj(about["properties"]).items()}
    return {**{k: v for k, v in about.items() if k != "title"}, "properties": properties}
