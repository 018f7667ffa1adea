"""The turn of one tool call: it makes its one result, whatever the tool does. `Executors` has the actor of each tool and toolset.

The calls of a toolset's object run one at a time: the call that has the seat may use the object, and no other does.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import Context
from functools import partial
from logging import ERROR, WARNING
from math import inf
from typing import Any, TypeAlias, cast

from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import CANCELLED, FAILED, HANDLED, Fate
from understudy.actors.cells.seated_cell import Addresses, SeatedCell
from understudy.actors.run_view.errors import NO_DEPS
from understudy.actors.run_view.progress import Reporter
from understudy.actors.run_view.tracebacks import let_go, where
from understudy.actors.threads.forked import Stage, at_fork
from understudy.actors.threads.promise import Promise
from understudy.actors.tools.coroutines import run_async
from understudy.actors.tools.failed_calls import CallFailed, error_result, fails_agent, timeout_result
from understudy.actors.tools.results import TooLarge, rendered, result_of
from understudy.actors.tools.tool_call import Executed, ToolCallTask, ToolRun
from understudy.diagnostics import emit
from understudy.errors import (
    ActorError,
    AgentCrashed,
    AgentDown,
    BudgetExceeded,
    Retry,
    RunError,
    RunTimedOut,
    had_its_retries,
    in_words,
)
from understudy.orchestration.definitions.sub_agent import SubAgent
from understudy.vocabulary.backoff import backoff_wait
from understudy.vocabulary.context.overlays import CallSession, SessionOverlay, lasting
from understudy.vocabulary.context.run_values import values_of_run
from understudy.vocabulary.context.scope import Scope, enter_scope, leave_scope
from understudy.vocabulary.context.session import ToolContext
from understudy.vocabulary.messages import ToolErrorKind, ToolResult
from understudy.vocabulary.tools.definition import Tool
from understudy.vocabulary.tools.origin import Key, Origin
from understudy.vocabulary.tools.parameters import BadArguments


class Executor(SeatedCell[ToolCallTask]):
    """The actor of one tool, or of the object of a toolset. A call is its message.

    Args:
        address: its name.
        seats: how many calls may run at once; None for any number.
        events: where its dead letters go.
        before: the executor of the toolset's object before this one, which goes on counting here.
    """

    __slots__ = ("_made",)
    accepts = "calls of tools from runs of agents, and no messages by a reference"

    def __init__(self, address: str, seats: int | None, events: EventStream, before: Executor | None = None) -> None:
        super().__init__(address, seats, events)
        self._made: object = None
        if before is not None:
            self.count_on(before)

    def toolset(self, origin: Origin) -> object:
        """Return the object, made at the first call; only for the call that has the seat. What its class raises is raised."""
        if origin.given is not None:  # not kept here: who gave it may let go of it
            return origin.given
        if self._made is None:
            self._made = origin.make()
        return self._made

    def _content(self, message: ToolCallTask) -> object:
        return message.call


class _ToolRef(weakref.ref[Tool[..., object]]):
    """A weak reference that knows the identity of its tool when that is gone."""

    __slots__ = ("identity",)

    identity: int


class Executors:
    """Finds the executor of a tool. Safe to use from any thread.

    Args:
        system: the name of the system.
        events: where dead letters go.
    """

    def __init__(self, system: str, events: EventStream) -> None:
        self._events = events
        self._lock = threading.Lock()
        """Guards changes to the tables, so that each tool has one executor. The first table is read without it."""
        self._of_tools: dict[int, Executor] = {}
        """By the identity of the tool: a weak dictionary would cost each call more than everything else here."""
        self._alive: dict[int, _ToolRef] = {}
        """The tools of that table; one that is gone takes its entry out before anything else has its identity."""
        self._gone = partial(_forget, self._of_tools, self._alive)
        self._given: weakref.WeakKeyDictionary[Key, Executor] = weakref.WeakKeyDictionary()
        self._made: weakref.WeakKeyDictionary[ActorCell, dict[Origin, tuple[int, Executor]]] = (
            weakref.WeakKeyDictionary()
        )
        """Agent's actor -> toolset -> the generation of the actor that it was made for, and the executor."""
        self._addresses: Addresses[ToolCallTask] = Addresses(f"{system}/tools")

    def of(self, tool: Tool[..., object], cell: ActorCell) -> Executor:
        """Return the executor of a tool, made now if it is the first message.

        A toolset has one for all its methods: for an object that was given, one for all agents; for one that is made, one
        for each agent's actor. Once a restart of that actor is decided it is a new one; calls under way go on in the one before.
        """
        found = self._of_tools.get(id(tool))
        if found is not None:
            return found
        with self._lock:
            origin = tool.toolset
            if origin is None:
                return self._of_tool(tool)
            key = origin.key
            return self._of_made(cell, origin) if key is None else self._of_given(key, origin)

    def of_all(self, tools: Iterable[Tool[..., object]], cell: ActorCell) -> list[Executor]:
        """Return the executors of an agent's tools, each once; those of tools that were never called are made now."""
        return list(dict.fromkeys([self.of(tool, cell) for tool in tools]))

    def _of_tool(self, tool: Tool[..., object]) -> Executor:
        identity = id(tool)
        executor = self._of_tools.get(identity)
        if executor is None:
            executor = self._new(tool.name, tool.max_parallel)
            self._alive[identity] = alive = _ToolRef(tool, self._gone)
            alive.identity = identity
            self._of_tools[identity] = executor
        return executor

    def _of_given(self, key: Key, origin: Origin) -> Executor:
        executor = self._given.get(key)
        if executor is None:
            executor = self._given[key] = self._new(origin.cls.__name__, 1)
        return executor

    def _of_made(self, cell: ActorCell, origin: Origin) -> Executor:
        made = self._made.setdefault(cell, {})
        present = cell.generation
        generation, executor = made.get(origin, (0, None))
        if executor is None or generation != present:
            executor = self._new(origin.cls.__name__, 1, executor)
            made[origin] = (present, executor)
        return executor

    def _new(self, name: str, seats: int | None, before: Executor | None = None) -> Executor:
        address = self._addresses.free(name) if before is None else before.address
        executor = Executor(address, seats, self._events, before)
        self._addresses.add(executor)
        return executor

    def stop(self) -> None:
        """Have no executor accept any more calls; those under way go on."""
        with self._lock:
            executors = self._addresses.close()
        for executor in executors:
            executor.stop()


