"""Runs that are held up in every way there is and ended from outside, and what is left when what held them lets go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from math import ceil
from typing import NamedTuple

import understudy as us
from bench.holding import Situation
from bench.situations import SITUATIONS, BackingOff
from tests.support.scripts import WAIT, eventually
from understudy.actors.system.actor_system import runs_of

from .answers import HANGING
from .footprint import Footprint, at_rest, back_to

TOGETHER = 4
"""How many runs of one situation are held at once."""
TIMEOUT = 0.1
KINDS = (*SITUATIONS, *[kind for kind in HANGING if kind not in SITUATIONS])
ROUND = 2 * TOGETHER * len(KINDS)
"""How many runs one round ends."""


@contextmanager
def _all_situations() -> Generator[list[Situation]]:
    with ExitStack() as stack:
        yield [stack.enter_context(kind()) for kind in KINDS]


class Report(NamedTuple):
    """What became of the runs."""

    answers: Counter[str]
    """Answer -> how often it came."""
    before: Footprint
    """What the process held after a first round."""
    after: Footprint


def end_runs(runs: int, progress: Callable[[str], object]) -> Report:
    """End `runs` runs, rounded up to whole rounds: half of them by cancelling, and half by a deadline.

    Raises:
        AssertionError: an answer was another one, what hung was not counted, or something was left behind.
    """
    answers: Counter[str] = Counter()
    rounds = ceil(runs / ROUND)
    with _all_situations() as situations:
        _one_round(situations)  # imports, threads, connections
    outside = at_rest()
    with _all_situations() as situations:
        _one_round(situations)
        before = at_rest()
        for number in range(1, rounds + 1):
            answers += _one_round(situations)
            progress(f"{number * ROUND} runs ended, of {rounds * ROUND}")
        after = back_to(before)
    back_to(outside)
    return Report(answers, before, after)


def _one_round(situations: list[Situation]) -> Counter[str]:
    answers: Counter[str] = Counter()
    for situation in situations:
        answers += _cancelled(situation) + _timed_out(situation)
    return answers


def _cancelled(situation: Situation) -> Counter[str]:
    handles = [situation.submit() for _ in range(TOGETHER)]
    assert situation.held(TOGETHER), situation.name
    assert all(handle.cancel() for handle in handles)
    errors = [handle.exception(WAIT) for handle in handles]
    answers = [type(error) for error in errors]
    assert set(answers) == {us.RunCancelled}, (situation.name, errors)
    hanging = TOGETHER * situation.hangs
    eventually(lambda: situation.system.hung == hanging, f"{hanging} hang: {situation.name}")
    _let_go(situation)
    _forget(situation, errors)
    return Counter([answer.__name__ for answer in answers])


def _timed_out(situation: Situation) -> Counter[str]:
    handles = [situation.submit(TIMEOUT) for _ in range(TOGETHER)]
    errors = [handle.exception(WAIT) for handle in handles]
    answers = [type(error) for error in errors]
    # Who was told to come back later than it may come does not wait for its deadline, if it was told in time.
    expected = {us.RunTimedOut, us.ProviderError} if isinstance(situation, BackingOff) else {us.RunTimedOut}
    assert set(answers) <= expected, (situation.name, errors)
    situation.held(TOGETHER, within=0.0)  # whoever was held is so no longer
    _let_go(situation)
    _forget(situation, errors)
    return Counter([answer.__name__ for answer in answers])


def _forget(situation: Situation, errors: list[BaseException | None]) -> None:
    """Forget the runs that the tokens of these errors keep: a system keeps a thousand, so they are no leak."""
    tokens = runs_of(situation.system)._tokens  # pyright: ignore[reportPrivateUsage]  # no user forgets a token
    for error in errors:
        assert isinstance(error, us.RunError | us.ProviderError)
        tokens.revoke(error.token)


def _let_go(situation: Situation) -> None:
    def nobody_hangs() -> bool:
        situation.release()  # again and again, for a call may have been on its way to what holds it
        return situation.system.hung == 0

    eventually(nobody_hangs, f"none hangs any more: {situation.name}")
