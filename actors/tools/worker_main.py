"""What a worker process does: it makes the tool calls that its parent sends, one after another, until the parent is gone.

Started by `workers.py` as `python -m`. Calls run on the main thread, as libraries expect. A second thread listens: when
the parent ends, however it ends, this process and what it started end too.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from math import inf
from queue import SimpleQueue
from typing import Any, cast

from understudy.actors.run_view.progress import Reporter
from understudy.actors.run_view.tracebacks import MAX_WORDS, where
from understudy.errors import Retry, RunError, had_its_retries, in_words
from understudy.vocabulary.context.ancestry import Link, enter_ancestry, leave_ancestry
from understudy.vocabulary.context.overlays import CallSession, SessionOverlay
from understudy.vocabulary.context.permits import Permit
from understudy.vocabulary.context.scope import Scope, enter_scope, leave_scope
from understudy.vocabulary.context.session import ToolContext
from understudy.vocabulary.messages import JsonObject, JsonValue, ToolCall
from understudy.vocabulary.tools.definition import Tool
from understudy.vocabulary.tools.isolation import Place
from understudy.vocabulary.tools.parameters import BadArguments

from .coroutines import run_async
from .results import TooLarge, rendered
from .worker_channel import PROGRESS, Channel, Garbled, NotSendable, encode


def main() -> None:
    """Work until the parent hangs up. Does not return."""
    line, lifeline = map(int, sys.argv[1:])
    for descriptor in (line, lifeline):
        os.set_inheritable(descriptor, False)  # what the tools start must not hold them open
    _die_with_parent(lifeline)
    channel = Channel(socket.socket(fileno=line))
    calls: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_listen, args=(channel, calls), name="understudy-parent", daemon=True).start()
    condition = _settle_in(calls.get())
    myself = os.getpid()
    while True:
        call = calls.get()
        channel.send(encode({"begun": call["id"]}))  # whatever comes now is the call's doing
        reports = Line(channel)
        reply = _answer(call, reports, condition)
        if os.getpid() != myself:
            os._exit(1)  # a child that a tool forked and let come back here: the call is not its to answer
        reports.shut()
        channel.send(reply)


class Line:
    """The way on which a call tells how far it is, from any thread of the tool's, until it is shut."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        """Guards the line, so that nothing is told between a call's reply and the next call."""
        self._open = True
        self._owner = os.getpid()

    def tell(self, text: str, done: float | None, total: float | None) -> None:
        """Send a report; nothing from a child that a tool forked."""
        if os.getpid() != self._owner:
            return
        with self._lock, contextlib.suppress(OSError):  # the parent is gone, and the listener ends us
            if self._open:
                self._channel.send(encode({PROGRESS: [text, done, total]}))

    def shut(self) -> None:
        """Send nothing from now on."""
        with self._lock:
            self._open = False


def _die_with_parent(lifeline: int) -> None:
    """Have the kernel kill the group when the pipe's other end is closed.

    Where it can: a tool in a loop of C code lets no thread of ours run, so the listener would never hear of it.
    """
    import fcntl

    if hasattr(fcntl, "F_SETSIG") and os.getpgrp() == os.getpid():
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _listen(channel: Channel, calls: SimpleQueue[dict[str, Any]]) -> None:
    with contextlib.suppress(Garbled):
        while (message := channel.receive()) is not None:
            calls.put(cast("dict[str, Any]", message))
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _settle_in(hello: dict[str, Any]) -> ProcessBaseline:
    """Take over what the parent imports from, and the limit; return what the process is like then."""
    sys.path[:] = hello["path"]
    os.environ.pop("PYTHONPATH", None)
    if hello["pythonpath"] is not None:  # ours was for finding this module
        os.environ["PYTHONPATH"] = hello["pythonpath"]
    if hello["memory_limit"] is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = hello["memory_limit"] if hard == resource.RLIM_INFINITY else min(hello["memory_limit"], hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return ProcessBaseline(memory_limit=hello["memory_limit"])


# --- one call


def _answer(call: dict[str, Any], line: Line, condition: ProcessBaseline) -> bytes:
    """Make a call and return the reply's bytes; whatever the tool raises is in it."""
    try:
        return encode({**_carry_out(call, line), "id": call["id"], "spent": not condition.is_kept()})
    except BadArguments as error:
        return _failure(str(error), condition, call, kind="bad_arguments")
    except TooLarge as error:
        return _failure(str(error), condition, call, kind="too_large")
    except Retry as wish:
        return _failure(wish.reason, condition, call, kind="retry")
    except NotSendable as error:
        return _failure(str(error), condition, call, kind="raised")
    except BaseException as error:
        # Without the error's message, which may quote the arguments: the trace is logged.
        trace = where(error)
        again = isinstance(error, Exception) and not isinstance(error, RunError) and not had_its_retries(error)
        # After a MemoryError who knows what is left half done, and how scattered the memory is.
        spent = isinstance(error, MemoryError)
        return _failure(in_words(error), condition, call, kind="raised", again=again, trace=trace, spent=spent)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()


