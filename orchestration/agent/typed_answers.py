"""Typed answers: how a run asks for one, finds it in a turn, and handles an answer that does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from understudy.errors import InvalidOutput
from understudy.vocabulary.answers.output_type import OutputMode, text_of
from understudy.vocabulary.answers.strict_schemas import strict_schema
from understudy.vocabulary.messages import Message, ModelTurn, OutputSpec, ToolCall, ToolResult, user_message
from understudy.vocabulary.models import Model, ModelName, asked_in_turn
from understudy.vocabulary.presets import preset_of
from understudy.vocabulary.tools.questions import is_question

from .rounds import cut_calls, error_result, was_cut_off
from .spec import RunSpec
from .state import RunState

FINAL_ANSWER = "final_answer"
TAKEN = "Taken as the final answer."
NOT_RUN = "Not run: the final answer was given in the same turn."
NOT_RUN_YET = "Not run: the answer in the same turn was not accepted. Call the tool again if you still need it."
AGAIN = "This answer cannot be used: {fault}. Give the whole answer again, "
BY_TOOL = "by calling {tool}."
AS_JSON = "as JSON that fits this schema, and nothing else: {schema}"
UNENDED = ("paused", "other")
"""Finish reasons of turns whose text is no answer, unless there are calls."""
UNSURE = "its arguments may be incomplete"
"""The problem of an answer that fits, in a call that was cut off."""

NO_SCHEMAS = {
    "openai": re.compile(r"gpt-3\.5|gpt-4($|-)"),  # OpenAI API, Structured outputs: from GPT-4o on.
    "anthropic": re.compile(r"claude-([123]|instant|(opus|sonnet)-4($|-[01]($|-)|-2025))"),  # Claude API: from 4.5 on.
}
"""Provider -> models that do not support a schema for their answers."""
ONE_OR_THE_OTHER = re.compile(r"gemini-[12]")
"""Gemini API, Structured output: before Gemini 3, requests with both a schema and functions are refused."""


# --- how a model is asked


def output_spec(spec: OutputSpec, mode: OutputMode, model: ModelName | Model, tools: Iterable[str]) -> OutputSpec:
    """Return the spec of an answer, with the name of the answer's tool if the model answers by a tool call."""
    names = set(tools)
    if mode == "native" or (
        mode == "auto" and all(_is_native(spec, each, bool(names)) for each in asked_in_turn(model))
    ):
        return spec
    name = FINAL_ANSWER
    number = 1
    while name in names:
        number += 1
        name = f"{FINAL_ANSWER}_{number}"
    return replace(spec, tool=name)


def _is_native(spec: OutputSpec, model: ModelName | Model, has_tools: bool) -> bool:
    """Whether the provider enforces the schema for this model; unknown models are assumed to."""
    preset = preset_of(model)
    if preset is not None:
        return preset.typed_by == "schema" or (preset.typed_by == "schema unless tools" and not has_tools)
    provider, name = getattr(model, "provider", ""), str(getattr(model, "model", ""))
    never = NO_SCHEMAS.get(provider)
    if never is not None and never.match(name):
        return False
    if provider == "vertex" and name.startswith("claude"):  # Claude API, Structured outputs: not on Vertex AI.
        return False
    if provider == "anthropic":
        return strict_schema(spec.schema, recursive=False) is not None
    return not (provider in ("gemini", "vertex") and has_tools and ONE_OR_THE_OTHER.search(name))


# --- which text is the answer


def final_call(spec: RunSpec, turn: ModelTurn, calls: Iterable[ToolCall]) -> ToolCall | None:
    """Return the call that gives the answer, or None; a blocked turn has no answer."""
    if spec.output is None or not spec.output.tool or turn.finish_reason == "blocked":
        return None
    return next((call for call in calls if call.name == spec.output.tool), None)


