"""One tool call as it is carried out: the message of an executor, with its time and its scope."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

from understudy.actors.cells.mailbox import Fate
from understudy.actors.cells.seated_cell import SeatedCell
from understudy.actors.run_view.log import Finished, Retried
from understudy.actors.run_view.progress import Report
from understudy.actors.run_view.tracebacks import let_go
from understudy.actors.run_view.view import AgentRunView, HostView
from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.promise import Promise
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.actors.waiting.awaited import CallLink, CallScope
from understudy.orchestration.supervision.call_time import GRACE, CallAction, action_due, repeats_of
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import JsonObject, ToolCall, ToolResult
from understudy.vocabulary.runs.outcomes import Pause
from understudy.vocabulary.tools.definition import Tool

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.vocabulary.context.account import Account
    from understudy.vocabulary.context.ancestry import Ancestry
    from understudy.vocabulary.context.artifacts import Artifacts
    from understudy.vocabulary.context.transactions import SqlTransaction


@dataclass(frozen=True, slots=True)
class Paused:
    """In place of a result: the run that a call began waits for a person."""

    call_id: str
    saved: str
    """The run as text, to go on with."""
    pauses: tuple[Pause, ...]
    is_error: ClassVar[bool] = False


NO_THREAD = -1
"""In place of the id of a thread."""
Executed: TypeAlias = tuple[ToolResult | Paused, SessionOverlay | None]
"""The result, and what the call changed in the session; None when the call failed, or is not over."""


class CallTransaction(Protocol):
    """The transaction of a call of a tool with `transactional=True`, over all attempts; safe to use from any thread.

    A call is committed or given up, once.
    """

    @property
    def has_failed(self) -> bool:
        """Whether the store failed at a commit: nobody knows what became of it, and no attempt may follow."""
        ...

    def renew(self) -> None:
        """Begin an attempt, which has a transaction of its own."""
        ...

    def of_attempt(self) -> Callable[[], AbstractContextManager[SqlTransaction]]:
        """Return `ToolContext.transaction` for the context of the attempt under way; it raises as that does."""
        ...

    def commit(self, executed: Executed) -> None:
        """Commit the statements of the attempt together with its result; do nothing if there were none.

        Raises:
            StoreError: the transaction is undone, or the database failed.
            LeaseLost: another process has the run.
        """
        ...

    def close(self) -> bool:
        """End the attempt: undo its transaction unless it is committed, and wait for that.

        Returns:
            Whether the database refused the transaction because of others: the attempt may be made again.
        """
        ...

    def give_up(self) -> bool:
        """Undo the transaction and refuse later commits, unless one has begun; does not wait.

        Returns:
            False if a commit has begun: the call has a result, or has one soon.
        """
        ...

    def settled(self) -> Executed | None:
        """Give the call up, or wait for its commit; return the result that was committed, or None."""
        ...


class CallerThread(Protocol):
    """The thread that waits for a run, and makes the calls of tools with `isolation="caller"`."""

    def put(self, order: ToolCallTask, reply: Promise[object]) -> None:
        """Have the thread make a call; does not wait."""
        ...


class ToolRun(AgentRunView, Protocol):
    """A run of an agent that calls tools."""

    @property
    def cell(self) -> ActorCell:
        """The agent's actor; a toolset is made anew when it restarts."""
        ...

    @property
    def host(self) -> HostView:
        """What keeps the run."""
        ...

    @property
    def ancestry(self) -> Ancestry:
        """Who waits for what the run does, the run itself at the end."""
        ...

    @property
    def account(self) -> Account:
        """What the run draws from."""
        ...

    @property
    def session(self) -> SessionOverlay:
        """What tools read and write."""
        ...

    @property
    def artifacts(self) -> Artifacts:
        """Results that were too long for the model."""
        ...

    @property
    def caller_calls(self) -> CallerThread | None:
        """The thread that waits for the run; None if nobody waits, or no tool needs it."""
        ...

    @property
    def checked(self) -> dict[int, tuple[JsonObject, dict[str, object]]]:
        """Identity of a call's arguments -> these, as the model gave them and as the tool takes them."""
        ...

    @property
    def raised(self) -> dict[str, BaseException]:
        """Call id -> what the tool raised, of tools whose errors end the run."""
        ...

    def call_key(self, call_id: str) -> str:
        """Return what names a call of this run for ever, also in another process."""
        ...

    def transaction_of(self, order: ToolCallTask) -> CallTransaction:
        """Return the transaction of a call, which has not begun."""
        ...

    def fail_agent(self, cause: BaseException) -> Promise[None]:
        """Have the agent's actor fail; the promise is done when it is decided whether that is restarted."""
        ...