def _failure(
    words: str,
    condition: ProcessBaseline,
    call: dict[str, Any],
    *,
    kind: str,
    again: bool = False,
    trace: str = "",
    spent: bool = False,
) -> bytes:
    spent = spent or not condition.is_kept()
    return encode(
        {"id": call["id"], "error": kind, "words": words[:MAX_WORDS], "again": again, "trace": trace, "spent": spent}
    )


def _carry_out(call: dict[str, Any], line: Line) -> JsonObject:
    from understudy.vocabulary.tools.schemas import check_arguments

    found = _find(Place(**call["place"]))
    tool = cast("Tool[..., object]", found if isinstance(found, Tool) else Tool(cast(Any, found), name=call["tool"]))
    scope = Scope(call["deadline"], time.monotonic)
    scope.call = ToolCall(call["run"]["call_id"], call["tool"])
    chain, token = enter_ancestry(_ancestry(call)), enter_scope(scope)
    try:
        arguments = check_arguments(tool.signature, call["tool"], call["arguments"])
        overlay = CallSession(call["session"])
        if tool.signature.context_parameter is not None:
            arguments[tool.signature.context_parameter] = _context(call, overlay, scope, line)
        value = tool(**arguments)
        if isinstance(value, Coroutine):
            value = run_async(cast("Coroutine[Any, Any, object]", value), scope)
        overlay.settle()
        removed: list[JsonValue] = [*sorted(overlay.removed)]
        return {**rendered(value).to_json(), "changes": overlay.changes, "removed": removed}
    finally:
        leave_scope(token)
        leave_ancestry(chain)


def _find(place: Place) -> object:
    try:
        return place.find()
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if place.file is None or not f"{place.module}.".startswith(f"{missing}."):
            raise  # the module is there, and imports something that is not
    _run_file(place.module, place.file)
    return place.find()


def _run_file(name: str, file: str) -> None:
    """Load a module that stands on no path: the parent has it from its file too."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file", name=name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses and pydantic look annotations up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _context(call: dict[str, Any], overlay: SessionOverlay, scope: Scope, line: Line) -> ToolContext[object]:
    return ToolContext(
        deps=NoDeps(),
        session=overlay,
        tool_name=call["tool"],
        arguments=call["arguments"],
        scope=scope,
        report=Reporter(line.tell, scope),
        **call["run"],
    )


class NoDeps:
    """Stands for deps, which are objects of another process."""

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"deps.{name}: deps stay in the process of the run; a tool in a worker process has none")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An agent of the parent process, in the chain of callers that wait."""

    id: str


def _ancestry(call: dict[str, Any]) -> tuple[Link, ...]:
    """Return the parent's chain, so that runs begun here count its depth and keep to its permits."""
    chain = tuple([Link(Elsewhere(agent_id), run_id) for agent_id, run_id in call["callers"]])
    chain[-1].conversation_id = call["run"]["conversation_id"]
    chain[-1].permits = tuple([_permit(**each) for each in call["permits"]])
    return chain


def _permit(by: str, allow: list[str] | None, deny: list[str]) -> Permit:
    return Permit(by, None if allow is None else tuple(allow), tuple(deny))


MANY_THREADS = 100  # Left behind: more than any library keeps, and what starts as many will do so again.


@dataclass(frozen=True, slots=True)
class ProcessBaseline:
    """What calls share besides the modules that they import, as it was before the first one.

    A call that changed any of it has had its way; its process is used no more. Variables that were added to the environment
    count for nothing, as libraries do so when they are imported.
    """

    folder: str | None = field(default_factory=lambda: _folder())
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    streams: tuple[object, ...] = field(default_factory=lambda: _streams())
    limits: tuple[float, ...] = field(default_factory=lambda: _limits())
    memory: int = field(default_factory=lambda: _memory())
    memory_limit: int | None = None

    def is_kept(self) -> bool:
        """Whether the process is as it was."""
        return (
            _folder() == self.folder
            and all(os.environ.get(name) == value for name, value in self.environment.items())
            and _streams() == self.streams
            and all(now >= then for now, then in zip(_limits(), self.limits, strict=True))
            and signal.getitimer(signal.ITIMER_REAL)[0] == 0
            and threading.active_count() <= MANY_THREADS
            and self._has_room()
        )

    def _has_room(self) -> bool:
        """Whether at least half of the memory is left that the first call had."""
        return self.memory_limit is None or _memory() - self.memory <= (self.memory_limit - self.memory) / 2


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _streams() -> tuple[object, ...]:
    """Return where output goes, and whether it gets there."""
    open_ones: list[int] = []
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            found = os.fstat(descriptor)
            open_ones += [descriptor, found.st_dev, found.st_ino]
    return (*open_ones, *[(id(stream), stream is not None and stream.closed) for stream in (sys.stdout, sys.stderr)])


def _limits() -> tuple[float, ...]:
    import resource

    kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_AS)
    soft = [resource.getrlimit(kind)[0] for kind in kinds]
    return (sys.getrecursionlimit(), *[inf if each == resource.RLIM_INFINITY else each for each in soft])


def _memory() -> int:
    """Return the bytes of address space in use; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # the parent is gone, and the listener ends us
        main()
