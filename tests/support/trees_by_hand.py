"""Trees of runners driven by hand, without threads: a random runner acts next, and may be saved and loaded."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from random import Random
from typing import TypeAlias

from understudy.errors import UnfinishedRun, had_its_retries
from understudy.orchestration import Agent, AgentRun, AwaitApproval, AwaitInput, CallModel, CallTools, Done
from understudy.orchestration.agent.state import PausedChild
from understudy.orchestration.definitions.groups import Group
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.group.children import AwaitChildren, ChildFailure, ChildOrder, ChildResult, RunChildren
from understudy.orchestration.group.group_run import GroupDone
from understudy.orchestration.group.parallel_run import ParallelRun
from understudy.orchestration.saving.machines import Machine, Orchestrator, begun, loaded, runner_at
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.messages import JsonValue, Part, ToolCall, ToolResult, Usage
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Pause
from understudy.vocabulary.tools.definition import Tool

from .tree_runners import Actor, noted

End: TypeAlias = "Complete[str] | Incomplete | Exception | None"
Move: TypeAlias = Callable[[], None]


@dataclass
class Hand:
    """What all runs of one tree have in common.

    Attributes:
        chance: draws whose turn it is.
        saving: whether every run is saved and loaded after every step, and what is paused is kept as text.
        live: whether a group is told of the exceptions of its children themselves, and not only in words.
        usage: of all model calls so far.
        told: what every machine said, step by step.
        turns: how many model calls were answered.
        models: how many there were.
        tools: how often tools were called.
    """

    chance: Random
    saving: bool
    live: bool
    usage: Usage
    told: list[object]
    turns: int = 0
    models: int = 0
    tools: int = 0

    def __post_init__(self) -> None:
        self._parked: dict[str, Run] = {}
        self._names = count()

    def put_away(self, run: Run) -> str:
        """Return a token for a paused run: the run as text, or a name for the object itself."""
        if self.saving:
            changes, removed = run.session.lasting_changes()
            return json.dumps([run.machine.to_json(), changes, sorted(removed)])
        name = f"run {next(self._names)}"
        self._parked[name] = run
        return name

    def take_out(self, outer: Run, runner: Runner[object], paused: PausedChild) -> Run:
        """Return a run that goes on, and has its answers."""
        if self.saving:
            text, changes, removed = json.loads(paused.saved)
            run = _read(self, runner, text, outer.session)
            run.session.changes.update(changes)
            run.session.removed = frozenset(removed)
        else:
            run = self._parked.pop(paused.saved)
            run.is_paused, run.end = False, None
        if paused.answers:
            run.machine.respond(paused.answers)
        return run

    def retry(self, group: Orchestrator, machine: Machine) -> None:
        """Have a group go on that is incomplete: what failed begins anew, also inside of children that are incomplete.

        No limit is raised, so a workflow begins the task of an agent that stopped short anew.
        """
        raised = {at: self._retried(each, saved) for at, (each, saved) in _going_on(group, machine).items()}
        if raised:
            machine.go_on(raised)
        else:
            machine.retry_failed()

    def can_retry(self, group: Orchestrator, machine: Machine) -> bool:
        """Whether anything goes on if no limit is raised: an agent that stopped short would stop there again."""
        inside = _going_on(group, machine)
        return not inside or any(self._can_retry_inside(*each) for each in inside.values())

    def _can_retry_inside(self, runner: Runner[object], saved: str) -> bool:
        if isinstance(runner, Agent):
            return False
        assert isinstance(runner, Group | Workflow)
        if self.saving:
            return self.can_retry(runner, loaded(runner, json.loads(saved)[0]))
        run = self._parked[saved]
        assert isinstance(run, GroupHand)
        return self.can_retry(runner, run.machine)

    def _retried(self, runner: Runner[object], saved: str) -> str:
        if isinstance(runner, Agent):  # its limit stands, so it is incomplete again
            return saved
        assert isinstance(runner, Group | Workflow)
        if self.saving:
            text, changes, removed = json.loads(saved)
            machine = loaded(runner, text)
            self.retry(runner, machine)
            return json.dumps([machine.to_json(), changes, removed])
        run = self._parked[saved]
        assert isinstance(run, GroupHand)
        self.retry(runner, run.machine)
        return saved


def _going_on(group: Orchestrator, machine: Machine) -> dict[int, tuple[Runner[object], str]]:
    """Return the children at a limit that go on inside; a workflow begins the task of an agent anew instead."""
    limited = {at: (runner_at(group, machine, at), saved) for at, saved in machine.limited.items()}
    anew = isinstance(machine, GraphRun)
    return {at: each for at, each in limited.items() if not (anew and isinstance(each[0], Agent))}


class Run(ABC):
    """One run of the tree, with the runs inside of it that are under way."""

    def __init__(self, hand: Hand, below: Mapping[str, JsonValue]) -> None:
        self.hand = hand
        self.session = SessionOverlay(below)
        self.children: dict[int | str, Run] = {}
        self.end: End = None
        self.is_paused = False

    @property
    def is_over(self) -> bool:
        return self.is_paused or self.end is not None

    def runs(self) -> Iterator[Run]:
        """Yield this run and all inside of it that are under way."""
        yield self
        for child in self.children.values():
            yield from child.runs()

    def moves(self) -> Iterator[Move]:
        """Yield the possible next actions, here and below."""
        if not self.is_over:
            for key, child in self.children.items():
                if child.is_over:
                    yield partial(self._report, key, child)
                else:
                    yield from child.moves()
            yield from self.own_moves()

    def _report(self, key: int | str, child: Run) -> None:
        del self.children[key]
        if child.is_paused:
            self.take_pause(key, self.hand.put_away(child), child.machine.pauses)
        else:
            self.take_end(key, child)

    def advance(self) -> None:
        """Go as far as the machine goes by itself, here and below."""
        while not self.is_over:
            for child in list(self.children.values()):
                child.advance()
            if not self.step():
                return

    def commit(self, child: Run) -> None:
        overlay = SessionOverlay(self.session)
        overlay.changes, overlay.removed = dict(child.session.changes), child.session.removed
        overlay.commit()

    # --- what agents and groups do in their own ways

    @property
    @abstractmethod
    def runner(self) -> Runner[object]:
        """Whose run it is."""

    @property
    @abstractmethod
    def machine(self) -> AgentRun | Machine:
        """What decides."""

    @abstractmethod
    def own_moves(self) -> Iterator[Move]:
        """Yield the possible next actions in this run, beside reports of children."""

    @abstractmethod
    def step(self) -> bool:
        """Carry out the machine's step; return whether it must be asked again."""

    @abstractmethod
    def take_pause(self, key: int | str, saved: str, pauses: tuple[Pause, ...]) -> None:
        """Tell the machine that a child waits."""

    @abstractmethod
    def take_end(self, key: int | str, child: Run) -> None:
        """Report a child's outcome to the machine."""

    @abstractmethod
    def reload(self) -> None:
        """Save the machine, and continue with the loaded copy."""


