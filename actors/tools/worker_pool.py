"""Worker processes, seen from the process that starts them: they make the calls of tools with `isolation="process"`.

A worker is a fresh interpreter, never a fork of this one, whose threads and locks a fork would take along. It is kept for
the next call of the same module, and killed with all it started when its call is given up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.actors.threads.forked import Stage, at_fork
from understudy.errors import Retry
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.context.permits import Permit
from understudy.vocabulary.messages import JsonObject, JsonValue
from understudy.vocabulary.tools.parameters import BadArguments

from .failed_calls import CallFailed
from .results import Rendered, TooLarge, result_of
from .tool_call import Executed
from .worker_channel import PROGRESS, Channel, Garbled, NotSendable, encode

if TYPE_CHECKING:
    from .tool_call import ToolCallTask

IDLE_SECONDS = 30.0  # Starting one costs a fifth of a second and more, by what the tool's module imports.
MAX_PARKED = 8  # Each may hold a hundred megabytes for nothing.

ERROR = {"error": str, "words": str, "again": bool, "trace": str}
RESULT = {"content": str, "parts": list, "changes": dict, "removed": list}
"""What the answer to a call holds, by whether it failed."""

Key: TypeAlias = "tuple[str, int | None]"
"""What calls must have in common to use one worker: the tool's module, and the memory limit."""


class NotBegun(Exception):
    """The worker was gone before it began the call, which another one may take."""


class Worker:
    """One process and the line to it. One call at a time; `abort` and `end` from any thread."""

    def __init__(self, key: Key) -> None:
        if not hasattr(os, "killpg"):
            raise CallFailed("no worker process can be started: this system has no process groups")
        if not sys.executable:
            raise CallFailed("no worker process can be started: sys.executable does not name the interpreter")
        self.key = key
        self.alarm: Alarm | None = None
        """Rings when the worker was parked for too long."""
        self._lock = threading.Lock()
        """Guards who uses the worker, and that it is killed once: a process id may be another's after the end."""
        self._user: object = None
        self._killed = False
        self._has_worked = False
        with _making:
            ours, theirs = socket.socketpair()
            self._channel = Channel(ours)
            life, self._lifeline = os.pipe()
            """Nothing is ever written there: its end tells the worker of ours, however we ended."""
            self._theirs = [theirs.detach(), life]
            _alive.add(self)
        try:
            self._process = _start(self._theirs)
        except BaseException:
            self._close()
            raise
        finally:
            _close_all(self._theirs)
        with contextlib.suppress(OSError):  # it died already, and the first call will say of what
            self._channel.send(_hello(key))

    def lend_to(self, user: object) -> None:
        """Say whose the worker is now; from None it is nobody's."""
        with self._lock:
            self._user = user

    def ask(self, request: bytes, call_id: str, hear: Callable[[object], object]) -> dict[str, Any] | None:
        """Send a call and wait for the reply; None when the process has ended, or was killed.

        Args:
            request: the call.
            call_id: what its answer must bear.
            hear: called with each report of how far it is.

        Raises:
            NotBegun: the process had ended while it waited for a call.
            Garbled: what came is no answer to this call; the worker must not be used again.
        """
        waited, self._has_worked = self._has_worked, True
        try:
            self._channel.send(request)
            said = self._channel.receive()
        except OSError:
            said = None
        begun = said is not None
        if begun and said != {"begun": call_id}:
            raise Garbled("what came is no answer to this call")
        if waited and not begun:
            raise NotBegun
        reply = self._channel.receive() if begun else None
        while reply is not None and PROGRESS in reply:
            hear(reply[PROGRESS])
            reply = self._channel.receive()
        if reply is not None and not _is_reply(reply, call_id):
            raise Garbled("what came is no answer to this call")
        return cast("dict[str, Any] | None", reply)

    def abort(self, user: object) -> None:
        """Kill the worker and what it started, if it is still `user`'s. Does not wait."""
        with self._lock:
            if self._user is user:
                self._kill()

    def end(self) -> int:
        """Kill the worker and what it started, if they live, and wait for the process, so that no zombie stays.

        Returns:
            The exit status; below 0 the signal that ended it.
        """
        with self._lock:
            self._kill()
        status = self._process.wait()
        self._close()
        return status

    def _close(self) -> None:
        with self._lock:
            if self in _alive:
                _alive.discard(self)
                self._channel.close()
                os.close(self._lifeline)

    def _kill(self) -> None:
        if not self._killed:
            self._killed = True
            # Its id is still its own, dead or not: only `end` waits for the process. A dead one may have left children.
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a zombie
                os.killpg(self._process.pid, signal.SIGKILL)
        self._channel.hang_up()  # a process that left the group may hold the line

    @property
    def ready(self) -> bool:
        """Whether it can take a call. Asks the line, not the process: to ask that would give its id back to the system."""
        return not self._killed and self._channel.quiet

    def leave_to_parent(self) -> None:
        """Let go of the lines in a forked child: they tell the worker that the parent lives."""
        self._channel.close()
        _close_all([self._lifeline, *self._theirs])
        with contextlib.suppress(AttributeError):  # the fork came before it was started
            self._process.returncode = 0  # it is no child of this one


