"""The run of a sequence, a parallel group or a workflow in flight: its machine, and its children."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Literal

from understudy.actors.run_view.errors import safely
from understudy.actors.run_view.log import ChildBegan, Finished, RunLines, lines_of
from understudy.actors.waiting.children import ChildWaits, EachChild, FirstChild
from understudy.actors.waiting.graph import graph
from understudy.errors import SeveralErrors, UnderstudyError
from understudy.orchestration.agent.pauses import CHILD
from understudy.orchestration.definitions.workflow import Task, Workflow
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.journal.places import place_of_child
from understudy.orchestration.runs.events import Migrated, RunEvent
from understudy.orchestration.runs.group_state import GroupLineState
from understudy.orchestration.saving.machines import Machine, Orchestrator
from understudy.orchestration.saving.resumable import GoesOn
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.overlays import CallSession, SessionOverlay, lasting
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import JsonValue
from understudy.vocabulary.runs.handles import RunPhase
from understudy.vocabulary.runs.outcomes import Outcome, Pause, PauseAnswer

from .child_runs import changes_of, saved_inner, take_child
from .group_children import ChildEnd, ChildOutcomes, Inside, RetryTimes
from .host import RunHost
from .ownership import Stale
from .record import RunRecord
from .resumption import extend_group, retry_group, why_group_takes_none
from .run_callbacks import context_of, tell_callbacks, tell_error_elsewhere
from .stored_session import options_to_go_on

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.orchestration.definitions.port import ResumeOptions, RunOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.orchestration.group.children import ChildOrder
    from understudy.orchestration.group.spec import GroupSpec

TOLD = 3  # Children whose ids the status has: there may be a thousand.


class GroupRunRecord(RunRecord):
    """One run of an orchestrator. It holds no thread while children run: each tells it of its end.

    Args:
        run_id: unique in its system.
        group: whose run it is.
        options: the caller's arguments besides the input; a `SessionState` or `dict` gets the changed keys at the end.
        scope: the run's deadline and cancellation; gets the run's account, which draws from the one it had.
        host: keeps the run.
        cell: the orchestrator's actor.
        machine: decides the steps of the run; it has the input.
    """

    __slots__ = (
        "children",
        "endings",
        "group",
        "machine",
        "members",
        "news",
        "retries",
        "state",
        "stopped",
        "told_error",
        "under_way",
        "waits",
        "workflow",
    )

    def __init__(
        self,
        run_id: str,
        group: Orchestrator,
        options: RunOptions,
        scope: Scope,
        host: RunHost[RunRecord],
        cell: ActorCell,
        machine: Machine,
    ) -> None:
        account = Account(group.id, None, machine.state.spending, scope.account)
        super().__init__(run_id, group, machine.state.input, options, scope, host, cell, account)
        self.group = group
        self.workflow: Workflow | None = None
        self.members: Sequence[Runner[object]] = ()
        """The runners of the children, outside of workflows."""
        if isinstance(group, Workflow):
            self.workflow = group
        else:
            self.members = group.children
        self.machine = machine
        self.state = GroupLineState(machine.spec)
        """Feeds the machine with events."""
        self.state.go_on_with(machine, account)
        self.children: dict[int, Inside] = {}
        """Position -> the run that is under way there, or over and not reported to the machine yet."""
        self.endings: dict[int, Outcome[object] | BaseException] = {}
        """Position -> how the last run there ended or paused."""
        self.news: deque[int] = deque()
        """Positions of children that ended; appended by their threads, taken in a turn."""
        self.retries = RetryTimes()
        """Which retries are due."""
        self.told_error = False
        """Whether the callbacks have been told of the error that ends the run."""
        self.stopped: dict[int, RunRecord] = {}
        """Position -> the run of a child that failed, and can go on."""
        self.under_way: dict[int, RunRecord] = {}
        """Position -> the run of a child that was under way when an error ended this run."""
        self.log.ending_of_child = lambda child: self.outcomes.cut_off(child.position)
        self.waits: ChildWaits = (FirstChild if machine.any_will_do else EachChild)(self.link, scope)

    @property
    def turns(self) -> int:
        return self.account.spending.all_turns

    @property
    def iterations(self) -> int:
        return sum([child.result.iterations for child in self.machine.state.children if child.result is not None])

    @property
    def shares_session(self) -> bool:
        """Whether a child sees what those before it changed."""
        return self.state.shares_session

    def saved_machine(self) -> str:
        self.account.settle()
        return self.machine.to_json()

    def tell(self, event: RunEvent) -> None:
        if self.journal is None:
            self.state.apply(event)
        else:
            self.journal.line.take(event, self.state.apply, self.first_event)

    @property
    def line_state(self) -> GroupLineState:
        return self.state

    @property
    def definition(self) -> GroupSpec:
        return self.machine.spec

    def first_event(self) -> RunEvent:
        return Migrated(self.saved_machine(), "")

    @property
    def pauses(self) -> tuple[Pause, ...]:
        return self.machine.pauses

    def takes_no_answer(self) -> str:
        return why_group_takes_none(self.machine)

    def go_on(self, answers: Mapping[str, PauseAnswer], options: ResumeOptions) -> Sequence[Finished]:
        extend_group(self.run_id, self.group, self.machine, self.account, answers, options)
        return ()

    def respond(self, answers: Mapping[str, PauseAnswer]) -> Sequence[Finished]:
        self.machine.respond(answers)
        return ()

    def is_at_limit(self) -> bool:
        return self.machine.at_limit()

    def way_on(self, error: BaseException) -> GoesOn:
        how = super().way_on(error)
        if how == "never" and self._is_of_kept_child(error):
            return "again"
        # Of children that all ended with errors, those at a limit can be raised while the others are done again.
        return "limit" if how == "again" and isinstance(error, SeveralErrors) and self.is_at_limit() else how

    def _is_of_kept_child(self, error: BaseException) -> bool:
        """Whether the error is of children one of which goes on after it, such as one whose answer could not be stored."""
        errors = error.exceptions if isinstance(error, SeveralErrors) else (error,)
        kept = {at for at, child in enumerate(self.machine.state.children) if child.phase == "failed" and child.is_kept}
        return any(self.endings.get(at) is each for at in kept.union(self.stopped) for each in errors)

    @property
    def needs_answer(self) -> bool:
        return self.machine.waits

    @property
    def may_go_on(self) -> bool:
        # A thread that ends the run asks this, maybe while another thread moves `stopped` into the machine, child by child.
        return bool(self.stopped) or self.machine.may_go_on

    def prepare_to_go_on(self) -> None:
        for position, child in list(self.stopped.items()):
            self.machine.child_kept(position, saved_inner(child))
            self.stopped.pop(position, None)
        under_way = {at: inside.record for at, inside in self.children.items() if inside.launched} | self.under_way
        for position, child in under_way.items():
            if self.machine.expects(position) and take_child(self.machine, position, child, self.endings):
                self.artifacts.take(f"{CHILD}/{position}/", child.artifacts.snapshot())
                if self.shares_session:
                    self.log.note_conflicts([changes_of(self.session, child).commit()])
            self.under_way.pop(position, None)

    def retry_failed(self) -> None:
        retry_group(self.group, self.machine)

    @property
    def runner_named(self) -> str:
        return repr(self.group.id)

    def tell_progress(self, error: UnderstudyError, *, from_inside: bool) -> None:
        # A copy keeps the children of the group inside that the error came from; the error gets those of this group.
        inner = copy(error) if from_inside and error.children else error
        error.children = [inner if child is error else child for child in self.outcomes.so_far()]
        if not from_inside:  # a group says nothing itself
            error.messages = ()
            error.session = lasting(self.session)

    def lines(self) -> RunLines | None:
        return lines_of(self.link, self.group.callbacks)

    def tell_ending(self, epoch: int, ending: Outcome[object] | Exception) -> None:
        """Tell the callbacks how the run is about to end, on the thread of the work that holds `epoch`."""
        if self.group.callbacks:
            self.begin_step(epoch, "telling callbacks of the end")
            self.told_error = isinstance(ending, Exception)
            moment: Literal["on_error", "on_finish"] = "on_error" if self.told_error else "on_finish"
            tell_callbacks(self.group.callbacks, moment, self._context_of_its_own, self.run_id, ending)

    def tell_error(self, error: BaseException) -> None:
        if self.group.callbacks and not self.told_error:
            self.told_error = True
            tell_error_elsewhere(self, self.group.callbacks, self._context_of_its_own, error)

    def _context_of_its_own(self) -> RunContext:
        """Return the context of a callback, whose changes of the session are dropped."""
        return context_of(self, CallSession(self.session))

    def continued(self, scope: Scope, deps: object, session: Mapping[str, JsonValue] | None = None) -> GroupRunRecord:
        options = options_to_go_on(self, deps, session)
        record = type(self)(self.run_id, self.group, options, scope, self.host, self.cell, self.machine)
        record.follow(self)
        record.endings = self.endings
        return record

    # --- children

    @property
    def outcomes(self) -> ChildOutcomes:
        """How the children ended."""
        return ChildOutcomes(self.group, self.machine, self.endings, self.children)

    def runner_at(self, position: int) -> Runner[object]:
        """Return the runner of the child at a position."""
        task = self.task_at(position)
        return self.members[position] if task is None else task.runner

    def task_at(self, position: int) -> Task | None:
        """Return the task of a child; None outside of workflows."""
        if self.workflow is None:
            return None
        assert isinstance(self.machine, GraphRun)
        return self.workflow.tasks[self.machine.task_at(position)]

    @abstractmethod
    def child_ended(self, position: int) -> None:
        """Hear that a child is over; on the thread that ended it."""

    # --- for the stay of `epoch`; each raises `Stale` to any other

    def look(self, epoch: int) -> None:
        """Note that the run has something to do."""
        with self.lock:
            self._check(epoch)
            self.waits.look()

    def due_again(self, epoch: int) -> list[ChildOrder]:
        """Return the retries whose time has come."""
        if not self.retries.due:
            return []
        with self.lock:
            self._check(epoch)
            return [self.machine.order_of(at) for at in sorted(self.retries.due) if self.machine.expects(at)]

    def join(self, epoch: int, position: int, child: RunRecord) -> Inside:
        """Note a child that is about to begin."""
        task = self.task_at(position)
        fact = ChildBegan(position, child.runner.id, child.run_id, "" if task is None else task.name, child.log)
        inside = Inside(child, fact, self)
        self.waits.join(child.link)
        with self.lock:
            held = self.is_held_at(epoch)
            if held:
                self.children[position] = inside
                self.retries.forget(position)
                self._say()
        if not held:
            self.waits.leave(child.link)
            raise Stale
        return inside

    def forget_unlaunched(self, epoch: int) -> None:
        """Forget children that an earlier stay failed to launch; they are due still."""
        with self.lock:
            self._check(epoch)
            lost = [position for position, inside in self.children.items() if not inside.launched]
            forgotten = [self.children.pop(position) for position in lost]
        for inside in forgotten:
            self.waits.leave(inside.record.link)
            self.log.end_child(inside.fact, self.outcomes.cut_off(inside.fact.position))

    def end_children(self, epoch: int) -> None:
        """Note the ends of the children that are under way: the run is about to end without them."""
        with self.lock:
            self._check(epoch)
        self.log.end_children()

    def launched(self, epoch: int, inside: Inside) -> None:
        """Note that a child began."""
        with self.lock:
            inside.launched = True
            held = self.is_held_at(epoch)
        if not held:  # the run ended meanwhile, and its end did not cancel this child
            self.host.endings.cancel(inside.record, self._why_cancelled)
            raise Stale

    def feed(self, epoch: int, end: ChildEnd) -> None:
        """Tell the machine how a child ended, and keep the child's changes of the session."""
        position = end.position
        if end.ending is not None:
            self.endings[position] = end.ending  # first: a thread that ends the run now reads it
        with self.lock:
            self._check(epoch)
            if self.machine.expects(position):  # else the others have decided meanwhile
                self.state.raised = end.error
                for event in end.events:
                    self.tell(event)
                self._take_artifacts(position)
                if end.changes is not None and self.shares_session:
                    self.log.note_conflicts([end.changes.commit()])
            if self.journal is not None:
                self.journal.closed(place_of_child(position))
            inside = self.children.pop(position, None)
            self.retries.forget(position)
            self._say()
        if inside is not None:
            self.waits.leave(inside.record.link)

    def _take_artifacts(self, position: int) -> None:
        """Keep the long tool results of a child that is done; a child that pauses or goes on keeps them itself."""
        inside, child = self.children.get(position), self.machine.state.children[position]
        if inside is not None and child.phase == "done":
            artifacts = inside.record.artifacts.snapshot()
            if artifacts:
                self.artifacts.take(f"{CHILD}/{position}/", artifacts)

    def lay_changes(self, epoch: int) -> None:
        """Lay the changes of children that had copies of the session over it, and note the keys in conflict."""
        if self.shares_session:
            return
        with self.lock:
            self._check(epoch)
            changes, removed, conflicts = self.machine.changes
            overlay = SessionOverlay(self.session)
            overlay.changes, overlay.removed = changes, removed
            overlay.commit()
            self.log.note_conflicts([conflicts])

    def _say(self) -> None:
        ids = [inside.record.runner.id for inside in islice(self.children.values(), TOLD)]
        more = len(self.children) - len(ids)
        self.doing = f"running {', '.join(ids)}{f' and {more} more' if more else ''}" if ids else "between children"

    # --- for anyone

    def end(
        self,
        ending: Outcome[object] | BaseException,
        phase: RunPhase,
        *,
        epoch: int | None = None,
        overdue: float | None = None,
        commit: Callable[[], object] | None = None,
        keep: Callable[[], object] | None = None,
    ) -> bool:
        ended = super().end(ending, phase, epoch=epoch, overdue=overdue, commit=commit, keep=keep)
        if ended:
            safely(self, self._dismiss, ending)
            safely(self, graph.end_all, self.link)
        return ended

    def _dismiss(self, ending: Outcome[object] | BaseException) -> None:
        """Cancel the children that still run, without waiting for them."""
        with self.lock:
            children, self.children = self.children, {}
            begun = [inside.record for inside in children.values() if inside.launched]
            if isinstance(ending, BaseException):
                self.under_way = {at: inside.record for at, inside in children.items() if inside.launched}
        self.retries.call_off(self)
        for inside in children.values():
            safely(self, self.waits.leave, inside.record.link)
        for record in begun:
            safely(self, self.host.endings.cancel, record, self._why_cancelled)

    @property
    def _why_cancelled(self) -> str:
        return f"run {self.run_id} of {self.group.id!r}, which it was a part of, is over"