def _forget(of_tools: dict[int, Executor], alive: dict[int, _ToolRef], gone: _ToolRef) -> None:
    """Take out a tool that is gone. It may go at any moment on any thread, so no lock is taken here."""
    of_tools.pop(gone.identity, None)
    alive.pop(gone.identity, None)


def call_tool(order: ToolCallTask, arguments: Mapping[str, object]) -> object:
    """Call the tool's function, with its toolset if it is of one, and return what that returns."""
    origin = order.tool.toolset
    if origin is None:
        return order.tool(**arguments)
    assert isinstance(order.executor, Executor)
    return order.tool(order.executor.toolset(origin), **arguments)


DECISION = 5.0  # Seconds for a decider and for `renew` of a model; the result is told in any case.
_forks = 0  # Of this process and those it comes from: asking the kernel for our id would cost each call a system call.
OTHERS = 5.0  # Seconds during which an attempt is made again if the database refuses its transaction because of others.
OTHERS_PAUSE, LONGEST_OTHERS_PAUSE = 0.005, 0.1  # Seconds before it is tried again; doubled each time.
RETRY_PAUSE = 0.1  # Seconds before a tool that raised is tried again; doubled each time.

AttemptOf: TypeAlias = Callable[[ToolCallTask], Callable[[], Executed]]


class LentTurn:
    """The turn of a call on a lent thread, with the context variables it is given; replies with what came of it."""

    __slots__ = ("_context", "_order", "_reply")

    def __init__(self, order: ToolCallTask, reply: Promise[object], context: Context) -> None:
        self._order = order
        self._reply = reply
        self._context = context

    def refused(self, cause: RuntimeError) -> None:
        """Fail the call: no thread can be started."""
        error = AgentDown(f"{self._address} has no thread to run on: {cause}", actor=self._address)
        self._lost(error, cause, Fate.DEAD)

    def run_turns(self) -> None:
        """Make the call, unless nobody waits for it any more."""
        if self._reply.done:
            self._order.came_back(CANCELLED)  # it never began, and so does not hang
        else:
            self._make()

    def _make(self, attempt_of: AttemptOf | None = None) -> None:
        try:
            self._reply.set(self._context.run(execute, self._order, attempt_of))
        except BaseException as cause:  # no tool's, whose failure is a result
            error = AgentCrashed(f"{self._address} failed: {in_words(cause)}", actor=self._address)
            self._lost(error, cause, FAILED)

    def _lost(self, error: ActorError, cause: BaseException, fate: Fate) -> None:
        error.__cause__ = cause
        self._reply.fail(error)
        self._order.came_back(fate)

    @property
    def _address(self) -> str:
        return f"{self._order.record.run_id}/{self._order.call.id}"


