"""Whole runs of trees, driven by hand to their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias, cast

from understudy.orchestration import Agent
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.graph.run import GraphRun
from understudy.vocabulary.messages import JsonValue, Usage
from understudy.vocabulary.runs.outcomes import Approve, Complete, Incomplete, Pause, PauseAnswer, Reject

from .trees_by_hand import Hand, Run, begin

MOST_MOVES = 5_000


@dataclass
class Played:
    """What a run came to.

    Attributes:
        end: how it ended.
        pauses: what it waited for, each time.
        session: as it was left.
        usage: of all model calls.
        turns: how many were answered.
        models: how many there were.
        tools: how often tools were called.
        told: what every machine said, step by step.
        is_agents: whether it was an agent's.
    """

    end: Complete[str] | Incomplete | Exception
    pauses: list[tuple[Pause, ...]]
    session: dict[str, JsonValue]
    usage: Usage
    turns: int
    models: int
    tools: int
    told: list[object]
    is_agents: bool

    @property
    def counted(self) -> Complete[str] | Incomplete | Exception:
        """How it ended, with the usage of all model calls, as the runtime tells it; of a group also their number."""
        if not isinstance(self.end, (Complete, Incomplete)):
            return self.end
        turns = self.end.turns if self.is_agents else self.turns
        return replace(self.end, usage=self.usage, turns=turns)


Answering: TypeAlias = Callable[[tuple[Pause, ...]], dict[str, PauseAnswer]]


def play(
    runner: Runner[object],
    seed: int,
    answering: Answering,
    *,
    session: Mapping[str, JsonValue],
    saving: bool = False,
    live: bool = False,
) -> Played:
    """Drive a run of `runner` to its end, also over its pauses, and once over failed tasks."""
    hand = Hand(Random(seed), saving, live, Usage(), [])
    run, pauses, began_anew = begin(hand, runner, "Go", session), list[tuple[Pause, ...]](), False
    for _ in range(MOST_MOVES):
        run.advance()
        if saving:
            for each in run.runs():
                each.reload()
        workflow = cast(Workflow, run.runner)
        if (
            isinstance(run.end, Incomplete)
            and isinstance(run.machine, GraphRun)
            and not began_anew
            and hand.can_retry(workflow, run.machine)
        ):
            began_anew, run.end = True, None
            hand.retry(workflow, run.machine)
        elif run.end is not None:
            return _played(run, run.end, pauses)
        elif run.is_paused:
            pauses.append(run.machine.pauses)
            run.is_paused = False
            run.machine.respond(answering(run.machine.pauses))
        else:
            moves = list(run.moves())
            assert moves, "nothing is to be done, and nothing is over"
            moves[hand.chance.randrange(len(moves))]()
    raise AssertionError("the run goes round in circles")


def _played(run: Run, end: Complete[str] | Incomplete | Exception, pauses: list[tuple[Pause, ...]]) -> Played:
    hand = run.hand
    return Played(
        end,
        pauses,
        dict(run.session),
        hand.usage,
        hand.turns,
        hand.models,
        hand.tools,
        hand.told,
        isinstance(run.runner, Agent),
    )


def answers_for(pauses: Iterable[Pause]) -> dict[str, PauseAnswer]:
    """Return an answer for each pause, which follows from what it asks."""
    return {pause.id: answer_for(pause) for pause in pauses}


def answer_for(pause: Pause) -> PauseAnswer:
    if pause.question is not None:
        return f"yes, {pause.question}"
    return {call.id: Approve() if number % 2 == 0 else Reject("no") for number, call in enumerate(pause.calls)}
