"""The agent in the workers of gunicorn, which loads the application before it forks them."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from .processes import started

pytest.importorskip("gunicorn", reason="gunicorn needs a system that forks")

ANSWER_WITHIN = 20.0
GRACE = 1  # Seconds gunicorn lets a worker finish what it has in hand.
KINDS = [pytest.param((), id="sync"), pytest.param(("-k", "gthread", "--threads", "4"), id="gthread")]


@contextmanager
def serving(
    *kind: str, workers: int = 4, preload: bool = True, app: str = "tests.hosts.wsgi:app"
) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Serve the application; yields gunicorn and its address.

    The socket is made here and handed over: its port is free for certain, and a request that comes before the workers
    waits in its queue.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        where = f"--bind=fd://{listener.fileno()}"
        options = ["--no-control-socket", f"--workers={workers}", f"--graceful-timeout={GRACE}", where, *kind]
        command = ["-m", "gunicorn", *options, *(["--preload"] if preload else []), app]
        with started(*command, keep=[listener.fileno()]) as process:
            port: int = listener.getsockname()[1]
            listener.close()  # without gunicorn, nobody is there
            yield process, f"http://127.0.0.1:{port}"


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=ANSWER_WITHIN) as response:
        data: bytes = response.read()
    return data.decode()


def ask(url: str) -> tuple[int, int]:
    doubled, pid = get(url).split()
    return int(doubled), int(pid)


def numbered(url: str, count: int) -> list[str]:
    return [f"{url}/{number}" for number in range(count)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
def test_every_worker_answers_with_the_agent_that_the_master_has_used(kind: tuple[str, ...]) -> None:
    with serving(*kind) as (gunicorn, url), ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(ask, numbered(url, 40)))
        pids = {pid for _, pid in answers}
        until = time.monotonic() + ANSWER_WITHIN
        while len(pids) < 2 and time.monotonic() < until:  # the system decides who accepts
            pids |= {pid for _, pid in clients.map(ask, numbered(url, 8))}

    assert [doubled for doubled, _ in answers] == [2 * number for number in range(40)]
    assert len(pids) >= 2
    assert gunicorn.pid not in pids


@pytest.mark.timeout(60)
def test_workers_that_load_the_application_themselves_answer_too() -> None:
    with serving("-k", "gthread", "--threads", "4", preload=False) as (gunicorn, url), ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(ask, numbered(url, 40)))

    assert [doubled for doubled, _ in answers] == [2 * number for number in range(40)]
    assert gunicorn.pid not in {pid for _, pid in answers}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_that_hangs_does_not_keep_the_server_from_ending(kind: tuple[str, ...]) -> None:
    with serving(*kind) as (gunicorn, url), ThreadPoolExecutor(1) as client:
        unanswered = client.submit(get, f"{url}/hang")
        assert gunicorn.stdout is not None
        assert gunicorn.stdout.readline() == "hanging\n"

        gunicorn.send_signal(signal.SIGTERM)
        status = gunicorn.wait(GRACE + 10.0)

        assert status == 0
        assert isinstance(unanswered.exception(ANSWER_WITHIN), OSError)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_ends_when_its_health_advises_it_is_replaced(kind: tuple[str, ...]) -> None:
    with serving(*kind, workers=1) as (_, url):
        first = ask(f"{url}/1")[1]
        lost = int(get(f"{url}/stall"))
        doubled, second = ask(f"{url}/2")
        until = time.monotonic() + ANSWER_WITHIN
        while second == first and time.monotonic() < until:  # it may have one more in hand
            doubled, second = ask(f"{url}/2")

    assert lost == first
    assert doubled == 4
    assert second != first