def execute(order: ToolCallTask, attempt_of: AttemptOf | None = None) -> Executed:
    """Run a call on this thread. What the tool raises, `SystemExit` included, becomes an error result.

    Raises nothing, but on the caller's own thread what is not the tool's: Ctrl-C, an exit, a greenlet's end.

    Args:
        order: the call.
        attempt_of: returns what makes an attempt; the tool makes it if it is None.
    """
    call, fate = order.call, FAILED
    order.thread = threading.get_ident()
    token = enter_scope(order.scope)
    try:
        executed = _attempts(order, (attempt_of or _attempt_of)(order))
        if not executed[0].is_error:
            fate = HANDLED
        return executed
    except BadArguments as error:
        return error_result(call, "bad_arguments", str(error)), None
    except TooLarge as error:
        return error_result(call, "too_large", f"{call.name} returned too much: {error}"), None
    except Retry as wish:
        if order.overdue:
            return timeout_result(call, order.tool.timeout), None
        return error_result(call, "retry", wish.reason), None
    except BaseException as error:  # the tool's failure is its result; the run and its thread go on
        if order.tool.isolation == "caller" and not isinstance(error, Exception):
            raise
        return _failed(order, error), None
    finally:
        leave_scope(token)
        order.came_back(fate)


def _failed(order: ToolCallTask, error: BaseException) -> ToolResult:
    """Make the result of a call whose tool raised, and tell people of the error."""
    call, words = order.call, ""
    kind: ToolErrorKind = "raised"
    try:
        if order.overdue or (isinstance(error, RunTimedOut) and order.scope.remaining() == 0.0):
            return timeout_result(call, order.tool.timeout)
        kind = _taken(order, error)
        words = in_words(error)
        if isinstance(error, CallFailed):
            words = words.removeprefix("CallFailed: ")  # the name of the error there follows
        words += _without_deps(order)
    except Exception as failure:  # of a property of the error's own class, mostly; its text may quote arguments
        values = values_of_run(order.record.link) | {"tool": call.name, "call_id": call.id}
        text = "tool %s (run %s): its error was not told: %s"
        emit(ERROR, "tool_error_untold", values, text, call.name, order.record.run_id, type(failure).__name__)
        words = words or in_words(error)
    return error_result(call, kind, f"{call.name} failed: {words}")


def _without_deps(order: ToolCallTask) -> str:
    """Say that the run has no deps, after an error of a tool that takes some: the likely reason."""
    missing = order.tool.signature.wants_deps and order.record.options.deps is None
    return f" ({NO_DEPS})" if missing else ""


def _taken(order: ToolCallTask, error: BaseException) -> ToolErrorKind:
    """Take note of an error: for the log and the call's event, for the agent, and where it ends the run."""
    record, name = order.record, order.call.name
    kind = _kind_of(error, record)
    if kind == "raised":
        order.error = error
        _log(order, error)
    if fails_agent(record.agent, error):
        # The agent's next call must find the toolset of the restart, and not the object that has just failed.
        record.fail_agent(error).wait(DECISION)
    elif kind == "raised" and not record.agent.run_spec.raises(name):
        let_go(error)
    if kind == "raised" and record.agent.run_spec.raises(name):
        record.raised[order.call.id] = error
    elif kind == "not_run" and isinstance(order.tool, SubAgent):  # its run goes on when the limit of this one is raised
        record.raised[order.call.id] = record.account.refusal() or error
    return kind


def _log(order: ToolCallTask, error: BaseException) -> None:
    """Log where a tool raised, unless it only heard of a cancellation."""
    trace = error.trace if isinstance(error, CallFailed) else where(error)
    if trace and not order.scope.cancelled:
        place = " in its process" if isinstance(error, CallFailed) else ""
        run_id, times = order.record.run_id, f", {order.attempts} attempts" if order.attempts > 1 else ""
        values = values_of_run(order.record.link) | {
            "tool": order.call.name,
            "call_id": order.call.id,
            "attempts": order.attempts,
        }
        text = "tool %s failed%s (run %s%s):\n%s"
        emit(WARNING, "tool_failed", values, text, order.call.name, place, run_id, times, trace)


def _kind_of(error: BaseException, record: ToolRun) -> ToolErrorKind:
    # A run inside met a limit that this one stands before too: it stops there itself, where it can be resumed.
    same_limit = isinstance(error, BudgetExceeded) and error.inherited and record.account.refusal() is not None
    return "not_run" if same_limit else "raised"


def _attempt_of(order: ToolCallTask) -> Callable[[], Executed]:
    """Return what makes one attempt, where the tool is to run."""
    tool = order.tool
    if tool.isolation == "process":
        from .worker_pool import run_in_process

        return partial(run_in_process, order)
    arguments = checked_arguments(order)
    if tool.transactional:
        return partial(_transact, order, arguments, order.scope)
    return partial(_attempt, order, arguments, order.scope)