class AgentHand(Run):
    def __init__(self, hand: Hand, agent: Agent[object], machine: AgentRun, below: Mapping[str, JsonValue]) -> None:
        super().__init__(hand, below)
        self._agent = agent
        self._machine = machine

    @property
    def runner(self) -> Agent[object]:
        return self._agent

    @property
    def machine(self) -> AgentRun:
        return self._machine

    def own_moves(self) -> Iterator[Move]:
        step = self.machine.next_step()
        if isinstance(step, CallModel):
            yield self._call_model
        elif isinstance(step, CallTools):
            for call in step.calls:
                if call.id not in self.children:
                    yield partial(self._run_tool, call)

    def step(self) -> bool:
        self.hand.told.append((self.runner.id, said := self.machine.next_step()))
        match said:
            case CallModel():
                pass
            case CallTools(calls=calls):
                for call in calls:
                    runner = self._below(call)
                    if runner is not None and call.id not in self.children:
                        self.children[call.id] = self._child(call, runner)
                        self.children[call.id].advance()
            case AwaitApproval() | AwaitInput():
                self.is_paused = True
            case Done(outcome=outcome):
                self.end = outcome
        return False

    def _below(self, call: ToolCall) -> Runner[object] | None:
        return next((each.runner for each in self.runner.sub_agents if each.name == call.name), None)

    def _child(self, call: ToolCall, runner: Runner[object]) -> Run:
        paused = self.machine.child(call.id)
        if paused is not None:
            return self.hand.take_out(self, runner, paused)
        return begin(self.hand, runner, str(call.arguments["input"]), self.session)

    def _call_model(self) -> None:
        step = self.machine.next_step()
        assert isinstance(step, CallModel)
        model = self.runner.current_model
        assert isinstance(model, Actor)
        self.hand.models += 1
        try:
            turn = model.complete(step.request)
        except Exception as error:  # noqa: BLE001 (it is what the run fails of)
            self.end = error
            return
        self.hand.usage += turn.usage
        self.hand.turns += 1
        self.machine.model_response(turn)

    def _run_tool(self, call: ToolCall) -> None:
        tool: Tool[..., object] = self.runner.tools_by_name[call.name]
        self.hand.tools += 1
        content = noted(self.runner.id, self.session) if call.name == "note" else str(tool())
        self.machine.tool_results([ToolResult(call.id, content, name=call.name)])

    def take_pause(self, key: int | str, saved: str, pauses: tuple[Pause, ...]) -> None:
        self.machine.child_paused(str(key), saved, pauses)

    def take_end(self, key: int | str, child: Run) -> None:
        name = next(call.name for message in self.machine.messages for call in message.tool_calls if call.id == key)
        match child.end:
            case Complete(text=text):
                result = ToolResult(str(key), text, name=name)
                self.commit(child)
            case _:
                result = ToolResult(str(key), "it failed", name=name, is_error=True)
        self.machine.tool_results([result])

    def reload(self) -> None:
        self._machine = AgentRun.from_json(self.machine.to_json(), self.machine.spec)


