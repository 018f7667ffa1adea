"""How a paused run goes on: what higher limits and a person's answers do to its machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from understudy.orchestration.agent.next_step import is_too_long, limits_reached
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.saving.machines import Machine, Orchestrator
from understudy.orchestration.saving.raised_limits import (
    Raising,
    has_kept_children,
    has_limited_children,
    raised_below,
    raised_in,
)
from understudy.vocabulary.context.account import Account

if TYPE_CHECKING:
    from understudy.orchestration import Agent
    from understudy.orchestration.definitions.port import ResumeOptions
    from understudy.vocabulary.runs.outcomes import PauseAnswer

NUMBERS = ("max_iterations", "max_turns", "max_continues", "max_output_retries")
"""Limits of agents, of which groups have none themselves."""


def extend_agent(run_id: str, agent: Agent[object], machine: AgentRun, options: ResumeOptions) -> None:
    """Raise the limits of an agent's run, or of the sub-agents that stand at one; or change nothing.

    Raises:
        ValueError: a limit would be lowered, or an incomplete run would stay so.
    """
    wanted = _wanted(options)
    below = raised_below(agent, machine, wanted)
    if below:
        wanted.check()
        if "budget" not in wanted.taken:
            machine.extend(budget=options.budget)
        for call_id, text in below.items():
            machine.child_stopped(call_id, text)
        return
    _check_goes_on(run_id, machine, options.max_continues)
    machine.extend(
        max_iterations=options.max_iterations,
        max_turns=options.max_turns,
        max_continues=options.max_continues,
        budget=options.budget,
        max_output_retries=options.max_output_retries,
    )


def _check_goes_on(run_id: str, machine: AgentRun, wanted: int | None) -> None:
    """Refuse to resume an incomplete run that would stay incomplete: it would only use the token up."""
    state = machine.state
    if state.phase == "incomplete" and (wanted is None or state.max_continues <= wanted <= state.continues):
        raise ValueError(
            f"run {run_id} is incomplete, because {state.completion_reason}: pass max_continues= above "
            f"{state.continues} to go on; the token stands"
        )


def why_agent_takes_none(machine: AgentRun) -> str:
    """Return why an agent's run takes no answer, and how it goes on; empty if it takes one."""
    if not machine.at_limit():
        return ""
    if is_too_long(machine.state):
        return "its last request was too long for the model, and it waits for no answer: resume it without one"
    limits = [f"{name}=…" for name in limits_reached(machine.state, machine.account)]
    return f"it waits for a higher limit, not for an answer: pass {' and '.join(limits)}"


def extend_group(
    run_id: str,
    group: Orchestrator,
    machine: Machine,
    account: Account,
    answers: Mapping[str, PauseAnswer],
    options: ResumeOptions,
) -> None:
    """Raise the limits of an orchestrator's run and feed it the answers; without any, do again what failed.

    Raises:
        ValueError: a limit would be lowered, or is one of agents and no child stands at it.
    """
    wanted = _wanted(options)
    stopped = has_limited_children(machine)
    for name in wanted.numbers if not stopped else ():
        raise ValueError(f"run {run_id}: {name} is a limit of agents, and {group.id!r} is none")
    raised = raised_in(group, machine, wanted) if stopped else {}
    wanted.moved |= not machine.at_limit() or has_kept_children(machine)  # what else is not done goes on
    wanted.check()
    if options.budget is not None and "budget" not in wanted.taken:
        account.extend(options.budget)
    if answers:
        machine.respond(answers)
    elif raised:
        machine.go_on(raised)
    else:
        machine.retry_failed()


def _wanted(options: ResumeOptions) -> Raising:
    limits = {name: getattr(options, name) for name in NUMBERS}
    return Raising(numbers={name: n for name, n in limits.items() if n is not None}, budget=options.budget)


def retry_group(group: Orchestrator, machine: Machine) -> None:
    """Do again what failed in an orchestrator's run, with no limit raised: a child that is incomplete goes on inside."""
    raised = raised_in(group, machine, Raising(numbers={}, budget=None)) if isinstance(machine, GraphRun) else {}
    if raised:
        machine.go_on(raised)
    else:
        machine.retry_failed()


def why_group_takes_none(machine: Machine) -> str:
    """Return why an orchestrator's run takes no answer, and how it goes on; empty if it takes one."""
    if isinstance(machine, GraphRun) and machine.is_incomplete():
        return "it waits to begin its failed tasks anew, not for an answer: resume it without one"
    if machine.at_limit():
        limit = "the limit that a child of it reached, such as max_iterations=… or budget=…"
        return f"it waits for a higher limit, not for an answer: pass {limit}"
    return ""
