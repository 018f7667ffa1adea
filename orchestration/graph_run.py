"""`GraphRun`: the tasks of a workflow, each begun the moment that what it depends on is done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from understudy.errors import ProtocolViolation
from understudy.messages import JsonValue, Part, join_text
from understudy.outcomes import Complete, Incomplete, TaskResult, TaskStatus

from .binding import Reference, as_text, bound, from_text, holds, reference, value_at
from .children import Child, ChildFailure, ChildOrder, ChildResult
from .graph_spec import INPUT, ITEM, PREVIOUS, GraphSpec, TaskSpec, check_parameters
from .group_run import GroupRun, GroupState

DECIDED = ("done", "failed", "skipped")


@dataclass(slots=True)
class TaskState:
    """Where one task stands."""

    status: TaskStatus = "pending"
    children: list[int] = field(default_factory=list[int])
    """Positions of its runs: one, or one for each item."""
    items: list[JsonValue] | None = None
    prompts: list[str] = field(default_factory=list[str])
    text: str = ""
    reason: str = ""
    repeats: int = 0
    begun: int = 0


@dataclass(slots=True, kw_only=True)
class GraphState(GroupState):
    """What the run of a workflow remembers."""

    parameters: dict[str, JsonValue]
    tasks: list[TaskState]


class GraphRun(GroupRun[GraphSpec, GraphState]):
    """The run of a workflow.

    A task that fails is run again after a while, as often as it may; then what depends on it is skipped, the rest goes on,
    and the run ends `Incomplete`: `retry_failed` begins the failed tasks and what was skipped for them anew.

    Args:
        spec: what the run decides by.
        input: what `${input}` stands for.
        parameters: what the other names in the prompts stand for.

    Raises:
        ValueError: a parameter is missing, unknown, or named like a task.
    """

    __slots__ = ("_dependents", "_fresh", "_left", "_missing", "_numbers", "_open", "_owners")

    _numbers: dict[str, int]
    """Name -> which of the tasks it is."""
    _dependents: list[list[int]]
    """Which tasks depend on each."""
    _owners: dict[int, int]
    """Position of a child -> which of the tasks it is a run of."""
    _open: set[int]
    """Tasks that run or are paused."""
    _left: dict[int, int]
    """Task that runs or is paused -> how many of its children are not done."""
    _missing: list[int]
    """How many that each task depends on are not decided."""
    _fresh: set[int]
    """Tasks that are pending and miss nothing."""

    def __init__(
        self, spec: GraphSpec, input: str | Sequence[Part], parameters: Mapping[str, JsonValue] | None = None
    ) -> None:
        check_parameters(spec, parameters or {})
        super().__init__(spec, input)
        self._state.parameters.update(parameters or {})

    def _make_index(self) -> None:
        specs, tasks = self._spec.tasks, self._state.tasks
        self._numbers = {spec.name: number for number, spec in enumerate(specs)}
        self._dependents = [[] for _ in specs]
        for number, spec in enumerate(specs):
            for name in spec.dependencies:
                self._dependents[self._numbers[name]].append(number)
        self._owners = {position: number for number, task in enumerate(tasks) for position in task.children}
        self._open = {number for number, task in enumerate(tasks) if task.status in ("running", "paused")}
        self._missing = [sum([self._task(n).status not in DECIDED for n in spec.dependencies]) for spec in specs]
        self._fresh = {n for n, task in enumerate(tasks) if task.status == "pending" and not self._missing[n]}
        self._left = {number: self._count_left(tasks[number]) for number in self._open}
        super()._make_index()

    def _count_left(self, task: TaskState) -> int:
        return sum([self._state.children[position].phase != "done" for position in task.children])

    def _task(self, name: str) -> TaskState:
        return self._state.tasks[self._numbers[name]]

    def _note(self, number: int) -> None:
        """Bring the index up to the status that a task has now."""
        if self._state.tasks[number].status in ("running", "paused"):
            self._open.add(number)
            return
        self._open.discard(number)
        if self._state.tasks[number].status in DECIDED:
            for dependent in self._dependents[number]:
                self._missing[dependent] -= 1
                if not self._missing[dependent]:
                    self._fresh.add(dependent)

    def _begun(self, input: str | tuple[Part, ...]) -> GraphState:
        return GraphState(input=input, children=[], parameters={}, tasks=[TaskState() for _ in self._spec.tasks])

    @classmethod
    def _state_type(cls) -> type[GraphState]:
        return GraphState

    # --- which tasks begin

    def _able(self) -> Iterable[int]:
        tasks, children = self._state.tasks, self._state.children
        return [p for number in self._open for p in tasks[number].children if children[p].phase == "pending"]

    def _due(self) -> list[int]:
        self._begin_ready()
        return super()._due()

    def _admit(self) -> list[int]:
        self._begin_ready()
        new = super()._admit()
        for position in new:
            _, task = self._task_of(position)
            task.begun += 1
        return new

    def _may_run(self, position: int) -> bool:
        return self.task_at(position) in self._open

    def _begin_ready(self) -> None:
        """Begin, skip or fail every task whose dependencies are decided; again, for that decides others."""
        while self._fresh:
            fresh, self._fresh = sorted(self._fresh), set()
            for number in fresh:
                spec, task = self._spec.tasks[number], self._state.tasks[number]
                self._begin_task(spec, task, {name: self._task(name) for name in spec.dependencies})
                self._enter(number, task)

    def _enter(self, number: int, task: TaskState) -> None:
        """Note a task that begins, if it does."""
        self._owners.update(dict.fromkeys(task.children, number))
        if task.status == "running":
            self._left[number] = len(task.children)
            for position in task.children:
                self._line.join(position)
        self._note(number)

    def _begin_task(self, spec: TaskSpec, task: TaskState, before: Mapping[str, TaskState]) -> None:
        undone = [f"{name!r}, which {_was(each)}" for name, each in before.items() if each.status != "done"]
        if undone:
            task.status, task.reason = "skipped", f"it depends on {', '.join(undone)}"
            return
        try:
            if spec.when is not None and not holds(spec.when, self._value_of):
                task.status, task.reason = "skipped", f"its condition does not hold: {spec.when}"
                return
            task.items = None if spec.for_each is None else self._items(spec.for_each)
            task.prompts = (
                [self._prompt(spec, task, item) for item in (task.items or [None])] if task.items != [] else []
            )
        except ValueError as error:
            task.status, task.reason = "failed", str(error)
            return
        task.status = "running"
        first = len(self._state.children)
        task.children = list(range(first, first + len(task.prompts)))
        self._state.children += [Child() for _ in task.prompts]
        if not task.children:
            self._end(task)

    def _items(self, for_each: str) -> list[JsonValue]:
        where = reference(for_each)
        value = self._value_of(where)
        inside = from_text(value) if isinstance(value, str) else value
        if isinstance(inside, (str, Mapping)) or not isinstance(inside, Sequence):
            raise ValueError(  # noqa: TRY004 (what a model said is of the wrong form, not an argument)
                f"for_each: {where} must be a list, or text that is a JSON array; got {as_text(value)[:60]!r}"
            )
        return list(inside)

    def _prompt(self, spec: TaskSpec, task: TaskState, item: JsonValue) -> str:
        def text_of(where: Reference) -> str:
            if where.name == ITEM:
                return as_text(value_at(item, where.keys, where))
            if where.name == PREVIOUS:
                return as_text(value_at(task.text, where.keys, where))
            return as_text(self._value_of(where))

        return bound(spec.prompt, text_of)

    def _value_of(self, where: Reference) -> JsonValue:
        if where.name == INPUT:
            given = self._state.input
            value: JsonValue = given if isinstance(given, str) else join_text(given)
        elif where.name in self._state.parameters:
            value = self._state.parameters[where.name]
        else:
            value = self._task(where.name).text
        return value_at(value, where.keys, where)

    def _input_of(self, position: int) -> str:
        _, task = self._task_of(position)
        return task.prompts[position - task.children[0]]  # they stand side by side

    def _task_of(self, position: int) -> tuple[TaskSpec, TaskState]:
        number = self.task_at(position)
        return self._spec.tasks[number], self._state.tasks[number]

    def task_at(self, position: int) -> int:
        """Return which of the tasks a child belongs to, from 0."""
        number = self._owners.get(position)
        if number is None:
            raise ProtocolViolation(f"there is no child {position}")
        return number

    def order_of(self, position: int) -> ChildOrder:
        spec, task = self._task_of(position)
        child = self._state.children[position]
        order = super().order_of(position)
        first, most = spec.backoff
        delay = min(most, first * 2 ** (child.attempts - 1)) if child.attempts else 0.0
        asks = spec.asks_when and not child.attempts and not task.repeats and child.paused is None
        return ChildOrder(position, order.input, order.paused, delay, asks)

    # --- what came of it

    def child_done(self, position: int, result: ChildResult, *, again: bool = False) -> None:
        """Take the result of a child that is complete.

        Args:
            position: which child.
            result: what it came to.
            again: whether the task's own function wants another repetition.

        Raises:
            ProtocolViolation: this child was not to be run.
        """
        super().child_done(position, result)
        spec, task = self._task_of(position)
        task.text = result.text
        if task.items is None and task.repeats < spec.max_repeats and (again or self._wants_more(spec, task)):
            self._repeat(spec, task, position)
            return
        number = self.task_at(position)
        self._left[number] -= 1
        if not self._left[number]:
            self._end(task)
            self._note(number)

    def _wants_more(self, spec: TaskSpec, task: TaskState) -> bool:
        if spec.until is None:
            return False

        def value_of(where: Reference) -> JsonValue:
            return value_at(task.text, where.keys, where) if where.name == spec.name else self._value_of(where)

        try:
            return not holds(spec.until, value_of)
        except ValueError:  # what it looks for is not there yet
            return True

    def _repeat(self, spec: TaskSpec, task: TaskState, position: int) -> None:
        task.repeats += 1
        task.prompts = [self._prompt(spec, task, None)]
        self._again(position, Child())

    def _again(self, position: int, child: Child) -> None:
        """Have a child run anew that ended just now."""
        self._state.children[position] = child
        self._state.order.pop()
        self._line.join(position)

    def _end(self, task: TaskState) -> None:
        results = [self._state.children[position].result for position in task.children]
        texts = [result.text for result in results if result is not None]
        task.status = "done"
        task.text = texts[0] if task.items is None else json.dumps(texts, ensure_ascii=False)

    def child_failed(
        self, position: int, failure: ChildFailure, error: Exception | None = None, *, may_retry: bool = True
    ) -> None:
        """Take note that a child failed; it is due again if its task has retries left and `may_retry`.

        Raises:
            ProtocolViolation: this child was not to be run.
        """
        super().child_failed(position, failure)
        spec, _ = self._task_of(position)
        child = self._state.children[position]
        if may_retry and child.attempts < spec.retries:
            self._failed.pop()
            self._again(position, Child(attempts=child.attempts + 1))
        else:
            self._close(position, "failed", f"{failure.kind}: {failure.message}")

    def _close(self, position: int, status: TaskStatus, reason: str) -> None:
        """End the task of a child without a result; what of it runs still does not count any more."""
        number = self.task_at(position)
        task = self._state.tasks[number]
        task.status, task.reason = status, reason
        for each in task.children:
            self._line.leave(each)
        self._note(number)

    def wants_retry(self, position: int) -> bool:
        """Whether a child that fails now would be run again, if it may."""
        spec, _ = self._task_of(position)
        return self._state.children[position].attempts < spec.retries

    def child_skipped(self, position: int) -> None:
        """Take note that the task's own function says that it is not to run.

        Raises:
            ProtocolViolation: this child was not to be run.
        """
        self._running(position, "a skip")
        self._close(position, "skipped", "its condition does not hold")

    def child_at_limit(self, position: int, saved: str, failure: ChildFailure, error: Exception | None = None) -> None:
        super().child_at_limit(position, saved, failure, error)
        self._close(position, "failed", f"{failure.kind}: {failure.message}")

    def go_on(self, raised: Mapping[int, str]) -> None:
        self._check_limited(raised)
        self.retry_failed(raised)

    def retry_failed(self, raised: Mapping[int, str] | None = None) -> None:
        """Begin anew the tasks that failed, and those that were skipped because of them.

        Args:
            raised: runs by position that stood at a limit, with the limit raised; their tasks go on instead.
        """
        due = [number for number, task in enumerate(self._state.tasks) if task.status == "failed"]
        for number in due:  # it grows meanwhile
            task = self._state.tasks[number]
            if raised and not raised.keys().isdisjoint(task.children):
                self._reopen(task, raised)
            else:
                self._forget(task)
            due += [n for n in self._dependents[number] if self._state.tasks[n].status == "skipped"]
        self._make_index()

    def _reopen(self, task: TaskState, raised: Mapping[int, str]) -> None:
        """Have a task go on of whose runs some stood at a limit; others that failed begin anew."""
        task.status, task.reason = "running", ""
        for position in task.children:
            child = self._state.children[position]
            child.begun = False
            if position in raised:
                self._release(position, raised[position])
            elif child.phase in ("failed", "limit"):
                self._state.children[position] = Child()
                if position in self._state.order:
                    self._state.order.remove(position)

    def _forget(self, task: TaskState) -> None:
        for position in task.children:
            self._state.children[position].result = None  # it does not count any more
            self._state.children[position].failure = None
            self._state.children[position].paused = None
            self._state.children[position].phase = "failed"
        task.status, task.children, task.items, task.prompts = "pending", [], None, []
        task.text, task.reason, task.repeats = "", "", 0

    # --- how it ends

    def _failure(self) -> Exception | None:
        return None

    def _outcome(self) -> Complete[str] | Incomplete | None:
        self._begin_ready()
        if self._open or any(task.status in ("pending", "running", "paused") for task in self._state.tasks):
            return None
        if self.at_limit():
            return self._incomplete()
        last = self._last_done()
        count = sum(task.status == "done" for task in self._state.tasks)
        reason = f"{count} of {len(self._state.tasks)} tasks completed; the others were skipped"
        if count == len(self._state.tasks):
            reason = f"all {count} tasks completed"
        return self._complete(ChildResult(text=last.text), reason, None, self.tasks)

    def at_limit(self) -> bool:
        """Whether all tasks are over and some failed, so that the run only goes on with `retry_failed`."""
        decided = [task.status for task in self._state.tasks]
        return "failed" in decided and not {"pending", "running", "paused"} & set(decided)

    def _incomplete(self) -> Incomplete:
        reasons = [f"task {r.name!r} {r.status}: {r.reason}" for r in self.tasks.values() if r.status == "failed"]
        reasons += [f"task {r.name!r} was skipped" for r in self.tasks.values() if r.status == "skipped"]
        results = self._all_results()
        return Incomplete(
            agent_id=self._spec.runner_id,
            completion_reason="; ".join(reasons),
            iterations=sum(each.iterations for each in results),
            turns=sum(each.turns for each in results),
            usage=self.usage,
            last_text=self._last_done().text,
            tasks=self.tasks,
        )

    def _last_done(self) -> TaskState:
        """Return the last task that is done, of those on which nothing depends if there is one."""
        needed = {name for spec in self._spec.tasks for name in spec.dependencies}
        both = list(zip(self._spec.tasks, self._state.tasks, strict=True))
        done = [task for _, task in both if task.status == "done"]
        sinks = [task for spec, task in both if task.status == "done" and spec.name not in needed]
        return (sinks or done or [TaskState()])[-1]

    @property
    def tasks(self) -> dict[str, TaskResult]:
        """Where each task stands, by name."""
        return {
            spec.name: TaskResult(
                name=spec.name, status=self._status(task), text=task.text, reason=task.reason, attempts=task.begun
            )
            for spec, task in zip(self._spec.tasks, self._state.tasks, strict=True)
        }

    def _status(self, task: TaskState) -> TaskStatus:
        if task.status != "running":
            return task.status
        phases = {self._state.children[position].phase for position in task.children}
        return "paused" if "paused" in phases and "pending" not in phases else "running"

    def _kept(self) -> Iterable[ChildResult]:
        # In the order in which they ended, for a task may build on what the one before it left.
        return [r for position in self._state.order if (r := self._state.children[position].result) is not None]


def _was(task: TaskState) -> str:
    return "failed" if task.status == "failed" else "was skipped"
