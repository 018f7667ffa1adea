"""An answer that must fit a JSON Schema."""

from __future__ import annotations

import pickle

import pytest

from understudy import Agent, InvalidOutput, JsonSchema
from understudy.testing import ScriptedModel, says
from understudy.vocabulary.messages import JsonObject, JsonValue

VERDICT: JsonObject = {
    "title": "Verdict",
    "type": "object",
    "properties": {"label": {"enum": ["spam", "ham"]}, "score": {"$ref": "#/$defs/score"}},
    "required": ["label"],
    "$defs": {"score": {"type": "number", "maximum": 1}},
}


def test_the_output_is_json_that_fits() -> None:
    agent = Agent(
        "judge", model=ScriptedModel([says('{"label": "spam", "score": 1}')]), output_type=JsonSchema(VERDICT)
    )

    output: JsonValue = agent.run("x").output

    assert output == {"label": "spam", "score": 1}


def test_the_model_is_told_the_schema_as_it_is() -> None:
    model = ScriptedModel([says('{"label": "ham"}')])
    Agent("judge", model=model, output_type=JsonSchema(VERDICT)).run("x")

    asked = model.requests[0].output
    assert asked is not None
    assert (asked.name, asked.schema) == ("Verdict", VERDICT)


def test_an_answer_that_does_not_fit_goes_back_with_every_reason() -> None:
    model = ScriptedModel([says('{"label": "egg", "score": 2}'), says('{"label": "ham"}')])
    outcome = Agent("judge", model=model, output_type=JsonSchema(VERDICT)).run("x")

    assert outcome.output == {"label": "ham"}
    told = model.requests[1].messages[-1].text
    assert "'label': 'egg' is not one of ['spam', 'ham']" in told
    assert "'score': 2 is greater than the maximum of 1" in told


def test_an_answer_that_never_fits_is_an_error() -> None:
    agent = Agent("judge", model=ScriptedModel([says("[]")]), output_type=JsonSchema(VERDICT), max_output_retries=0)

    with pytest.raises(InvalidOutput, match="has no answer that is Verdict"):
        agent.run("x")


LIST: JsonObject = {"type": "array", "items": {"$ref": "#/$defs/word"}, "$defs": {"word": {"type": "string"}}}


@pytest.mark.parametrize("said", ['{"answer": ["a"]}', '["a"]'])
def test_what_is_no_object_is_asked_for_as_a_property_of_one(said: str) -> None:
    model = ScriptedModel([says(said)])
    agent = Agent("lister", model=model, output_type=JsonSchema(LIST))

    assert agent.run("x").output == ["a"]
    asked = model.requests[0].output
    assert asked is not None
    assert asked.schema == {
        "type": "object",
        "properties": {"answer": {"type": "array", "items": {"$ref": "#/$defs/word"}}},
        "required": ["answer"],
        "additionalProperties": False,
        "$defs": {"word": {"type": "string"}},
    }


def test_text_is_dumped_as_it_is_and_the_rest_as_json() -> None:
    agent = Agent("lister", model="rehearsal", output_type=JsonSchema(LIST))

    assert agent.dump_output(["é"]) == '["é"]'
    assert agent.dump_output("é") == "é"


def test_a_bad_schema_is_refused_where_it_is_given() -> None:
    with pytest.raises(ValueError, match="is invalid"):
        JsonSchema({"type": "objct"})
    with pytest.raises(ValueError, match="nothing at \\$ref"):
        JsonSchema({"$ref": "#/$defs/gone"})
    with pytest.raises(TypeError, match="as a mapping"):
        JsonSchema([])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_the_rehearsal_model_gives_an_answer_that_fits() -> None:
    assert Agent("judge", model="rehearsal", output_type=JsonSchema(VERDICT)).run("x").output is not None


def test_a_schema_survives_a_copy_and_a_change_of_the_agent() -> None:
    schema = JsonSchema(VERDICT)
    agent = Agent("judge", model="rehearsal", output_type=schema)

    assert pickle.loads(pickle.dumps(schema)) == schema
    assert agent.replace(max_turns=3).fingerprint() == agent.fingerprint()
