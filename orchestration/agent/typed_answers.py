"""Typed answers: how a model is asked for one, which text of a turn is the answer, and what becomes of one that does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from understudy.errors import InvalidOutput
from understudy.vocabulary.answers.output_type import OutputMode, text_of
from understudy.vocabulary.answers.strict_schemas import strict_schema
from understudy.vocabulary.messages import Message, ModelTurn, OutputSpec, ToolCall, ToolResult, user_message
from understudy.vocabulary.models import Model, ModelName
from understudy.vocabulary.tools.questions import is_question

from .calls import error_result
from .spec import RunSpec
from .state import RunState

FINAL_ANSWER = "final_answer"
TAKEN = "Taken as the final answer."
NOT_RUN = "Not run: the final answer was given in the same turn."
AGAIN = "This answer cannot be used: {fault}. Give the whole answer again, "
BY_TOOL = "by calling {tool}."
AS_JSON = "as JSON that fits this schema, and nothing else: {schema}"
UNENDED = ("paused", "other")
"""Reasons of turns whose text, if no call is beside it, answers nothing."""
CUT_OFF = ("length", "max_tokens")
"""Providers' own words for it, in lower case; the neutral one is lost where there are calls."""

NO_SCHEMAS = {
    "openai": re.compile(r"gpt-3\.5|gpt-4($|-)"),  # OpenAI API, Structured outputs: from GPT-4o on.
    "anthropic": re.compile(r"claude-([123]|instant|(opus|sonnet)-4($|-[01]($|-)|-2025))"),  # Claude API: from 4.5 on.
}
"""Provider -> models that it cannot hold to a schema."""
ONE_OR_THE_OTHER = re.compile(r"gemini-[12]")
"""Gemini API, Structured output: before Gemini 3 refused together with function calling."""


# --- how a model is asked


def output_spec(spec: OutputSpec, mode: OutputMode, model: ModelName | Model, tools: Iterable[str]) -> OutputSpec:
    """Return the spec of an answer with the tool by which it is given, if it is to be given by one."""
    names = set(tools)
    if mode == "native" or (mode == "auto" and _is_native(spec, model, bool(names))):
        return spec
    name = FINAL_ANSWER
    number = 1
    while name in names:
        number += 1
        name = f"{FINAL_ANSWER}_{number}"
    return replace(spec, tool=name)


def _is_native(spec: OutputSpec, model: ModelName | Model, has_tools: bool) -> bool:
    """Whether the model's provider is known to hold it to the schema; models that nobody knows are taken at their word."""
    provider, name = getattr(model, "provider", ""), str(getattr(model, "model", ""))
    never = NO_SCHEMAS.get(provider)
    if never is not None and never.match(name):
        return False
    if provider == "anthropic":
        return strict_schema(spec.schema, recursive=False) is not None
    return not (provider in ("gemini", "vertex") and has_tools and ONE_OR_THE_OTHER.search(name))


# --- which text is the answer


def final_call(spec: RunSpec, turn: ModelTurn, calls: Iterable[ToolCall]) -> ToolCall | None:
    """Return the call that gives the answer, if one does; of a turn that the provider blocked, none."""
    if spec.output is None or not spec.output.tool or turn.finish_reason == "blocked":
        return None
    return next((call for call in calls if call.name == spec.output.tool), None)


def answer_in(spec: RunSpec, turn: ModelTurn) -> str | None:
    """Return the text that answers, to be checked; None if the turn calls tools, asks a person, refuses or says nothing."""
    if spec.output is None:
        return None
    calls = turn.tool_calls
    if calls:
        call = final_call(spec, turn, calls)
        return None if call is None else text_of(call)
    silent = not turn.text and (bool(turn.refusal) or turn.finish_reason in ("length", "blocked"))
    return None if silent or turn.finish_reason in UNENDED or is_question(turn.text) else turn.text


# --- what becomes of it


def why_not(turn: ModelTurn, problem: str) -> str:
    """Return what is wrong with an answer; empty if nothing is."""
    if not turn.tool_calls and not turn.text and turn.refusal:
        return f"the model refused: {turn.refusal}"
    if problem and _was_cut_off(turn):
        return f"it was cut off at settings.max_tokens, which must be higher ({problem})"
    if problem and turn.finish_reason == "blocked":
        return f"the provider ended it ({turn.raw_finish_reason or 'blocked'}): {problem}"
    return problem


def take_final_call(
    spec: RunSpec,
    state: RunState,
    turn: ModelTurn,
    calls: Iterable[ToolCall],
    call: ToolCall,
    met: str | None,
    problem: str,
) -> None:
    """End the run with the answer that `call` gives, or refuse it. Every call of the turn is answered."""
    ends = not spec.criteria or met is not None
    fault = why_not(turn, problem) if ends else ""
    results: list[ToolResult] = []
    for each in calls:
        if each is not call:
            results.append(error_result(each, "not_run", NOT_RUN))
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
    """Say why a run stops with an answer that meets no criterion."""
    return f"no criterion was met after {state.continues} continue messages"


def refuse_text(spec: RunSpec, state: RunState, turn: ModelTurn, fault: str) -> None:
    """Send an answer that does not fit back to the model, or stop at the limit."""
    state.messages.append(user_message(_again(spec, fault)))
    _refuse(state, turn, fault)


def _again(spec: RunSpec, fault: str) -> str:
    assert spec.output is not None  # else no answer is wrong
    if spec.output.tool:
        return AGAIN.format(fault=fault) + BY_TOOL.format(tool=spec.output.tool)
    return AGAIN.format(fault=fault) + AS_JSON.format(schema=json.dumps(spec.output.schema, ensure_ascii=False))


def _refuse(state: RunState, turn: ModelTurn, fault: str) -> None:
    state.problems.append(fault)
    # A model that refused, or whose answer was cut off, does so again: whoever resumes the run knows better.
    hopeless = _was_cut_off(turn) or turn.finish_reason == "blocked" or (not turn.text and bool(turn.refusal))
    state.phase = "bad_output" if hopeless or len(state.problems) > state.max_output_retries else "model"


def _was_cut_off(turn: ModelTurn) -> bool:
    return turn.finish_reason == "length" or (turn.raw_finish_reason or "").lower() in CUT_OFF


def invalid_output(spec: RunSpec, state: RunState) -> InvalidOutput:
    """Make the error of a run that has no answer that fits."""
    name = "its output type" if spec.output is None else spec.output.name
    tries = len(state.problems)
    times = "" if tries == 1 else f" after {tries} answers"
    last = state.problems[-1]
    return InvalidOutput(
        f"agent {spec.agent_id!r} has no answer that is {name}{times}: {last}",
        text=state.text,
        problems=tuple(state.problems),
    )