def checked_arguments(order: ToolCallTask) -> dict[str, object]:
    """Return the arguments as the tool takes them: as the run has checked them, unless others took their place."""
    tool, given = order.tool, order.call.arguments
    # Taken out: an attempt that hangs may still hold what is in them, and another one begins with its own.
    checked = order.record.checked.pop(id(given), None)
    if checked is not None:
        return checked[1]
    from understudy.vocabulary.tools.schemas import check_arguments

    return check_arguments(tool.signature, tool.name, given)


def _attempts(order: ToolCallTask, attempt: Callable[[], Executed]) -> Executed:
    tool, scope = order.tool, order.scope
    for made in range(tool.retries + 1):
        order.attempts += 1
        try:
            return attempt()
        except (RunError, BadArguments, Retry, TooLarge):
            raise
        except Exception as error:
            if made == tool.retries or scope.cancelled or _is_final(order, error):
                raise
            pause = backoff_wait(RETRY_PAUSE, inf, made)
            if pause > (inf if (left := scope.remaining()) is None else left):
                raise  # no time for another: the model should read of this failure, not of the time
            if not scope.take_retry(error):
                raise
            order.tell_retry(pause, error)
            scope.sleep(pause)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _is_final(order: ToolCallTask, error: Exception) -> bool:
    if order.transaction is not None and order.transaction.has_failed:
        return True
    return not error.again if isinstance(error, CallFailed) else had_its_retries(error)


def _attempt(order: ToolCallTask, arguments: dict[str, object], scope: Scope) -> Executed:
    tool, call, record = order.tool, order.call, order.record
    overlay: CallSession | None = None
    named = tool.signature.context_parameter
    if named is not None:
        overlay = CallSession(record.session)
        arguments = {**arguments, named: _context(order, overlay, scope)}
    value = _called(order, arguments, scope)
    if overlay is not None and overlay.settle() and record.host.stores:
        _check_session(overlay)
    return result_of(call, tool, rendered(value), record), overlay


def _transact(order: ToolCallTask, arguments: dict[str, object], scope: Scope) -> Executed:
    """Make an attempt whose effect in the store is committed with its result, or undone.

    If the database refuses the transaction because of others, the attempt did not happen, and is made again.
    """
    transaction, until, pause = order.transaction, time.monotonic() + OTHERS, OTHERS_PAUSE
    assert transaction is not None, "a transactional tool's call has one"
    forget = scope.on_cancel_at_once(transaction.give_up)
    try:
        while True:
            transaction.renew()
            try:
                executed = _attempt(order, arguments, scope)
                transaction.commit(executed)
                return executed
            except Exception:
                if not transaction.close() or time.monotonic() + pause >= until:
                    raise
            scope.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_OTHERS_PAUSE)
    finally:
        forget()
        transaction.close()


def _called(order: ToolCallTask, arguments: dict[str, object], scope: Scope) -> object:
    """Call the tool. A child that it forked and lets come back here ends: the run is not the child's to go on with."""
    forks = _forks
    try:
        value = call_tool(order, arguments)
        if type(value) is not str and isinstance(value, Coroutine):  # also of a plain function that wraps an async one
            return run_async(cast("Coroutine[Any, Any, object]", value), scope)
        return value
    finally:
        if _forks != forks:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            os._exit(1)


def _in_child() -> None:
    global _forks
    _forks += 1


at_fork(Stage.TOOLS, _in_child)


def _check_session(overlay: SessionOverlay) -> None:
    """Refuse what could not be stored: it is this call's mistake, and would end the run when that has to wait."""
    from understudy.vocabulary.checks import not_json

    for key, value in lasting(overlay.changes).items():
        strange = not_json(value, f"session[{key!r}]")
        if strange:
            raise TypeError(f"{strange}, which JSON cannot carry, and the system has a store")


def _context(order: ToolCallTask, overlay: SessionOverlay, scope: Scope) -> ToolContext[object]:
    record = order.record
    return ToolContext(
        deps=record.options.deps,
        session=overlay,
        run_id=record.run_id,
        agent_id=record.agent.id,
        tool_name=order.call.name,
        call_id=order.call.id,
        call_key=record.call_key(order.call.id),
        arguments=order.call.arguments,
        scope=scope,
        artifacts=record.artifacts,
        report=Reporter(order.report, scope),
        transaction=None if order.transaction is None else order.transaction.of_attempt(),
        user_id=record.options.user_id,
        conversation_id=record.options.conversation_id,
    )
