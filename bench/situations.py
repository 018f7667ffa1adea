"""What a run can be held up in, each made on purpose: what holds it lets go when it is told to, and not before.

The measures `cancel` and `deadline` use them, and so do tests of what becomes of such runs.
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from types import CodeType
from typing import ClassVar

from httpcore._backends.sync import SyncStream

import understudy as us
from understudy import FunctionModel, ModelRequest, ModelTurn, calls, says
from understudy.actors.system.run_manager import IN_LINE
from understudy.providers.http.retries import Timing
from understudy.vocabulary.context.scope import enter_scope, leave_scope

from .fakes import ANSWER
from .holding import PATIENCE, Gate, Situation, all_come, comes_true
from .loopback import Loopback, read_request, until_hung_up

AT_ONCE = 50
DRIP = 0.005  # Seconds between two bytes.
RETRY_AFTER = 30


def _acting(id: str, act: Callable[[], str], times: int = 1) -> us.Agent[str]:
    """Return an agent whose only tool, which may take for ever, does `act`, `times` times in its first turn."""
    first = calls("act")
    for _ in range(times - 1):
        first = first + calls("act")

    def answer(request: ModelRequest) -> ModelTurn:
        return first if request.turn == 1 else says(ANSWER)

    return us.Agent(id, model=FunctionModel(answer), tools=[us.tool(name="act", timeout=None)(act)])


# --- without a network


class Gated(Situation):
    """What stands before a gate in this process."""

    def __init__(self, max_runs: int | None = None) -> None:
        self.gate = Gate()
        super().__init__(max_runs)

    def held(self, runs: int = 1, within: float = PATIENCE) -> bool:
        return all_come(self.gate.arrivals, runs * self.at_once, within)

    def release(self) -> None:
        self.gate.open()


class OneTool(Gated):
    """A tool that is called alone and does not return."""

    name = "one tool"
    hangs = 1

    def make_agent(self) -> us.Agent[str]:
        return _acting("clerk", self.gate.hold)


class ManyTools(Gated):
    """Tools that are called in one turn and do not return."""

    name = f"{AT_ONCE} tools"
    at_once = AT_ONCE
    hangs = AT_ONCE

    def make_agent(self) -> us.Agent[str]:
        return _acting("clerk", self.gate.hold, AT_ONCE)


class SubAgents(Gated):
    """A tool that runs an agent whose tool runs an agent whose tool does not return."""

    name = "sub-agents"
    hangs = 1

    def make_agent(self) -> us.Agent[str]:
        third = _acting("third", self.gate.hold)
        second = _acting("second", lambda: third.run("go").text)
        return _acting("first", lambda: second.run("go").text)


class Behind(Gated):
    """A run that waits in a line for what another one has that does not end."""

    waits: ClassVar[str]
    """The status text of the queued runs."""

    def __init__(self, max_runs: int | None = None) -> None:
        self._inside: us.RunHandle[str] | None = None
        super().__init__(max_runs)

    def make_agent(self) -> us.Agent[str]:
        return _acting("clerk", self.gate.hold)

    def prepare(self) -> None:
        if self._inside is None:
            self._inside = self.agent.submit("go", system=self.system, conversation_id=self.conversation)
            assert all_come(self.gate.arrivals, 1, PATIENCE)

    def held(self, runs: int = 1, within: float = PATIENCE) -> bool:
        return comes_true(lambda: [run.doing for run in self.system.health().runs].count(self.waits) >= runs, within)

    def release(self) -> None:
        """Release the run that is ahead; the first queued run starts, and blocks in its turn."""
        super().release()
        if self._inside is not None:
            self._inside.exception(PATIENCE)
            self._inside = None


class InLine(Behind):
    """A run that waits for a place, which another one has that does not end."""

    name = "in line"
    waits = IN_LINE

    def __init__(self) -> None:
        super().__init__(1)


class InConversation(Behind):
    """A run that waits for its conversation, which another one has that does not end."""

    name = "in a conversation"
    conversation = "c-42"
    waits = "waiting for conversation c-42"

    def make_agent(self) -> us.Agent[str]:
        return super().make_agent().replace(memory=us.WindowedMemory(turns=1))  # so that it holds no more than before


# --- at the model's


class AtServer(Situation):
    """A model behind a server on this host that keeps its client waiting."""

    scheme: ClassVar[str] = "http"
    waits_in: ClassVar[CodeType | None] = SyncStream.read.__code__
    """The innermost function of the client's thread while it waits, which no server knows; None where the client tells."""

    def __init__(self) -> None:
        self.arrivals = threading.Semaphore(0)
        """Counts who was kept waiting."""
        self.server = Loopback(self.serve)
        address = f"{self.scheme}://127.0.0.1:{self.server.port}"
        # With a clock of its own the client keeps its limits, and they go with it.
        self.model = us.OpenAI("gpt-4o", api_key="none", base_url=address, timing=Timing())
        super().__init__()

    def make_agent(self) -> us.Agent[str]:
        return us.Agent("clerk", model=self.model)

    @abstractmethod
    def serve(self, connection: socket.socket) -> None:
        """Keep the client of one connection waiting."""

    def held(self, runs: int = 1, within: float = PATIENCE) -> bool:
        latest = time.monotonic() + within
        return all_come(self.arrivals, runs, within) and comes_true(
            lambda: self.waits_in is None or _threads_in(self.waits_in) >= runs, latest - time.monotonic()
        )

    def release(self) -> None:
        self.server.hang_up()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.server.close()
        self.model.close()


