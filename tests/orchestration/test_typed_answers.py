"""Typed answers by the machine: how a model is asked, what ends the run, and what goes back to the model."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.support.machines import (
    SCHEMA,
    answers,
    asked,
    asks,
    call,
    completed,
    make_spec,
    messages_of,
    model_step,
    reloaded,
    said,
    saved,
)
from understudy.errors import BadReply, InvalidOutput, MaxIterationsExceeded, ProtocolViolation, SpecChanged
from understudy.orchestration import AgentRun, Done, RunSpec
from understudy.orchestration.agent.typed_answers import output_spec
from understudy.providers import Gemini, ScriptedModel
from understudy.vocabulary.answers.output_type import OutputMode
from understudy.vocabulary.messages import (
    JsonObject,
    ModelTurn,
    OutputSpec,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
    says,
)
from understudy.vocabulary.models import ModelName
from understudy.vocabulary.runs.outcomes import Incomplete

FORM: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
NATIVE = OutputSpec("Number", FORM)
BY_TOOL = replace(NATIVE, tool="final_answer")
AS_JSON = f"Give the whole answer again, as JSON that fits this schema, and nothing else: {json.dumps(FORM)}"
BY_CALL = "Give the whole answer again, by calling final_answer."


def typed(output: OutputSpec, *tools: str, retries: int = 2, settings: Settings | None = None) -> RunSpec:
    return replace(make_spec(*tools), output=output, max_output_retries=retries, settings=settings or Settings())


def begun(spec: RunSpec, *turns: tuple[ModelTurn, str | None]) -> AgentRun:
    """Begin a run and feed it turns, each with what is wrong with its answer."""
    run = AgentRun(spec, "Hi")
    for turn, problem in turns:
        model_step(run)
        run.model_response(turn, output_problem=problem)
    return run


def final(id: str = "f", **arguments: int) -> ModelTurn:
    return asks(ToolCall(id, "final_answer", arguments))


def refused(content: str, id: str = "f") -> ToolResult:
    return ToolResult(id, content, is_error=True, error_kind="bad_arguments", name="final_answer")


def failure(run: AgentRun) -> InvalidOutput:
    with pytest.raises(InvalidOutput) as caught:
        run.next_step()
    return caught.value


# --- how a model is asked


def test_a_model_that_is_held_to_the_schema_is_given_no_tool_for_it() -> None:
    request = model_step(AgentRun(typed(NATIVE, "look"), "Hi")).request

    assert request.output == NATIVE
    assert [tool.name for tool in request.tools] == ["look"]


def test_a_model_that_answers_by_a_tool_is_given_it_after_the_others() -> None:
    request = model_step(AgentRun(typed(BY_TOOL, "look"), "Hi")).request

    assert request.output == BY_TOOL
    assert [tool.name for tool in request.tools] == ["look", "final_answer"]
    assert request.tools[-1].schema == FORM
    assert request.settings.tool_choice == "auto"


def test_an_agent_without_output_type_is_asked_as_ever() -> None:
    request = model_step(AgentRun(make_spec("look"), "Hi")).request

    assert request.output is None
    assert request.tools == (ToolSpec("look", "Does look.", SCHEMA),)


@pytest.mark.parametrize(
    ("tools", "settings", "choices"),
    [
        ((), Settings(), ["final_answer", "final_answer"]),
        ((), Settings(tool_choice="none"), ["final_answer", "final_answer"]),
        (("look",), Settings(tool_choice="none"), ["final_answer", "final_answer"]),
        (("look",), Settings(tool_choice="look"), ["look", "auto"]),
        (("look",), Settings(tool_choice="required"), ["required", "auto"]),
        ((), Settings(thinking_tokens=2000), ["auto", "auto"]),
    ],
)
def test_a_model_that_can_only_answer_must_and_one_that_thinks_is_not_forced(
    tools: tuple[str, ...], settings: Settings, choices: list[str]
) -> None:
    run = AgentRun(typed(BY_TOOL, *tools, settings=settings), "Hi")
    first = model_step(run).request.settings.tool_choice

    run.model_response(says("Hm."), output_problem="no")

    assert [first, model_step(run).request.settings.tool_choice] == choices


# --- which text is the answer


@pytest.mark.parametrize(
    ("output", "turn", "text"),
    [
        (NATIVE, says('{"n": 1}'), '{"n": 1}'),
        (NATIVE, says(""), ""),
        (NATIVE, asks(call("a")), None),
        (NATIVE, says("__ask_user__: which?"), None),
        (NATIVE, ModelTurn((), refusal="No."), None),
        (NATIVE, ModelTurn((), finish_reason="length"), None),
        (NATIVE, replace(says('{"n"'), finish_reason="paused"), None),
        (NATIVE, replace(says('{"n"'), finish_reason="other"), None),
        (BY_TOOL, asks(call("a")), None),
        (BY_TOOL, says('{"n": 1}'), '{"n": 1}'),
        (BY_TOOL, asks(call("a"), ToolCall("f", "final_answer", {"n": 1}), before="So:"), '{"n": 1}'),
        (BY_TOOL, asks(ToolCall("f", "final_answer", bad_arguments='{"n"')), '{"n"'),
    ],
)
def test_only_what_would_end_the_run_is_there_to_be_checked(
    output: OutputSpec, turn: ModelTurn, text: str | None
) -> None:
    assert AgentRun(typed(output, "look"), "Hi").answer_in(turn) == text


def test_nothing_is_there_to_be_checked_without_an_output_type() -> None:
    assert AgentRun(make_spec(), "Hi").answer_in(says("Hello.")) is None


def test_an_answer_that_nobody_checked_is_not_taken() -> None:
    run = AgentRun(typed(NATIVE), "Hi")
    before = run.to_json()

    with pytest.raises(ProtocolViolation, match="output_problem"):
        run.model_response(says('{"n": 1}'))

    assert run.to_json() == before


# --- what ends the run


def test_a_final_call_takes_no_round_of_tools() -> None:
    run = begun(replace(typed(BY_TOOL, "look"), max_iterations=0), (final(n=1), ""))

    assert completed(run).text == '{"n": 1}'


def test_a_final_call_that_the_provider_blocked_is_not_taken() -> None:
    blocked = replace(final(n=1), finish_reason="blocked", raw_finish_reason="UNEXPECTED_TOOL_CALL")
    run = begun(typed(BY_TOOL), (blocked, None))

    assert isinstance(model_step(run).request.messages[-1].tool_results[0], ToolResult)
    assert messages_of(run)[-1].tool_results[0].error_kind == "not_run"


# --- what goes back to the model


def test_a_bad_answer_goes_back_with_what_is_wrong() -> None:
    run = begun(typed(NATIVE), (says("One."), "it is no JSON"), (says('{"n": 1}'), ""))

    assert messages_of(run)[1:3] == [
        said(TextPart("One.")),
        asked(f"This answer cannot be used: it is no JSON. {AS_JSON}"),
    ]
    assert completed(run).turns == 2


def test_a_bad_final_call_is_answered_with_what_is_wrong() -> None:
    run = begun(typed(BY_TOOL, "look"), (final(m=1), "n is missing"))

    assert messages_of(run)[-1] == answers(refused(f"This answer cannot be used: n is missing. {BY_CALL}"))
    assert model_step(run).request.turn == 2


@pytest.mark.parametrize(
    ("problem", "met", "words"),
    [
        ("n: a number", "", "the answer in the same turn was not accepted. Call the tool again if you still need it."),
        ("", None, "the answer in the same turn was not accepted. Call the tool again if you still need it."),
        ("", "enough", "the final answer was given in the same turn."),
    ],
    ids=["does not fit", "meets no criterion", "taken"],
)
def test_a_call_beside_a_final_call_is_told_what_became_of_the_answer(
    problem: str, met: str | None, words: str
) -> None:
    run = AgentRun(replace(typed(BY_TOOL, "look"), criteria=True, max_continues=1), "Hi")
    model_step(run)
    run.model_response(asks(call("a"), ToolCall("f", "final_answer", {"n": 1})), output_problem=problem, met=met)

    result = run.messages[2].tool_results[0]
    assert (result.call_id, result.content) == ("a", f"Not run: {words}")


def test_an_empty_answer_is_asked_again_and_leaves_no_empty_message() -> None:
    run = begun(typed(NATIVE), (says(""), "the answer is empty"))

    assert messages_of(run)[1:] == [asked(f"This answer cannot be used: the answer is empty. {AS_JSON}")]


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_model_is_asked_again_exactly_as_often_as_it_may(retries: int) -> None:
    bad = [(says(f"bad {n}"), f"wrong {n}") for n in range(retries + 1)]
    run = begun(typed(NATIVE, retries=retries), *bad)

    error = failure(run)
    assert (error.text, error.problems) == (f"bad {retries}", tuple([f"wrong {n}" for n in range(retries + 1)]))
    assert run.state.turns == retries + 1
    assert run.at_limit()


def test_a_run_without_an_answer_that_fits_says_so_as_often_as_it_is_asked() -> None:
    run = begun(typed(NATIVE, retries=0), (says("bad"), "wrong"))

    assert failure(run) is not failure(run)
    with pytest.raises(ProtocolViolation):
        run.model_response(says('{"n": 1}'), output_problem="")


def test_at_the_limit_no_call_is_left_unanswered() -> None:
    run = begun(typed(BY_TOOL, retries=0), (final(m=1), "n is missing"))

    failure(run)
    assert [r.call_id for r in messages_of(run)[-1].tool_results] == ["f"]


def test_another_limit_does_not_let_it_try_again() -> None:
    run = begun(typed(NATIVE, retries=0), (says("bad"), "wrong"))

    run.extend(max_turns=100)

    assert run.at_limit()
    failure(run)


def test_answers_that_do_not_fit_count_as_model_turns() -> None:
    run = begun(replace(typed(NATIVE, retries=9), max_turns=2), (says("a"), "wrong"), (says("b"), "wrong"))

    with pytest.raises(MaxIterationsExceeded) as caught:
        run.next_step()
    assert caught.value.what == "max_turns"


# --- answers that another try would not mend


@pytest.mark.parametrize(
    ("output", "turn", "words"),
    [
        (NATIVE, replace(says('{"n": '), finish_reason="length", raw_finish_reason="length"), "settings.max_tokens"),
        (
            BY_TOOL,
            replace(asks(ToolCall("f", "final_answer", bad_arguments="{")), raw_finish_reason="MAX_TOKENS"),
            "settings.max_tokens",
        ),
        (
            BY_TOOL,
            replace(asks(ToolCall("f", "final_answer", bad_arguments="{")), raw_finish_reason="max_output_tokens"),
            "settings.max_tokens",
        ),
        (
            BY_TOOL,
            replace(asks(ToolCall("f", "final_answer", {"n": 1})), raw_finish_reason="max_tokens"),
            "its arguments may be incomplete",
        ),
        (
            NATIVE,
            replace(says("{"), finish_reason="blocked", raw_finish_reason="SAFETY"),
            "the provider ended it (SAFETY)",
        ),
    ],
)
def test_an_answer_that_was_cut_off_is_not_asked_for_again(output: OutputSpec, turn: ModelTurn, words: str) -> None:
    run = begun(typed(output), (turn, "" if "incomplete" in words else "not JSON"))

    error = failure(run)
    assert run.state.turns == 1
    assert words in str(error)
    assert len(error.problems) == 1


def test_a_model_that_refused_is_asked_again_when_someone_resumes_the_run() -> None:
    run = begun(typed(NATIVE), (ModelTurn((), refusal="No."), None))
    failure(run)

    run.extend()

    assert model_step(run).request.turn == 2


def test_a_turn_that_says_nothing_because_it_was_cut_off_is_a_bad_reply_as_ever() -> None:
    run = begun(typed(NATIVE), (ModelTurn((), finish_reason="length", raw_finish_reason="length"), None))

    with pytest.raises(BadReply, match="max_tokens"):
        run.next_step()


# --- criteria


def test_a_final_call_that_meets_no_criterion_is_answered_with_the_continue_message() -> None:
    spec = replace(typed(BY_TOOL), criteria=True, max_continues=1)
    run = AgentRun(spec, "Hi")
    for turn in (final(n=1), final("g", n=2)):
        model_step(run)
        run.model_response(turn, met=None)

    assert [m.tool_results for m in messages_of(run) if m.tool_results] == [
        (ToolResult("f", spec.continue_message, name="final_answer"),),
        (ToolResult("g", spec.continue_message, name="final_answer"),),
    ]
    step = run.next_step()
    assert isinstance(step, Done)
    assert isinstance(step.outcome, Incomplete)
    assert step.outcome.last_text == '{"n": 2}'


def test_a_final_call_that_meets_a_criterion_is_checked_and_ends_the_run() -> None:
    run = AgentRun(replace(typed(BY_TOOL), criteria=True), "Hi")
    model_step(run)
    with pytest.raises(ProtocolViolation, match="output_problem"):
        run.model_response(final(n=1), met="enough")

    run.model_response(final(n=1), met="enough", output_problem="")

    assert completed(run).completion_reason == "enough"


# --- saving and loading


def test_a_saved_run_remembers_its_bad_answers() -> None:
    run = begun(typed(NATIVE, retries=1), (says("a"), "wrong 1"))
    run = reloaded(run)
    run.model_response(says("b"), output_problem="wrong 2")

    error = failure(reloaded(run))

    assert error.problems == ("wrong 1", "wrong 2")


def test_a_text_that_claims_a_bad_answer_without_a_problem_is_no_saved_run() -> None:
    data = saved(begun(typed(NATIVE, retries=0), (says("a"), "wrong")))
    state = data["state"]
    assert isinstance(state, dict)
    state["problems"] = []

    with pytest.raises(ValueError, match="not a saved run"):
        AgentRun.from_json(json.dumps(data), typed(NATIVE))


def test_the_form_belongs_to_the_definition_and_how_it_is_asked_for_does_not() -> None:
    text = AgentRun(typed(NATIVE), "Hi").to_json()

    AgentRun.from_json(text, typed(BY_TOOL, retries=7))
    for other in (make_spec(), typed(OutputSpec("Number", {"type": "object", "properties": {}}))):
        with pytest.raises(SpecChanged):
            AgentRun.from_json(text, other)


# --- which way is chosen


@pytest.mark.parametrize(
    ("mode", "model", "tools", "by_tool"),
    [
        ("auto", "openai:gpt-4o", ["look"], False),
        ("auto", "openai:gpt-4.1-nano", [], False),
        ("auto", "openai:llama3", ["look"], False),
        ("auto", "openai:gpt-4-turbo", [], True),
        ("auto", "openai:gpt-4", [], True),
        ("auto", "openai:gpt-3.5-turbo", [], True),
        ("auto", "anthropic:claude-haiku-4-5", ["look"], False),
        ("auto", "anthropic:claude-opus-4-6", [], False),
        ("auto", "anthropic:claude-sonnet-5", [], False),
        ("auto", "anthropic:claude-3-5-haiku-latest", [], True),
        ("auto", "anthropic:claude-sonnet-4-20250514", [], True),
        ("auto", "anthropic:claude-sonnet-4-0", [], True),
        ("auto", "anthropic:claude-opus-4-1-20250805", [], True),
        ("auto", "gemini:gemini-2.5-flash", [], False),
        ("auto", "gemini:gemini-2.5-flash", ["look"], True),
        ("auto", "vertex:gemini-2.5-flash", ["look"], True),
        ("auto", "gemini:gemini-3-pro", ["look"], False),
        ("auto", "rehearsal", ["look"], False),
        ("native", "gemini:gemini-2.5-flash", ["look"], False),
        ("tool", "openai:gpt-4o", [], True),
    ],
)
def test_a_tool_is_used_where_the_provider_cannot_hold_the_model_to_the_schema(
    mode: OutputMode, model: str, tools: list[str], by_tool: bool
) -> None:
    assert output_spec(NATIVE, mode, ModelName.parse(model), tools).tool == ("final_answer" if by_tool else "")


def test_a_model_object_is_judged_by_its_provider_and_an_unknown_one_is_taken_at_its_word() -> None:
    assert output_spec(NATIVE, "auto", Gemini("gemini-2.5-flash", api_key="k"), ["look"]).tool == "final_answer"
    assert output_spec(NATIVE, "auto", ScriptedModel([]), ["look"]).tool == ""


def test_a_schema_that_anthropic_cannot_hold_a_model_to_goes_by_a_tool() -> None:
    open_form = OutputSpec("Counts", {"type": "object", "additionalProperties": {"type": "integer"}})

    assert output_spec(open_form, "auto", ModelName.parse("anthropic:claude-haiku-4-5"), []).tool == "final_answer"
    assert output_spec(open_form, "auto", ModelName.parse("openai:gpt-4o"), []).tool == ""


def test_the_tool_has_a_name_that_no_tool_of_the_users_has() -> None:
    assert output_spec(NATIVE, "tool", ModelName.parse("rehearsal"), ["final_answer", "final_answer_2"]).tool == (
        "final_answer_3"
    )
