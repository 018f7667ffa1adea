"""A server that answers so many requests in each window of time, and agents that all ask it with one key."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

import understudy as us

from .http import HEAD, REPLY, read_request, speaking

REFUSED = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: {:.3f}\r\ncontent-length: 2\r\n\r\n{{}}"
_keys = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What came of a storm.

    Attributes:
        requests: how many the server got.
        answered: how many it answered.
        seconds: how long all of it took.
        endings: how often runs ended in which way, by the type of outcome or error.
    """

    requests: int
    answered: int
    seconds: float
    endings: Counter[str]


class Strict:
    """Answers `most` requests in each window of `length` seconds, and refuses the others until its end."""

    def __init__(self, most: int, length: float) -> None:
        self._most = most
        self._length = length
        self._lock = threading.Lock()
        self._windows: Counter[int] = Counter()
        self.requests = 0

    @property
    def answered(self) -> int:
        """The number of requests that were answered."""
        return self._windows.total()

    def __call__(self, connection: socket.socket, over: threading.Event) -> None:
        while read_request(connection):
            refused = self._refused()
            connection.sendall(HEAD + REPLY if refused is None else REFUSED.format(refused).encode())

    def _refused(self) -> float | None:
        """Count a request; return the seconds until the next window if it is refused."""
        with self._lock:
            now = time.monotonic()
            window = int(now / self._length)
            self.requests += 1
            if self._windows[window] >= self._most:
                return (window + 1) * self._length - now
            self._windows[window] += 1
            return None


def storm(*, agents: int, runs: int, most: int, length: float) -> Storm:
    """Let agents with clients of their own and one key run at once, each so many times."""
    server, endings, key = Strict(most, length), Counter[str](), f"storm-{next(_keys)}"
    began = time.monotonic()

    def work(agent: us.Agent[str]) -> None:
        for _ in range(runs):
            try:
                ending: object = agent.run("Go.")
            except us.UnderstudyError as error:
                ending = error
            endings[type(ending).__name__] += 1

    with speaking(server) as address:
        clients = [us.OpenAI("m", api_key=key, base_url=address) for _ in range(agents)]
        made = [us.Agent(f"agent-{number}", model=client) for number, client in enumerate(clients)]
        with ThreadPoolExecutor(agents) as threads:
            list(threads.map(work, made))
        for client in clients:
            client.close()
    return Storm(requests=server.requests, answered=server.answered, seconds=time.monotonic() - began, endings=endings)
