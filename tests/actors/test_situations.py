"""Whatever a run is held up in, its answer comes at once. Each time it is there while what holds the run still does.

The situations are those that `python -m bench --only cancel` measures.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

import understudy as us
from bench.holding import Situation
from bench.situations import RETRY_AFTER, SITUATIONS, BackingOff, OneTool
from tests.hosts.processes import output_of
from tests.support.interrupts import QUESTION
from tests.support.scripts import WAIT, eventually, finished, needs_input, scripted
from understudy.testing import says
from understudy.vocabulary.messages import JsonValue

TIMEOUTS = (0.2, 1.0, 5.0)  # On a busy machine a run may take longer until it is held.

held_up = pytest.mark.parametrize("kind", SITUATIONS, ids=lambda kind: kind.name)


def release(situation: Situation) -> None:
    """Let go, after all that hangs was counted; then nothing hangs any more."""
    eventually(lambda: situation.system.hung == situation.hangs, "what hangs is counted")
    situation.release()
    eventually(lambda: situation.system.hung == 0, "nothing hangs any more")


@held_up
def test_a_cancelled_run_is_over_at_once(kind: type[Situation]) -> None:
    with kind() as situation, ThreadPoolExecutor(1) as pool:
        handle = situation.submit()
        assert situation.held()
        waiting = pool.submit(handle.exception, WAIT)

        assert handle.cancel()
        assert isinstance(waiting.result(WAIT), us.RunCancelled)
        assert not handle.cancel()
        release(situation)


@pytest.mark.parametrize("kind", [kind for kind in SITUATIONS if kind is not BackingOff], ids=lambda kind: kind.name)
def test_a_deadline_ends_a_run_at_once(kind: type[Situation]) -> None:
    for timeout in TIMEOUTS:
        with kind() as situation:
            handle = situation.submit(timeout)
            held = situation.held(within=timeout)

            assert isinstance(handle.exception(timeout + WAIT), us.RunTimedOut)
            if held:
                return release(situation)
    raise AssertionError("the run was never held")


def test_a_wait_that_the_deadline_has_no_room_for_is_not_begun() -> None:
    with BackingOff() as situation:
        error = situation.submit(WAIT).exception(WAIT)

    assert isinstance(error, us.ProviderError)
    assert error.retry_after == RETRY_AFTER


@held_up
def test_a_system_that_stops_ends_a_run_at_once(kind: type[Situation]) -> None:
    with kind() as situation, ThreadPoolExecutor(1) as pool:
        handle = situation.submit()
        assert situation.held()
        waiting = pool.submit(handle.exception, WAIT)

        assert handle.run_id in situation.system.stop(timeout=0)
        error = waiting.result(WAIT)
        assert isinstance(error, us.RunCancelled)
        assert f"system {situation.system.name!r} stopped" in str(error)
        situation.release()
        eventually(lambda: situation.system.hung == 0, "nothing hangs any more")


@pytest.fixture(scope="module")
def interrupts() -> Mapping[str, Mapping[str, JsonValue]]:
    """What was true in each situation when a real interrupt came; one process finds it all out."""
    printed = output_of("-m", "tests.support.interrupts")
    return dict(json.loads(line) for line in printed.splitlines())


needs_signals = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no thread can be sent a signal here")


@needs_signals
@held_up
def test_an_interrupt_is_raised_at_once_and_cancels_the_run(
    kind: type[Situation], interrupts: Mapping[str, Mapping[str, JsonValue]]
) -> None:
    assert interrupts[kind.name] == {"held": True, "left": 0}


# Paused: nothing is held, for nobody waits.


def paused(agent: us.Agent, system: us.ActorSystem, timeout: float | None = None) -> us.NeedsInput:
    outcome = needs_input(agent.run("go", system=system, timeout=timeout))
    return outcome


def test_a_paused_run_is_done_and_cannot_be_cancelled() -> None:
    agent = scripted(QUESTION, says("Ada it is."))
    handle = agent.submit("go")
    outcome = handle.result(WAIT)

    assert isinstance(outcome, us.NeedsInput)
    assert not handle.cancel()
    assert finished(agent.resume(outcome.token, "Ada")).text == "Ada it is."


def test_the_clock_of_a_paused_run_stands_still() -> None:
    agent = scripted(QUESTION, says("Ada it is."))
    with OneTool() as later:
        outcome = paused(agent, later.system, TIMEOUTS[0])
        assert isinstance(later.submit(TIMEOUTS[0]).exception(WAIT), us.RunTimedOut)  # so its time would be over too

        assert finished(agent.resume(outcome.token, "Ada", system=later.system)).text == "Ada it is."


@needs_signals
def test_an_interrupt_leaves_a_paused_run_as_it_is(interrupts: Mapping[str, Mapping[str, JsonValue]]) -> None:
    assert interrupts["paused"] == {"text": "Ada it is."}


def test_a_system_that_stops_abandons_no_paused_run_but_lets_none_go_on() -> None:
    agent, system = scripted(QUESTION, says("never")), us.ActorSystem("shop")
    outcome = paused(agent, system)

    assert system.stop(timeout=0) == ()
    for _ in range(2):  # the token is not used up by being refused
        with pytest.raises(us.AgentDown):
            agent.resume(outcome.token, "Ada", system=system)
