"""What a run can be held up in, each made on purpose: what holds it lets go when it is told to, and not before.

The measures `cancel` and `deadline` use them, and so do tests of what becomes of such runs.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Self

import understudy as us
from understudy import FunctionModel, ModelRequest, ModelTurn, calls, says
from understudy.actors.admission import IN_LINE

from .fakes import ANSWER
from .loopback import Loopback, read_request, until_hung_up

PATIENCE = 30.0  # Seconds after which a run that is not held yet never will be; a busy machine takes its time.
AT_ONCE = 50
DRIP = 0.005  # Seconds between two bytes.
RETRY_AFTER = 30


class Gate:
    """Holds whoever comes until it is opened, and then whoever comes after that."""

    def __init__(self) -> None:
        self.arrivals = threading.Semaphore(0)
        """Counts who has come."""
        self._door = threading.Event()

    def hold(self) -> str:
        """Wait for the gate to open."""
        door = self._door
        self.arrivals.release()
        door.wait()
        return ANSWER

    def open(self) -> None:
        """Let all go that are held."""
        door, self._door = self._door, threading.Event()
        door.set()


class Situation(ABC):
    """An agent whose runs are held up, any number of them, until `release`.

    A context manager; at the end of the block all is released, and what the situation had open is closed.

    Attributes:
        name: tells it from the others.
        at_once: how many calls of one run are held.
        hangs: how many calls of one run do not notice that the run has ended, and are counted as hung until `release`.
    """

    name: ClassVar[str]
    at_once: ClassVar[int] = 1
    hangs: ClassVar[int] = 0

    def __init__(self, max_runs: int | None = None) -> None:
        self.system = us.ActorSystem(self.name, max_runs=max_runs)
        self.agent = self.make_agent()

    @abstractmethod
    def make_agent(self) -> us.Agent[str]:
        """Return the agent whose runs are held."""

    def submit(self, timeout: float | None = None) -> us.RunHandle[str]:
        """Begin a run that will be held."""
        self.prepare()
        return self.agent.submit("go", system=self.system, timeout=timeout)

    def run(self, timeout: float | None = None) -> us.Outcome[str]:
        """Begin a run that will be held, and wait for its end."""
        self.prepare()
        return self.agent.run("go", system=self.system, timeout=timeout)

    def prepare(self) -> None:  # noqa: B027 (most hold whatever comes)
        """See to it that the next run will be held."""

    @abstractmethod
    def held(self, runs: int = 1, within: float = PATIENCE) -> bool:
        """Wait up to `within` seconds until `runs` more runs are held, and return whether they are."""

    @abstractmethod
    def release(self) -> None:
        """Let go of all runs that are held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.system.stop(0.0)  # first, or one in line would take the place of one that is let go
        self.release()


def _comes_true(claim: Callable[[], bool], within: float) -> bool:
    """Wait for what no event announces."""
    latest = time.monotonic() + within
    while not claim():
        if time.monotonic() >= latest:
            return False
        time.sleep(0.001)
    return True


def _all_come(arrivals: threading.Semaphore, number: int, within: float) -> bool:
    latest = time.monotonic() + within
    return all(arrivals.acquire(timeout=max(0.0, latest - time.monotonic())) for _ in range(number))


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
        return _all_come(self.gate.arrivals, runs * self.at_once, within)

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


class InLine(Gated):
    """A run that waits for a place, which another one has that does not end."""

    name = "in line"

    def __init__(self) -> None:
        self._inside: us.RunHandle[str] | None = None
        super().__init__(1)

    def make_agent(self) -> us.Agent[str]:
        return _acting("clerk", self.gate.hold)

    def prepare(self) -> None:
        if self._inside is None:
            self._inside = self.agent.submit("go", system=self.system)
            assert _all_come(self.gate.arrivals, 1, PATIENCE)

    def held(self, runs: int = 1, within: float = PATIENCE) -> bool:
        return _comes_true(lambda: [run.doing for run in self.system.health().runs].count(IN_LINE) >= runs, within)

    def release(self) -> None:
        """Let the one go that has the place; the first in line takes it, and is held in its turn."""
        super().release()
        if self._inside is not None:
            self._inside.exception(PATIENCE)
            self._inside = None


# --- at the model's


class AtServer(Situation):
    """A model behind a server on this host that keeps its client waiting."""

    scheme: ClassVar[str] = "http"

    def __init__(self) -> None:
        self.arrivals = threading.Semaphore(0)
        """Counts whom the server keeps waiting."""
        self.server = Loopback(self.serve)
        address = f"{self.scheme}://127.0.0.1:{self.server.port}"
        self.model = us.OpenAI("gpt-4o", api_key="none", base_url=address)
        super().__init__()

    def make_agent(self) -> us.Agent[str]:
        return us.Agent("clerk", model=self.model)

    @abstractmethod
    def serve(self, connection: socket.socket) -> None:
        """Keep the client of one connection waiting."""

    def held(self, runs: int = 1, within: float = PATIENCE) -> bool:
        return _all_come(self.arrivals, runs, within)

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

    def serve(self, connection: socket.socket) -> None:
        if connection.recv(65_536):
            self.arrivals.release()
            until_hung_up(connection)


class BackingOff(AtServer):
    """A client that was told to come back later."""

    name = "backing off"

    def serve(self, connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(
            f"HTTP/1.1 429 Too Many Requests\r\nretry-after: {RETRY_AFTER}\r\ncontent-length: 0\r\n\r\n".encode()
        )
        until_hung_up(connection)

    def held(self, runs: int = 1, within: float = PATIENCE) -> bool:
        # No server knows when its client has begun to wait.
        return _comes_true(lambda: _threads_in(us.Scope.sleep) >= runs, within)


def _threads_in(function: Callable[..., object]) -> int:
    """Return how many threads are inside of a call of `function`."""
    frames = sys._current_frames().values()  # pyright: ignore[reportPrivateUsage]  # documented, for debuggers
    return sum(function.__code__ in [frame.f_code for frame, _ in traceback.walk_stack(frame)] for frame in frames)


# A run that waits for its conversation is not here: there are no conversations yet.
SITUATIONS: tuple[type[Situation], ...] = (
    InLine,
    BeforeHeaders,
    InBody,
    InHandshake,
    BackingOff,
    OneTool,
    ManyTools,
    SubAgents,
)
