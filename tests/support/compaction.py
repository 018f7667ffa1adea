"""Shorthands for tests of compaction: specs with a rule, long histories, and runs with large results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tests.support.machines import asks, call, make_spec
from understudy.orchestration import AgentRun, CallModel, RunSpec
from understudy.orchestration.agent.spec import CompactionRule
from understudy.vocabulary.messages import Message, ModelRequest, ModelTurn, ToolResult, Usage, says, user_message
from understudy.vocabulary.runs.compaction import Compaction

WINDOW = 8_000


def compacted_spec(
    *,
    rule: CompactionRule | None | str = "",
    context_window: int | None = WINDOW,
    tools: Sequence[str] = ("look",),
    **options: Any,
) -> RunSpec:
    """Return the spec of an agent with the tool `look`, and a rule for long conversations; `rule=None` is none."""
    found = rule
    if isinstance(found, str):
        compaction = Compaction(context_window=context_window, **options)
        found = CompactionRule(compaction=compaction, window=context_window)
    return replace_spec(make_spec(*tools, max_iterations=1000, max_turns=1000), found)


def replace_spec(spec: RunSpec, rule: CompactionRule | None) -> RunSpec:
    """Return a spec with this rule."""
    return RunSpec(
        agent_id=spec.agent_id,
        model=spec.model,
        system=spec.system,
        tools=spec.tools,
        settings=spec.settings,
        max_iterations=spec.max_iterations,
        max_turns=spec.max_turns,
        compaction=rule,
    )


def long_history(turns: int, length: int = 700) -> list[Message]:
    """Return a history of so many questions and answers, about 360 tokens each."""
    found: list[Message] = []
    for number in range(turns):
        found.append(user_message(f"Question {number}: " + "q" * length))
        found.append(Message("assistant", says(f"Answer {number}: " + "a" * length).parts))
    return found


def lookup_turn(id: str, name: str = "look") -> ModelTurn:
    """Return a turn that calls a tool."""
    return asks(call(id, name))


def look_up(
    run: AgentRun, id: str, content: str = "Seven.", *, is_error: bool = False, turn: ModelTurn | None = None
) -> None:
    """Have the model call `look`, and the call give this result."""
    run.model_response(lookup_turn(id) if turn is None else turn)
    run.next_step()
    run.tool_results([ToolResult(id, content, is_error, name="look")])


def big_results(count: int, length: int) -> list[str]:
    """Return so many results of this length."""
    return ["x" * length] * count


def next_call(run: AgentRun) -> CallModel:
    """Return the pending model call."""
    step = run.next_step()
    assert isinstance(step, CallModel), step
    return step


def is_summary(step: CallModel) -> bool:
    return step.compaction is not None


def with_usage(turn: ModelTurn, *, input_tokens: int, output_tokens: int) -> ModelTurn:
    return replace(turn, usage=Usage(input_tokens, output_tokens))


def shown_text(request: ModelRequest) -> str:
    """Return all that a request shows, as one text."""
    return "\n".join([str(part) for message in request.messages for part in message.parts])


def play_lookups(
    spec: RunSpec,
    results: Iterable[str],
    *,
    input: str = "Hi",
    history: Sequence[Message] = (),
    is_error: bool = False,
) -> AgentRun:
    """Play a run whose model calls `look` once a turn; summaries are answered by "Summary NUMBER."."""
    run = AgentRun(spec, input, history=history)
    summaries = 0
    for number, content in enumerate(results):
        while is_summary(next_call(run)):
            summaries += 1
            run.model_response(says(f"Summary {summaries}."))
        look_up(run, f"c{number}", content, is_error=is_error)
    while is_summary(next_call(run)):
        summaries += 1
        run.model_response(says(f"Summary {summaries}."))
    return run
