"""Builds definitions from the grammar's objects, each after the definitions it needs.

The spec was checked before, so a class rarely refuses an argument; such an error is reported at its definition's place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar, cast

from understudy.orchestration import ParallelAgent, SequentialAgent, Task, Workflow
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.supervision.restarts import OneForAll, OneForOne, RestForOne, Strategy
from understudy.orchestration.supervision.supervisor import Child, Supervisor
from understudy.specs.checks.definitions import Definition
from understudy.specs.checks.registered_objects import DECIDER, ERROR, UNTIL, WHEN
from understudy.specs.checks.registry import Registered
from understudy.specs.grammar.agent import AgentGrammar
from understudy.specs.grammar.grammar import Grammar
from understudy.specs.grammar.groups import (
    ChildGrammar,
    GraphGrammar,
    ParallelGrammar,
    RefGrammar,
    SequentialGrammar,
    Step,
    SupervisorGrammar,
    TaskGrammar,
)
from understudy.specs.grammar.spec import SpecGrammar
from understudy.specs.reading.located import LocatedValue
from understudy.specs.reading.problems import Problem

from .agents import AgentBuilder, given, value_of, with_parameters

T = TypeVar("T")
STRATEGIES: Mapping[str, type[Strategy]] = {
    "one_for_one": OneForOne,
    "one_for_all": OneForAll,
    "rest_for_one": RestForOne,
}


class Builder:
    """Makes the definitions of one spec.

    Attributes:
        runners: the runners made so far, by id.
        supervisors: the supervisors made so far, by id.
        problems: a problem for each definition that could not be made.
    """

    def __init__(self, agents: AgentBuilder, registered: Registered) -> None:
        self._agents = agents
        self._registered = registered
        self.runners: dict[str, Runner[object]] = {}
        self.supervisors: dict[str, Supervisor] = {}
        self.problems: list[Problem] = []

    def build(self, definitions: Iterable[Definition], grammars: Mapping[str, SpecGrammar], order: list[str]) -> None:
        """Make all definitions, in the given order; `grammars` has the checked documents by source."""
        by_id = {definition.id: definition for definition in definitions}
        for id in order:
            located = by_id[id].located
            described = _described(grammars[located.document.source], located)
            try:
                self._make(described, located)
            except _Stopped:
                pass  # `_try` has put the reason into `problems`, and the other definitions are still checked

    def _make(self, described: object, located: LocatedValue) -> None:
        match described:
            case AgentGrammar():
                self.runners[described.id] = self._try(
                    located, lambda: self._agents.agent(described, located, self.runners)
                )
            case SequentialGrammar():
                steps = self._steps(described.steps, located)
                options = given(described, "description", "pass_output")
                options["callbacks"] = self._agents.callbacks(described.callbacks)
                self.runners[described.id] = self._try(located, lambda: SequentialAgent(described.id, steps, **options))
            case ParallelGrammar():
                steps = self._steps(described.steps, located)
                options = given(described, "description", "max_parallel", "on_error", merge="merge_strategy")
                options["callbacks"] = self._agents.callbacks(described.callbacks)
                self.runners[described.id] = self._try(located, lambda: ParallelAgent(described.id, steps, **options))
            case GraphGrammar():
                tasks = [
                    self._try(at, partial(self._task, task))
                    for task, at in zip(described.tasks, located.at("tasks").items(), strict=True)
                ]
                options = given(described, "description", "max_parallel")
                options["callbacks"] = self._agents.callbacks(described.callbacks)
                self.runners[described.id] = self._try(located, lambda: Workflow(described.id, tasks, **options))
            case SupervisorGrammar():
                self.supervisors[described.id] = self._try(located, lambda: self._supervisor(described))
            case _:
                raise AssertionError(f"no definition: {described!r}")

    def _try(self, located: LocatedValue, make: Callable[[], T]) -> T:
        """Return the result of `make`; its TypeError or ValueError becomes a problem at `located`."""
        try:
            return make()
        except KeyError:
            raise _Stopped from None  # a definition that it needs could not be made, which is reported there
        except (TypeError, ValueError, ArithmeticError) as error:
            self.problems += [located.problem(line) for line in str(error).splitlines()]
            raise _Stopped from None

    def _steps(self, steps: Iterable[Step], located: LocatedValue) -> list[Runner[object]]:
        return [self._step(step, at) for step, at in zip(steps, located.at("steps").items(), strict=True)]

    def _step(self, step: Step, at: LocatedValue) -> Runner[object]:
        if not isinstance(step, RefGrammar):
            return self._try(at, lambda: self.runners[step.id])
        return self._try(at.at("parameters"), lambda: with_parameters(self.runners[step.ref], step.parameters))

    def _task(self, task: TaskGrammar) -> Task:
        options = given(task, "prompt", "retries", "for_each", "max_repeats")
        options["when"] = value_of(task.when, WHEN, self._registered)
        options["until"] = value_of(task.until, UNTIL, self._registered)
        options["retry_on"] = [self._registered.get(ERROR, name) for name in task.retry_on or ()]
        if "backoff" in task.model_fields_set:
            options["backoff"] = tuple(task.backoff)
        runner = with_parameters(self.runners[task.agent or task.ref or ""], task.parameters)
        return Task(task.id, runner, dependencies=task.dependencies or (), **options)

    def _supervisor(self, described: SupervisorGrammar) -> Supervisor:
        options = given(described, "max_restarts", "within")
        if described.backoff is not None:
            options["backoff"] = tuple(described.backoff)
        if described.decider is not None:
            options["decider"] = self._registered.get(DECIDER, described.decider)
        strategy = STRATEGIES[described.strategy](**options)
        children = [self._child(child) for child in described.children]
        return Supervisor(described.id, children, strategy=strategy)

    def _child(self, child: str | ChildGrammar) -> Runner[object] | Child | Supervisor:
        if isinstance(child, ChildGrammar):
            return Child(self.runners[child.ref], restart=child.restart)
        return self.supervisors[child] if child in self.supervisors else self.runners[child]


class _Stopped(Exception):
    """A definition could not be made; the reason is among the problems."""


def _described(grammar: Grammar, located: LocatedValue) -> object:
    """Return the grammar's object of a located value."""
    found: object = grammar
    for step in located.path:
        found = cast("list[object]", found)[step] if isinstance(step, int) else getattr(found, step)
    return found