class BeforeHeaders(AtServer):
    """A server that reads the request and does not answer."""

    name = "before headers"

    def serve(self, connection: socket.socket) -> None:
        read_request(connection)
        self.arrivals.release()
        until_hung_up(connection)


class InBody(AtServer):
    """A server that sends its answer byte by byte."""

    name = "in the body"

    def serve(self, connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{")
        self.arrivals.release()
        while True:
            time.sleep(DRIP)
            connection.sendall(b" ")


class InHandshake(AtServer):
    """A server that was greeted in TLS and says nothing."""

    name = "TLS handshake"
    scheme = "https"
    waits_in = ssl.SSLSocket.do_handshake.__code__

    def serve(self, connection: socket.socket) -> None:
        if connection.recv(65_536):
            self.arrivals.release()
            until_hung_up(connection)


class BackingOff(AtServer):
    """A client that was told to come back later; not by 429, after which calls with one key wait for each other."""

    name = "backing off"
    waits_in = None

    def make_agent(self) -> us.Agent[str]:
        def answer(request: ModelRequest) -> ModelTurn:
            token = enter_scope(_Telling(self.arrivals))
            try:
                return self.model.complete(request)
            finally:
                leave_scope(token)

        return us.Agent("clerk", model=FunctionModel(answer))

    def serve(self, connection: socket.socket) -> None:
        while True:  # who waits to ask again keeps no connection, so another run may ask over this one
            read_request(connection)
            connection.sendall(
                f"HTTP/1.1 500 Internal Server Error\r\nretry-after: {RETRY_AFTER}\r\ncontent-length: 0\r\n\r\n".encode()
            )


class _Telling(us.Scope):
    """The scope of a model call, which says when the call begins to wait."""

    __slots__ = ("_arrivals",)

    def __init__(self, arrivals: threading.Semaphore) -> None:
        super().__init__(None, time.monotonic, parent=us.current_scope())
        self._arrivals = arrivals

    def sleep(self, seconds: float) -> None:
        self._arrivals.release()
        super().sleep(seconds)


def _threads_in(code: CodeType) -> int:
    """Return how many threads are in a function with this code, and in none that it calls."""
    frames = sys._current_frames().values()  # pyright: ignore[reportPrivateUsage]  # documented, for debuggers
    return sum(frame.f_code is code for frame in frames)  # who called them cannot be read safely while they run


SITUATIONS: tuple[type[Situation], ...] = (
    InLine,
    InConversation,
    BeforeHeaders,
    InBody,
    InHandshake,
    BackingOff,
    OneTool,
    ManyTools,
    SubAgents,
)
