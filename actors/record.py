"""A run in flight: its machine, lock and epoch, and what it works with.

Whoever drives the run holds an epoch. Raising the epoch takes the run away from whoever held the last one: what such a
driver still brings is refused with `Stale`, and its thread goes back to the pool whenever it returns.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypeVar

from understudy.ancestry import Ancestry, Link, enter_ancestry
from understudy.artifacts import Artifacts
from understudy.handles import RunPhase, RunStatus
from understudy.messages import JsonObject, ModelTurn, Part, ToolResult, join_text
from understudy.orchestration.accounts import account_of
from understudy.orchestration.run import AgentRun
from understudy.outcomes import Outcome
from understudy.scope import Scope, enter_scope
from understudy.session import RunContext, SessionOverlay, SessionState

from .memory import recall
from .orders import Executed, Paused
from .reply import Reply
from .story import Story

if TYPE_CHECKING:
    from understudy.orchestration import Agent
    from understudy.orchestration.port import RunOptions
    from understudy.orchestration.steps import Step

    from .actorcell import ActorCell
    from .conversations import Lease
    from .driver import Driver
    from .errands import Errands
    from .orders import RunTool
    from .runs import Runs
    from .verdicts import AboutTurn

T = TypeVar("T")

_NO_CONTEXT = contextvars.Context()


def _nothing() -> None:
    """What a run without a parent has to undo."""


class Stale(BaseException):
    """The run was taken away from this driver; it unwinds. Not an error: nobody outside the driver sees it."""


class Record:
    """One run. The lock guards machine, epoch, phase, step and session; no user code and no model runs under it.

    Args:
        run_id: unique in its system.
        agent: whose run it is.
        input: what the user said.
        options: what the caller said besides; a `SessionState` gets the changed keys at the end.
        scope: the run's deadline and cancellation; gets the run's account, which draws from the one it had.
        runs: who keeps the run; told once of its end, on the thread that ends it, before the reply completes.
        cell: the agent's actor.
        machine: the machine of a run that goes on; a new run's is made by its first driver.
    """

    __slots__ = (
        "account",
        "agent",
        "ancestry",
        "answered",
        "artifacts",
        "attempts",
        "cell",
        "checked",
        "crashes",
        "detach",
        "doing",
        "driver",
        "epoch",
        "errands",
        "input",
        "is_inner",
        "lease",
        "link",
        "lock",
        "machine",
        "options",
        "phase",
        "raised",
        "reply",
        "revision",
        "root",
        "run_id",
        "runs",
        "scope",
        "session",
        "started_in",
        "step_check",
        "step_deadline",
        "step_order",
        "step_since",
        "story",
        "told_error",
        "unfed",
    )

    def __init__(
        self,
        run_id: str,
        agent: Agent[object],
        input: str | Sequence[Part],
        options: RunOptions,
        scope: Scope,
        runs: Runs,
        cell: ActorCell,
        machine: AgentRun | None = None,
    ) -> None:
        self.run_id = run_id
        self.agent = agent
        self.input = input
        self.options = options
        self.scope = scope
        self.account = scope.account = account_of(agent, options.budget, machine, scope.account)
        self.runs = runs
        self.cell = cell
        self.link = Link(agent, run_id)
        self.ancestry: Ancestry = (self.link,)
        """Who waits for what this run does: the run itself, after those who wait for the run."""
        self.root = runs.root_of(self.link)
        """Id of the outermost run it was begun in, or its own."""
        self.lease: Lease | None = None
        """Its claim to the conversation that its agent's memory knows."""
        self.machine = machine
        self.lock = threading.Lock()
        self.epoch = 0
        self.phase: RunPhase = "running"
        self.doing = "starting"
        self.step_deadline = inf
        """When the step in hand must be over, for the watchdog; infinite when the driver sees to it itself."""
        self.step_since = time.monotonic()
        """When the step in hand began, on the monotonic clock."""
        self.step_order: RunTool | None = None
        """The tool call that the driver runs on its own thread."""
        self.step_check: Hashable = None
        """The question of `answered` that the driver looks into, if the time of that is limited."""
        self.driver: Driver | None = None
        """Who drives the run now."""
        self.started_in: contextvars.Context = _NO_CONTEXT
        """The context variables of whoever began the run, and the run's own; each driver gets a copy."""
        self.errands: Errands | None = None
        """What the thread that waits for the run is to do for it; None if nobody waits, or no tool needs it."""
        self.is_inner = False
        """Whether the run is a call of another one, which alone goes on with it when it pauses."""
        self.detach: Callable[[], None] = _nothing
        """Ends the tie to the cancellation of the run that this one was begun in."""
        self.crashes: tuple[BaseException, ...] = ()
        """What its drivers failed of, one after another."""
        self.unfed: ModelTurn | None = None
        """A turn that was paid for and not fed yet; the next driver does not ask for it again."""
        self.answered: dict[Hashable, object] = {}
        """Question -> what code of the user's said to it, until that was fed; the next driver does not ask again."""
        self.checked: dict[int, tuple[JsonObject, dict[str, object]]] = {}
        """Identity of a call's arguments -> those of the last turn, as the model gave them and as the tool takes them."""
        self.told_error = False
        """Whether callbacks were told the error with which the run ends."""
        self.attempts: dict[str, int] = {}
        """Call id -> how many attempts timed out."""
        self.revision = 0
        """Which pause it went on from, if a store has it; 0 for none."""
        self.raised: dict[str, BaseException] = {}
        """Call id -> what the tool raised, of tools whose errors end the run."""
        given = options.session
        self.session = SessionOverlay(given.snapshot() if isinstance(given, SessionState) else dict(given or {}))
        self.artifacts = Artifacts()
        """What tools returned that was too long for the model."""
        self.reply: Reply[Outcome[object]] = Reply()
        self.story = Story(run_id)

    @property
    def context(self) -> RunContext:
        """What code of the user's that decides about the run gets to see of it; made for those who ask."""
        return self.context_with(self.session)

    def context_with(self, session: SessionOverlay) -> RunContext:
        """Return the context with a view of its own of the session."""
        state = None if self.machine is None else self.machine.state
        return RunContext(
            run_id=self.run_id,
            agent_id=self.agent.id,
            input=self.input if isinstance(self.input, str) else join_text(self.input),
            session=session,
            deps=self.options.deps,
            scope=self.scope,
            user_id=self.options.user_id,
            conversation_id=self.options.conversation_id,
            turns=0 if state is None else state.turns,
            iterations=0 if state is None else state.iterations,
            continues=0 if state is None else state.continues,
        )

    def enter(self, hops: int) -> None:
        """Make the code of the current context part of this run, which has `hops`."""
        enter_ancestry(self.ancestry, hops)
        enter_scope(self.scope)

    # --- for the driver that holds `epoch`; each raises `Stale` to any other

    def open(self, epoch: int) -> None:
        """Make the machine, if this is the run's first driver; user code may run here, so it runs outside the lock."""
        if self.machine is None:
            prompt, history = self.agent.system_prompt, recall(self, epoch)
            system = prompt if isinstance(prompt, str) else prompt(self.context)
            if not isinstance(system, str):
                raise TypeError(f"the function given as system_prompt must return a string, got {system!r}")
            made = AgentRun(self.agent.run_spec, self.input, history=history, system=system, account=self.account)
            with self.lock:
                self._check(epoch)
                self.machine = made

    def next_step(self, epoch: int) -> Step:
        with self.lock:
            self._check(epoch)
            assert self.machine is not None
            return self.machine.next_step()

    def begin_step(
        self,
        epoch: int,
        doing: str,
        deadline: float = inf,
        order: RunTool | None = None,
        check: Hashable = None,
    ) -> None:
        """Say what the driver is about to do, and until when."""
        with self.lock:
            self._check(epoch)
            self.doing = doing
            self.step_since = time.monotonic()
            self.step_order = order
            self.step_check = check
            self.step_deadline = deadline

    def note_answer(
        self, epoch: int, question: Hashable, answer: object, session: SessionOverlay | None = None
    ) -> None:
        """Keep what code of the user's said to a question until it is fed, and commit what it wrote to the session."""
        with self.lock:
            self._check(epoch)
            if session is not None:
                session.commit()
            self.answered[question] = answer

    def feed(self, epoch: int, do: Callable[[AgentRun], T]) -> T:
        """Have `do` feed the machine what the answers to the questions so far come to; they are forgotten then."""
        with self.lock:
            self._check(epoch)
            self.step_deadline = inf
            assert self.machine is not None
            fed = do(self.machine)
            self.answered.clear()
            return fed

    def keep(self, turn: ModelTurn) -> ModelTurn:
        """Keep a turn that was paid for until it is fed; if the run is over it is only counted."""
        with self.lock:
            if self.phase == "running":
                self.unfed = turn
                return turn
        assert self.machine is not None
        self.machine.write_off(turn)
        return turn

    def cut_off(self, scope: Scope) -> None:
        """Count a model call that failed, if it had to end before its answer came; `scope` is the call's."""
        if self.machine is not None and (scope.cancelled or scope.remaining() == 0.0):
            self.machine.write_off(None)

    def take_turn(self, epoch: int, turn: ModelTurn, about: AboutTurn) -> None:
        """Feed the model's turn, and note the calls that have their result already."""
        with self.lock:
            self._check(epoch)
            self.step_deadline = inf
            machine = self.machine
            assert machine is not None
            machine.model_response(turn, **about)
            self.unfed = None
            self.answered.clear()
            self.story.note((machine.state.turns, turn))
            round_ = machine.state.round
            if round_ is not None and round_.results:
                for call in round_.calls:
                    if call.id in round_.results:
                        self.story.note(call)
                        self.story.note((call, round_.results[call.id]))

    def take_results(self, epoch: int, results: Sequence[Executed]) -> None:
        """Commit what the calls changed in the session, in call order, and feed their results and pauses."""
        with self.lock:
            self._check(epoch)
            self.step_deadline = inf
            self.step_order = None
            assert self.machine is not None
            for _, overlay in results:
                if overlay is not None:
                    overlay.commit()
            for came, _ in results:  # first: a result may be the last there is to come, or end the run
                if isinstance(came, Paused):
                    self.machine.child_paused(came.call_id, came.saved, came.pauses)
            given = [came for came, _ in results if isinstance(came, ToolResult)]
            if given:
                self.machine.tool_results(given)

    def _check(self, epoch: int) -> None:
        if not self.is_held_at(epoch):  # a driver may be started in the moment the run ends
            raise Stale

    # --- for anyone

    def is_held_at(self, epoch: int) -> bool:
        """Whether the run goes on and nobody has taken it over since `epoch`; call it under the lock."""
        return epoch == self.epoch and self.phase == "running"

    def take_over(self, epoch: int) -> int | None:
        """Take the run away from the driver that holds `epoch`; call it under the lock.

        Returns:
            The new epoch, or None if someone else was faster.
        """
        if not self.is_held_at(epoch):
            return None
        self.epoch += 1
        self.driver = None
        self.step_deadline = inf
        self.step_order = None
        self.step_check = None
        return self.epoch

    def give_to(self, driver: Driver, epoch: int) -> bool:
        """Note who drives the run from now on; False if it has ended, or was taken over since `epoch`."""
        with self.lock:
            if not self.is_held_at(epoch):
                return False
            self.driver = driver
            self.account.start(time.monotonic)
            return True

    def end(
        self,
        ending: Outcome[object] | BaseException,
        phase: RunPhase,
        *,
        epoch: int | None = None,
        overdue: float | None = None,
        commit: Callable[[], object] | None = None,
    ) -> bool:
        """End the run, or its stay here, and complete the reply; whatever drives it becomes stale.

        A driver that did not end the run itself is counted as given up until it comes back.

        Args:
            ending: the outcome, or the error.
            phase: what the run is from now on.
            epoch: end it only if this is still the driver's epoch.
            overdue: end it only if the step in hand was due by then.
            commit: called if it is ended, under the lock and before anybody can hear of it.

        Returns:
            Whether this call ended it.
        """
        with self.lock:
            stale = epoch is not None and epoch != self.epoch
            in_time = overdue is not None and self.step_deadline > overdue
            if self.phase != "running" or stale or in_time:
                return False
            if commit is not None:
                commit()
            self.epoch += 1
            self.phase = phase
            doing, self.doing = self.doing, ""
            self.step_deadline = inf
            self.link.over = True  # first of all, for whoever hears of the end is no longer inside of the run
            # It refers to us: a run that is over should go at once, not at a garbage collection.
            driver, self.driver = self.driver, None
            order, self.step_order = self.step_order, None
            unfed, self.unfed = self.unfed, None
        self.account.stop()
        if unfed is not None and self.machine is not None:
            self.machine.write_off(unfed)
        if epoch is None and driver is not None and not driver.returned:
            self.runs.hung.abandon(driver, self, doing, self.step_since)
            if order is not None:
                order.abandon()
        if isinstance(self.options.session, SessionState):
            self.options.session.apply(*self.session.lasting_changes())
        # First: whoever reads the token in the last event may go on with the run, under the same id.
        self.runs.ended(self)
        self.story.end(ending)
        if isinstance(ending, BaseException):
            self.reply.fail(ending)
        else:
            self.reply.set(ending)
        return True

    def lost(self, error: BaseException) -> None:
        """End the run because the message that was to start it could not be handled."""
        self.runs.fail(self, error, self.epoch)

    def continued(self, scope: Scope, deps: object) -> Record:
        """Return the record with which this run, paused here, goes on."""
        given = self.options.session
        session = given if isinstance(given, SessionState) else dict(self.session)
        options = replace(self.options, session=session, deps=deps)
        record = Record(self.run_id, self.agent, self.input, options, scope, self.runs, self.cell, self.machine)
        record.revision = self.revision
        record.artifacts = self.artifacts
        record.lease = None if self.lease is None else self.lease.renewed()
        record.session.take_temporary(self.session)
        return record

    def status(self) -> RunStatus:
        """Return where the run stands, without waiting for anything but the lock."""
        machine = self.machine
        return RunStatus(
            run_id=self.run_id,
            agent_id=self.agent.id,
            phase=self.phase,
            turns=0 if machine is None else machine.state.turns,
            iterations=0 if machine is None else machine.state.iterations,
            doing=self.doing,
        )