def answer_in(spec: RunSpec, turn: ModelTurn) -> str | None:
    """Return the answer's text to check; None if the turn calls tools, asks a person, refuses or is empty."""
    if spec.output is None:
        return None
    calls = turn.tool_calls
    if calls:
        call = final_call(spec, turn, calls)
        return None if call is None else text_of(call)
    silent = not turn.text and (bool(turn.refusal) or turn.finish_reason in ("length", "blocked"))
    return None if silent or turn.finish_reason in UNENDED or is_question(turn.text) else turn.text


# --- how the run goes on


def why_not(turn: ModelTurn, problem: str) -> str:
    """Return the problem of an answer, or an empty text."""
    if not turn.tool_calls and not turn.text and turn.refusal:
        return f"the model refused: {turn.refusal}"
    if problem and was_cut_off(turn):
        return f"it was cut off at settings.max_tokens, which must be higher ({problem})"
    if problem and turn.finish_reason == "blocked":
        return f"the provider ended it ({turn.raw_finish_reason or 'blocked'}): {problem}"
    return problem


def take_final_call(
    spec: RunSpec,
    state: RunState,
    turn: ModelTurn,
    calls: Sequence[ToolCall],
    call: ToolCall,
    met: str | None,
    problem: str,
) -> None:
    """End the run with the answer in `call`, or refuse the answer. Every call of the turn gets a result."""
    ends = not spec.criteria or met is not None
    if not problem and calls.index(call) in cut_calls(turn, calls):
        problem = UNSURE
    fault = why_not(turn, problem) if ends else ""
    results: list[ToolResult] = []
    for each in calls:
        if each is not call:
            results.append(error_result(each, "not_run", NOT_RUN if ends and not fault else NOT_RUN_YET))
        elif fault:
            results.append(error_result(call, "bad_arguments", _again(spec, fault)))
        else:
            results.append(ToolResult(call.id, TAKEN if ends else spec.continue_message, name=call.name))
    state.messages.append(Message("user", tuple(results)))
    state.text = text_of(call)
    if fault:
        _refuse(state, turn, fault)
    elif ends:
        state.completion_reason = "the model answered" if met is None else met
        state.phase = "done"
    elif state.continues < state.max_continues:
        state.continues += 1
        state.phase = "model"
    else:
        state.completion_reason = no_criterion_met(state)
        state.phase = "incomplete"


def no_criterion_met(state: RunState) -> str:
    """Return the completion reason of a run whose last text meets no criterion."""
    return f"no criterion was met after {state.continues} continue messages"


def refuse_text(spec: RunSpec, state: RunState, turn: ModelTurn, fault: str) -> None:
    """Tell the model the problem of its answer, or stop at the limit."""
    state.messages.append(user_message(_again(spec, fault)))
    _refuse(state, turn, fault)


def _again(spec: RunSpec, fault: str) -> str:
    assert spec.output is not None  # else no answer is wrong
    if spec.output.tool:
        return AGAIN.format(fault=fault) + BY_TOOL.format(tool=spec.output.tool)
    return AGAIN.format(fault=fault) + AS_JSON.format(schema=json.dumps(spec.output.schema, ensure_ascii=False))


def _refuse(state: RunState, turn: ModelTurn, fault: str) -> None:
    state.problems.append(fault)
    # A model that refused, or whose answer was cut off, would do so again; a person must change something first.
    hopeless = was_cut_off(turn) or turn.finish_reason == "blocked" or (not turn.text and bool(turn.refusal))
    state.phase = "bad_output" if hopeless or len(state.problems) > state.max_output_retries else "model"


def invalid_output(spec: RunSpec, state: RunState) -> InvalidOutput:
    """Return the error of a run whose answers did not fit."""
    name = "its output type" if spec.output is None else spec.output.name
    tries = len(state.problems)
    times = "" if tries == 1 else f" after {tries} answers"
    last = state.problems[-1]
    return InvalidOutput(
        f"agent {spec.agent_id!r} has no answer that is {name}{times}: {last}",
        text=state.text,
        problems=tuple(state.problems),
    )