class GroupHand(Run):
    def __init__(self, hand: Hand, group: Orchestrator, machine: Machine, below: Mapping[str, JsonValue]) -> None:
        super().__init__(hand, below)
        self._group = group
        self._machine = machine
        self.said: dict[int, str] = {}
        """Position -> the last text of a child that is incomplete."""

    @property
    def runner(self) -> Orchestrator:
        return self._group

    @property
    def machine(self) -> Machine:
        return self._machine

    def own_moves(self) -> Iterator[Move]:
        return iter(())

    def step(self) -> bool:
        try:
            said = self.machine.next_step()
        except Exception as error:  # noqa: BLE001 (it is what the run fails of)
            self.end = error
            self.hand.told.append((self.runner.id, repr(error)))
            return False
        match said:
            case RunChildren(children=orders):
                self.hand.told.append((self.runner.id, [_told(order) for order in orders]))
                skipped = [self._begin(order) for order in orders if order.position not in self.children]
                return any(skipped)
            case AwaitChildren(pauses=pauses):
                assert pauses and not self.children, "it waits for nobody, or while something runs"
                self.hand.told.append((self.runner.id, [(pause.id, pause.path) for pause in pauses]))
                self.is_paused = True
            case GroupDone(outcome=outcome):
                if isinstance(outcome, Incomplete) and not outcome.last_text:
                    outcome = replace(outcome, last_text=next((self.said[at] for at in sorted(self.said)), ""))
                self.end = outcome
                if isinstance(self.machine, ParallelRun):
                    overlay = SessionOverlay(self.session)
                    overlay.changes, overlay.removed, _ = self.machine.changes
                    overlay.commit()
                self.hand.told.append((self.runner.id, outcome))
        return False

    def _begin(self, order: ChildOrder) -> bool:
        """Start a child; return whether it was skipped or refused at once, which the machine was told."""
        machine, runner = self.machine, runner_at(self.runner, self.machine, order.position)
        if order.asks_when:
            assert isinstance(machine, GraphRun) and isinstance(self.runner, Workflow)
            when = self.runner.tasks[machine.task_at(order.position)].when
            assert callable(when)
            if not when(machine.tasks):
                machine.child_skipped(order.position)
                return True
        if order.paused is not None:
            child = self.hand.take_out(self, runner, order.paused)
        else:
            child = begin(self.hand, runner, order.input, self.session)
        self.children[order.position] = child
        child.advance()
        return False

    def take_pause(self, key: int | str, saved: str, pauses: tuple[Pause, ...]) -> None:
        assert isinstance(key, int)
        if self.machine.expects(key):
            self.machine.child_paused(key, saved, pauses)

    def take_end(self, key: int | str, child: Run) -> None:
        assert isinstance(key, int)
        if not self.machine.expects(key):
            return
        if not isinstance(child.end, Complete):
            self._failed(key, child)
            return
        result = ChildResult.of(child.end, *child.session.lasting_changes())
        if isinstance(self.machine, GraphRun):
            assert isinstance(self.runner, Workflow)
            until = self.runner.tasks[self.machine.task_at(key)].until
            self.machine.child_done(key, result, again=callable(until) and not until(child.end.text))
        else:
            self.machine.child_done(key, result)
        if not isinstance(self.machine, ParallelRun):
            self.commit(child)

    def _failed(self, position: int, child: Run) -> None:
        self.said.pop(position, None)
        error = child.end
        if isinstance(error, Incomplete):
            said = f"stopped, as {error.completion_reason}; it said last: {error.last_text}"
            who = "agent " if isinstance(child.runner, Agent) else ""
            error = UnfinishedRun(f"{who}{child.runner.id!r} {said}")
        assert isinstance(error, Exception)
        live = error if self.hand.live else None
        if isinstance(child.end, Incomplete):
            self.said[position] = child.end.last_text
            self.machine.child_at_limit(position, self.hand.put_away(child), ChildFailure.of(error), live)
        elif isinstance(self.machine, GraphRun):
            assert isinstance(self.runner, Workflow)
            task = self.runner.tasks[self.machine.task_at(position)]
            again = task.may_retry(error) and not had_its_retries(error)
            self.machine.child_failed(position, ChildFailure.of(error), may_retry=again)
        else:
            self.machine.child_failed(position, ChildFailure.of(error), live)

    def reload(self) -> None:
        self._machine = loaded(self.runner, self.machine.to_json())


def _told(order: ChildOrder) -> object:
    answers = None if order.paused is None else (order.paused.pauses, order.paused.answers)
    return order.position, order.input, order.delay, order.asks_when, answers


def begin(hand: Hand, runner: Runner[object], input: str | tuple[Part, ...], session: Mapping[str, JsonValue]) -> Run:
    """Return a run that begins."""
    if isinstance(runner, Agent):
        return AgentHand(hand, runner, AgentRun(runner.run_spec, input), session)
    assert isinstance(runner, (Group, Workflow))
    return GroupHand(hand, runner, begun(runner, input), session)


def _read(hand: Hand, runner: Runner[object], text: str, session: Mapping[str, JsonValue]) -> Run:
    if isinstance(runner, Agent):
        return AgentHand(hand, runner, AgentRun.from_json(text, runner.run_spec), session)
    assert isinstance(runner, (Group, Workflow))
    return GroupHand(hand, runner, loaded(runner, text), session)
