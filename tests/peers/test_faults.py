"""Errors that aimock answers with, and what a client makes of them. No test waits: the waits are recorded."""

from __future__ import annotations

import pytest

import understudy as us
from tests.support.http import FakeTime
from tests.support.peers import KEY, Peer, Provider, Tagged
from tests.support.scripts import finished
from understudy.vocabulary.messages import user_message

BUSY: list[tuple[int, float]] = [(429, 1.0), (500, 0.5), (529, 0.5)]
"""What it answers first, and the seconds that the client then waits: for 429 it is told to."""


def asking(text: str) -> us.ModelRequest:
    return us.ModelRequest([user_message(text)])


@pytest.fixture
def tagged(request: pytest.FixtureRequest) -> Tagged:
    """Connections whose errors are counted for this test alone."""
    return Tagged(request.node.nodeid)


@pytest.mark.parametrize(("status", "wait"), BUSY)
def test_a_client_asks_again_after_an_error_and_gets_the_answer(
    peer: Peer, provider: Provider, tagged: Tagged, status: int, wait: float
) -> None:
    clock = FakeTime()
    with provider.client(peer, attempts=2, transport=tagged, timing=clock.timing()) as model:
        turn = model.complete(asking(f"Busy with {status}?"))

    assert turn.text == "Not any more."
    assert clock.slept == [wait]
    assert [a.status for a in peer.arrivals()] == [status, 200]
    assert tagged.bodies[0] == tagged.bodies[1]


@pytest.mark.parametrize(("status", "wait"), BUSY)
def test_the_last_attempts_error_carries_its_status(
    peer: Peer, provider: Provider, tagged: Tagged, status: int, wait: float
) -> None:
    with provider.client(peer, transport=tagged) as model, pytest.raises(us.ProviderError) as caught:
        model.complete(asking(f"Busy with {status}?"))

    assert (caught.value.provider, caught.value.status, caught.value.retryable) == (provider.name, status, True)
    assert [a.status for a in peer.arrivals()] == [status]


def test_a_rate_limit_without_end_is_raised_with_the_wait_that_was_asked_for(peer: Peer, provider: Provider) -> None:
    clock = FakeTime()
    with provider.client(peer, attempts=3, timing=clock.timing()) as model, pytest.raises(us.RateLimited) as caught:
        model.complete(asking("Busy for ever?"))

    assert caught.value.retry_after == 7.0
    assert str(caught.value) == "Slow down"
    assert clock.slept == [7.0, 7.0]
    assert [a.status for a in peer.arrivals()] == [429] * 3


def test_an_answer_that_was_lost_on_the_way_is_asked_for_again(peer: Peer, provider: Provider, tagged: Tagged) -> None:
    clock = FakeTime()
    with provider.client(peer, attempts=2, transport=tagged, timing=clock.timing()) as model:
        turn = model.complete(asking("Is the line cut?"))

    assert turn.text == "Not any more."
    assert clock.slept == [0.5]
    assert tagged.bodies[0] == tagged.bodies[1]


def test_a_cut_line_is_an_error_without_a_status(peer: Peer, provider: Provider, tagged: Tagged) -> None:
    with provider.client(peer, transport=tagged) as model, pytest.raises(us.ProviderError) as caught:
        model.complete(asking("Is the line cut?"))

    assert (caught.value.provider, caught.value.status, caught.value.retryable) == (provider.name, None, True)


def test_an_answer_that_is_no_json_is_a_bad_reply(peer: Peer, provider: Provider, tagged: Tagged) -> None:
    with provider.client(peer, transport=tagged) as model, pytest.raises(us.BadReply) as caught:
        model.complete(asking("Is the line noisy?"))

    assert (caught.value.provider, caught.value.status) == (provider.name, 200)


def test_a_run_is_not_disturbed_by_an_error_that_passes(peer: Peer, provider: Provider, tagged: Tagged) -> None:
    with provider.client(peer, attempts=2, transport=tagged) as model:
        outcome = finished(us.Agent("clerk", model=model).run("Busy for a blink?", timeout=30))

    assert (outcome.text, outcome.turns) == ("Not any more.", 1)
    assert [a.status for a in peer.arrivals()] == [429, 200]


def test_a_refused_key_is_not_tried_again_and_not_shown(peer: Peer, provider: Provider) -> None:
    with provider.client(peer, attempts=3) as model, pytest.raises(us.AuthenticationError) as caught:
        us.Agent("clerk", model=model).run("Am I allowed?", timeout=30)

    assert caught.value.status == 401
    assert KEY not in str(caught.value)
    assert [a.status for a in peer.arrivals()] == [401]