def _is_reply(reply: JsonObject, call_id: str) -> bool:
    """Whether a message answers a call: a tool may write on the line too, and its process is not to be trusted then."""
    kinds = ERROR if "error" in reply else RESULT
    return reply.get("id") == call_id and all(isinstance(reply.get(name), kind) for name, kind in kinds.items())


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def _start(descriptors: list[int]) -> subprocess.Popen[bytes]:
    # The module is found as here; -P, because what happens to be in the current folder is not to be imported instead.
    found_in = os.pathsep.join([entry or os.getcwd() for entry in sys.path if isinstance(entry, str)])
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "understudy.actors.tools.worker_main", *map(str, descriptors)],
        stdin=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": found_in},
    )


def _hello(key: Key) -> bytes:
    path: list[JsonValue] = [entry for entry in sys.path if isinstance(entry, str)]
    return encode({"path": path, "pythonpath": os.environ.get("PYTHONPATH"), "memory_limit": key[1]})


class WorkerPool:
    """Workers with nothing to do, last in, first out. Grows on demand; each goes after `IDLE_SECONDS`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards the list."""
        self._parked: list[Worker] = []

    def take(self, key: Key) -> Worker:
        """Return a parked worker, or start one.

        Raises:
            CallFailed: none can be started.
        """
        while (worker := self._pop(key)) is not None:
            if worker.alarm is not None:
                worker.alarm.call_off()
            if worker.ready:
                return worker
            worker.end()  # it was killed from outside while it waited
        try:
            return Worker(key)
        except OSError as error:
            raise CallFailed(f"no worker process can be started: {error}") from error

    def _pop(self, key: Key) -> Worker | None:
        with self._lock:
            for worker in reversed(self._parked):
                if worker.key == key:
                    self._parked.remove(worker)
                    return worker
        return None

    def park(self, worker: Worker) -> None:
        """Keep a worker for the next call, in place of the one that has waited longest if there are too many."""
        with self._lock:
            self._parked.append(worker)
            surplus = self._parked.pop(0) if len(self._parked) > MAX_PARKED else None
        if surplus is not None:
            surplus.end()
        try:
            worker.alarm = ring_at(time.monotonic() + IDLE_SECONDS, partial(self._retire, worker))
        except RuntimeError:  # no thread for the alarm
            self._retire(worker)

    def _retire(self, worker: Worker) -> None:
        with self._lock:
            if worker not in self._parked:
                return
            self._parked.remove(worker)
        worker.end()

    def clear(self) -> None:
        """End all parked workers."""
        with self._lock:
            parked, self._parked = self._parked, []
        for worker in parked:
            worker.end()

    def __len__(self) -> int:
        return len(self._parked)


_alive: set[Worker] = set()
"""All workers of this process, parked or not."""

_making = threading.RLock()
"""Held until a worker that has lines is among these, and for a fork: a child would keep lines that it does not know of."""