class ToolCallTask:
    """One call, the message of an executor. Its turn is taken by a work of the run, on a lent thread, or by the caller's thread.

    Attributes:
        attempts: how often the tool was called, also by those that this one follows.
        begun: when, on the monotonic clock.
        deadline: when its time is over; a call that stands in line for a seat has none yet.
        error: what the tool raised, if the result says so.
        executor: the actor of its tool.
        gives_up_at: until when it is waited for since its time is over; None before that.
        link: the call in the graph of who waits for whom, if its tool has a limit.
        returned: whether the tool came back, which one that hangs may never do.
        since: when the first attempt began.
        superseded: whether the call is tried again meanwhile.
        thread: who runs it; 0 before that, `NO_THREAD` while it is a run that nobody waits for.
        transaction: that of the call, if its tool is transactional.
    """

    __slots__ = (
        "__weakref__",
        "attempts",
        "begun",
        "call",
        "deadline",
        "error",
        "executor",
        "gives_up_at",
        "link",
        "record",
        "returned",
        "scope",
        "since",
        "superseded",
        "thread",
        "tool",
        "transaction",
    )

    def __init__(
        self,
        record: ToolRun,
        tool: Tool[..., object],
        call: ToolCall,
        deadline: float | None,
        executor: SeatedCell[ToolCallTask],
    ) -> None:
        self.record = record
        self.tool = tool
        self.call = call
        self.executor = executor
        self.link = None if executor.seats is None else CallLink(record.link)
        self.gives_up_at: float | None = None
        self.returned = False
        self.superseded = False
        self.thread = 0
        self.attempts = 0
        self.error: BaseException | None = None
        self.transaction = record.transaction_of(self) if tool.transactional else None
        self.set_out(deadline)

    def set_out(self, deadline: float | None) -> None:
        """Begin the time of the call, which may have stood in line before."""
        self.begun = self.since = time.monotonic()
        self.deadline = deadline
        outer, link = self.record.scope, self.link
        self.scope = (
            Scope(deadline, time.monotonic, outer) if link is None else CallScope(deadline, time.monotonic, outer, link)
        )
        self.scope.call = self.call

    def follow(self, since: float, attempts: int) -> None:
        """Count as another attempt at a call that began at `since`, on the monotonic clock."""
        self.since = since
        self.attempts = attempts

    def finished(self, result: ToolResult) -> Finished:
        """Return what is told of the call, which is done."""
        return Finished(self.call, result, self.error, time.monotonic() - self.since, self.attempts)

    @property
    def doing(self) -> str:
        """What is being done, in words."""
        return f"running tool {self.call.name}"

    def report(self, text: str, done: float | None, total: float | None) -> None:
        """Tell those who watch the run how far the call is."""
        self.record.log.note(Report(self.call, text, done, total))

    def tell_retry(self, wait: float, error: BaseException) -> None:
        """Tell those who watch the run that another attempt follows after so many seconds."""
        let_go(error)
        self.record.log.note(Retried(what="tool", attempt=self.attempts, wait=wait, error=error, call=self.call))

    def cancel(self) -> None:
        """Tell the tool that it should stop: its scope is cancelled, and an async tool's task with it."""
        cancel_hooks.cancel(self.scope, self.record.host.hung.give_up)

    def tell_overdue(self) -> None:
        """Tell those who watch the system that the time of the call is over, and where it is."""
        self.record.host.hung.tell_overdue(self.record, self.doing, self.begun, self.stack)

    def action_due(self, now: float, timed_out: int) -> CallAction:
        """Return what the time of the call asks for; what it fails of after a warning is that.

        For another attempt one of the run's retries is taken; if there is none, the call is warned.

        Args:
            now: this moment, on the monotonic clock.
            timed_out: how many attempts before this one took too long.
        """
        action = action_due(now, self.deadline, self.gives_up_at, timed_out, repeats_of(self.tool))
        if action == "retry" and not self.scope.take_retry():
            action = "warn"
        if action == "warn":
            self.gives_up_at = now + GRACE
        return action

    @property
    def overdue(self) -> bool:
        """Whether its time is over, and nobody makes it again."""
        return self.gives_up_at is not None

    def give_up_effect(self) -> bool:
        """Undo the transaction of the call; return False if its commit has begun."""
        return self.transaction is None or self.transaction.give_up()

    def settled(self) -> Executed | None:
        """Return the result that was committed with the transaction of the call, or None; later commits are refused."""
        return None if self.transaction is None else self.transaction.settled()

    def warn(self) -> None:
        """Tell the tool that its time is over, before it is given up."""
        run_elsewhere(self.cancel)  # it may end runs inside, whose callbacks may block, and the time of grace goes on

    def abandon(self) -> None:
        """Tell the tool that nobody waits for it any more. It keeps its seat for as long as it runs."""
        self.leave()
        run_elsewhere(self.cancel)

    def leave(self) -> None:
        """Wait for the tool no more; it is told with its run."""
        self.executor.give_up(self)

    def came_back(self, fate: Fate) -> None:
        """Note that the turn of the call is over, or never begins, and how it ended."""
        self.returned = True
        self.executor.leave(self, fate)

    def stack(self) -> str:
        """Return where the tool is at this moment, as a traceback's lines; empty if it runs nowhere."""
        frame = None if self.returned else sys._current_frames().get(self.thread)  # pyright: ignore[reportPrivateUsage] (documented all the same)
        return "" if frame is None else "".join(traceback.format_stack(frame))


def deadline_of(tool: Tool[..., object]) -> float | None:
    """Return until when a call that begins now may take; None for no limit."""
    return None if tool.timeout is None else time.monotonic() + tool.timeout
