"""The agent below an event loop, as in a notebook or an asynchronous web server."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

import understudy as us
from understudy.testing import FunctionModel

from .clerk import PATIENCE, clerk, work

pytestmark = pytest.mark.timeout(60)


def test_a_run_may_block_a_thread_that_runs_a_loop() -> None:
    async def cell() -> tuple[int, int]:
        return work(4)

    assert asyncio.run(cell()) == (8, os.getpid())


def test_a_loop_awaits_many_runs_at_once() -> None:
    async def several() -> list[str]:
        runs = [asyncio.wrap_future(clerk.submit(str(number), timeout=PATIENCE).future()) for number in range(10)]
        return [outcome.text for outcome in await asyncio.gather(*runs)]

    assert asyncio.run(several()) == [f"{2 * number} {os.getpid()}" for number in range(10)]


def test_a_loop_goes_on_while_a_thread_of_it_waits_for_a_run() -> None:
    gate = threading.Event()
    agent = us.Agent("waiter", model=FunctionModel(lambda _: us.says(str(gate.wait(PATIENCE)))))

    async def both() -> str:
        asyncio.get_running_loop().call_soon(gate.set)  # which a loop that is blocked never comes to
        return (await asyncio.to_thread(agent.run, "go")).text

    assert asyncio.run(both()) == "True"


def test_a_task_that_is_cancelled_leaves_its_run_going() -> None:
    gate = threading.Event()
    agent = us.Agent("waiter", model=FunctionModel(lambda _: us.says(str(gate.wait(PATIENCE)))))
    handle = agent.submit("go")

    async def give_up() -> None:
        await asyncio.wait_for(asyncio.wrap_future(handle.future()), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    assert handle.running()
    gate.set()
    assert handle.result(PATIENCE).text == "True"