pool = WorkerPool()


def run_in_process(order: ToolCallTask) -> Executed:
    """Make one attempt of a call in a worker. Blocks until it is there, or until `order` is cancelled.

    Raises:
        BadArguments: they do not fit the tool's parameters.
        CallFailed: the tool raised, its process ended, or what goes in or out is no JSON or too long.
        RunCancelled, RunTimedOut: nobody wants the call any more; nothing was started.
    """
    call_id = os.urandom(8).hex()
    try:
        request = encode({"id": call_id, **_request(order)})
    except NotSendable as error:
        raise CallFailed(str(error), again=False) from error
    while True:
        order.scope.check()
        worker = pool.take((order.tool.place.module, order.tool.memory_limit))
        try:
            reply = _ask(worker, order, request, call_id)
            break
        except NotBegun:
            worker.end()
        except Garbled as error:
            worker.end()
            raise CallFailed("something of it wrote on the line by which its process replies") from error
        except BaseException:  # nobody else has it, so nobody else would end it
            worker.end()
            raise
    if reply is None:
        raise CallFailed(_end_in_words(worker.end()))
    if reply.get("spent") or not worker.ready:
        worker.end()
    else:
        pool.park(worker)
    return _executed(order, reply)


def _ask(worker: Worker, order: ToolCallTask, request: bytes, call_id: str) -> dict[str, Any] | None:
    worker.lend_to(order)
    forget = order.scope.on_cancel_at_once(partial(worker.abort, order))
    try:
        return worker.ask(request, call_id, partial(_hear, order))
    finally:
        forget()
        worker.lend_to(None)


def _as_json(permit: Permit) -> JsonObject:
    return {"by": permit.by, "allow": permit.allow, "deny": permit.deny}


def _hear(order: ToolCallTask, report: object) -> None:
    match report:
        case [str(text), int() | float() | None as done, int() | float() | None as total]:
            order.report(text, done, total)
        case _:
            raise Garbled("what came is no report of progress")


def _request(order: ToolCallTask) -> JsonObject:
    record, place = order.record, order.tool.place
    sees_session = order.tool.signature.context_parameter is not None
    callers: list[JsonValue] = [[link.runner.id, link.run_id] for link in record.ancestry]
    return {
        "tool": order.tool.name,
        "place": {"module": place.module, "file": place.file, "qualname": place.qualname},
        "arguments": order.call.arguments,
        "deadline": order.scope.deadline,  # the monotonic clock is one for all processes
        "callers": callers,
        "permits": [_as_json(permit) for permit in record.link.permits],
        "session": dict(record.session) if sees_session else {},
        "run": {
            "run_id": record.run_id,
            "agent_id": record.agent.id,
            "call_id": order.call.id,
            "call_key": record.call_key(order.call.id),
            "user_id": record.options.user_id,
            "conversation_id": record.options.conversation_id,
        },
    }


def _executed(order: ToolCallTask, reply: dict[str, Any]) -> Executed:
    call = order.call
    if reply.get("error") == "bad_arguments":
        raise BadArguments(reply["words"])
    if reply.get("error") == "retry":
        raise Retry(reply["words"])
    if reply.get("error") == "too_large":
        raise TooLarge(reply["words"])
    if "error" in reply:
        raise CallFailed(reply["words"], again=reply["again"], trace=reply["trace"])
    overlay = SessionOverlay(order.record.session)
    overlay.changes.update(reply["changes"])
    overlay.removed |= frozenset(reply["removed"])
    return result_of(call, order.tool, Rendered.from_json(reply), order.record), overlay


def _end_in_words(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # a real-time signal
        name = f"signal {-status}"
    why = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{why}"


def _leave_to_parent() -> None:
    """Begin anew in a forked child: the workers are the parent's, and must notice when the parent ends."""
    global pool
    _making.release()
    pool = WorkerPool()
    for worker in list(_alive):
        worker.leave_to_parent()
    _alive.clear()


at_fork(Stage.TOOLS, _leave_to_parent, before=lambda: _making.acquire(), in_parent=lambda: _making.release())
