"""Scenarios played by the events of a run alone: what is due is done, and each thing that happens is an event.

Before each event the line is read again from its text, as another process would read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import understudy as us
from understudy.orchestration import Ruling
from understudy.orchestration.agent.pauses import sort_answers
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.lines import Entry, line_of, text_of
from understudy.orchestration.runs.state import AgentLineState, Due
from understudy.vocabulary.context.account import Account, copy_of, grown
from understudy.vocabulary.context.budget import Spending

from .by_hand import about_turn, ended, failed, result_of, rulings
from .scenario import Answer, Played, Scenario, call_words


@dataclass
class PlayedByLine:
    """A run that is played, and its line."""

    scenario: Scenario
    turns: Iterator[us.ModelTurn]
    answers: Iterator[Answer]
    steps: list[str] = field(default_factory=list[str])
    line: list[Entry] = field(default_factory=list[Entry])

    def state(self) -> AgentLineState:
        """Return the state that the line comes to, gone live."""
        agent = self.scenario.agent
        found = AgentLineState(agent.run_spec)
        for entry in line_of(text_of(self.line)):
            found.apply(entry.event)
        found.go_live(self._account)
        return found

    def _account(self, figures: Spending) -> Account:
        agent = self.scenario.agent
        return Account(agent.id, agent.run_spec.priced_as, figures)

    def happens(self, event: e.RunEvent) -> AgentLineState:
        """Add an event, with what it spent; raises what the machine raises, and then it is not added."""
        state = self.state()
        before = copy_of(state.account.spending)
        state.apply(event)
        if isinstance(event, e.TurnBegan) and state.asked_for is not None and state.asked_for.compaction is not None:
            event = e.SummaryBegan()
        if hasattr(event, "spent"):
            spent = grown(state.account.spending, before)
            told = e.Spent(spent.usage, spent.cost, spent.all_turns, spent.tool_calls)
            event = replace(cast(Any, event), spent=told)
        self.line.append(Entry(len(self.line), float(len(self.line)), event))
        return state


def play_by_line(scenario: Scenario) -> Played:
    """Do what is due until the run is over."""
    played = PlayedByLine(scenario, iter(scenario.turns), iter(scenario.answers))
    played.happens(e.Accepted(scenario.agent.id, "", "Hi"))
    played.happens(e.Opened())
    while True:
        state = played.state()
        machine = state.machine
        assert machine is not None
        try:
            over = _do(played, state.due(), machine)
        except us.UnderstudyError as error:
            played.steps.append(type(error).__name__)
            played.happens(e.Failed(type(error).__name__, str(error)))
            if not _goes_on(played, machine):
                return failed(machine, tuple(played.steps), error)
            continue
        if over is not None:
            return over


def _do(played: PlayedByLine, due: list[Due], machine: AgentRun) -> Played | None:
    """Do what is due; returns what came of the run once it is over."""
    scenario = played.scenario
    match due[0].kind:
        case "guard":
            played.happens(e.CallsGuarded(rulings(scenario.before_tool, [call.id for call in machine.unguarded()])))
        case "review":
            reviewed = [call.id for call, _ in machine.unreviewed()]
            played.happens(e.ResultsReviewed(rulings(scenario.after_tool, reviewed)))
        case "round":
            played.happens(e.RoundBegan())
        case "model":
            played.happens(e.TurnBegan(machine.state.turns + 1))
            played.happens(_turn(scenario, next(played.turns), machine))
            played.steps.append("model")
        case "call":
            _make_calls(played, [each.key for each in due], machine)
        case "ask":
            played.happens(e.Asked())
            played.steps.append(_words(machine))
            assert _goes_on(played, machine)
        case "finish":
            return _finish(played, machine)
        case "fail":
            machine.next_step()
        case kind:
            raise AssertionError(kind)
    return None


def _turn(scenario: Scenario, turn: us.ModelTurn, machine: AgentRun) -> e.RunEvent:
    """Return the event of a turn with what the agent's own functions say about it."""
    if (action := scenario.after_model.get(turn.text)) is not None:
        return e.TurnRuled(turn, Ruling("Guard", action))
    return e.TurnTaken(turn, **about_turn(scenario, turn, machine))


def _make_calls(played: PlayedByLine, ids: list[str], machine: AgentRun) -> None:
    """Make the calls that are due; the last one comes back first."""
    round_ = machine.state.round
    assert round_ is not None
    calls = {call.id: call for call in round_.calls}
    for id in ids:
        played.happens(e.CallBegan(id))
    for id in reversed(ids):
        played.happens(e.ResultCame(result_of(played.scenario, calls[id])))
    played.steps.append(" ".join(["tools", *sorted([call_words(id, calls[id].arguments) for id in ids])]))


def _words(machine: AgentRun) -> str:
    match machine.next_step():
        case us.AwaitApproval(calls=calls):
            return " ".join(["waits for", *[call.id for call in calls]])
        case us.AwaitInput(question=question):
            return f"asks {question}"
        case step:
            raise AssertionError(step)


def _finish(played: PlayedByLine, machine: AgentRun) -> Played | None:
    step = machine.next_step()
    assert isinstance(step, us.Done)
    is_complete = isinstance(step.outcome, us.Complete)
    played.happens(e.Ended("complete" if is_complete else "incomplete"))
    played.steps.append(step.outcome.status)
    if not is_complete and _goes_on(played, machine):
        return None
    return ended(played.scenario.agent, tuple(played.steps), step.outcome)


def _goes_on(played: PlayedByLine, machine: AgentRun) -> bool:
    """Answer a pause or raise a limit with the next answer, if there is one."""
    answer = next(played.answers, None)
    if answer is None:
        return False
    if isinstance(answer, str) or all(isinstance(each, us.Approve | us.Reject) for each in answer.values()):
        given = sort_answers(machine.pauses, cast("Any", answer))
        played.happens(e.Answered(cast("Mapping[str, Any]", given)))
    else:
        limits = dict(cast("Mapping[str, int | us.Budget]", answer))
        budget = cast("us.Budget | None", limits.pop("budget", None))
        played.happens(e.Extended(cast("dict[str, int]", limits), budget))
    return True
