"""Several futures made into one: `collect` and `first`."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import Future as StandardFuture
from contextlib import contextmanager
from functools import partial
from typing import assert_type, cast

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.promises import FakeFuture, broken, kept, promises
from tests.support.scripts import WAIT, eventually, finished, scripted
from tests.support.together import all_at_once
from understudy.actors.threads import alarms
from understudy.testing import FunctionModel, calls, says

Merge = Callable[[Iterable[us.Future[int]]], us.Future[object]]


def collect(futures: Iterable[us.Future[int]]) -> us.Future[object]:
    return us.collect(futures)


def first(futures: Iterable[us.Future[int]]) -> us.Future[object]:
    return us.first(futures)


both = pytest.mark.parametrize("merge", [collect, first])


class Hanging(Gate):
    """An agent whose model says nothing until the test is over."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = us.Agent("sleeper", model=FunctionModel(self.then(says("late"))))


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.open()


@contextmanager
def no_garbage_collection() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def causes_of(error: BaseException | None) -> tuple[BaseException, ...]:
    """Return what a group of exceptions holds."""
    assert isinstance(error, BaseExceptionGroup)
    return cast("BaseExceptionGroup[BaseException]", error).exceptions


# --- collect


def test_values_stand_in_the_order_of_the_futures_whatever_the_order_they_come_in() -> None:
    parts = promises(4)
    whole = us.collect(parts)

    for place in (2, 0, 3, 1):
        assert whole.running()
        parts[place].set(place * 10)

    assert whole.result(WAIT) == [0, 10, 20, 30]
    assert whole.done() and not whole.running() and not whole.cancelled()
    assert whole.exception() is None


def test_the_types_of_the_values_are_known() -> None:
    numbers, texts, standard = promises(1), [kept("a")], StandardFuture[int]()
    numbers[0].set(1)
    standard.set_result(2)
    handle = scripted(says("ok")).submit("hi")

    assert_type(us.collect(numbers), us.Future[list[int]])
    assert_type(us.collect(numbers, keep_errors=True), us.Future[list[int | BaseException]])
    assert_type(us.collect([standard]), us.Future[list[int]])
    assert_type(us.collect([handle]), us.Future[list[us.Outcome[str]]])
    assert_type(us.first(numbers), us.Future[int])
    assert_type(us.first([handle]), us.Future[us.Outcome[str]])
    assert_type(us.collect([us.first(numbers), us.first(numbers)]), us.Future[list[int]])
    mixed: us.Future[list[int | str | us.Outcome[str]]] = us.collect([*numbers, *texts, standard, handle])

    assert mixed.result(WAIT) == [1, "a", 2, handle.result(WAIT)]


def test_any_iterable_can_be_collected_and_nothing_is_at_once() -> None:
    empty: list[FakeFuture[int]] = []

    assert us.collect(empty).result(0) == []
    assert us.collect(empty, timeout=0).result(0) == []
    assert us.collect(empty, keep_errors=True).result(0) == []
    assert us.collect(kept(n) for n in range(3)).result(0) == [0, 1, 2]
    assert us.collect({"a": kept(1), "b": kept(2)}.values()).result(0) == [1, 2]
    assert us.first(kept(n) for n in range(3)).result(0) == 0


def test_the_first_error_is_the_whole_ones_error_and_cancels_the_others() -> None:
    parts, error = promises(3), LookupError("no such line")
    whole = us.collect(parts)

    parts[0].set(1)
    parts[2].fail(error)

    with pytest.raises(LookupError) as caught:
        whole.result(WAIT)
    assert caught.value is error
    assert whole.exception() is error
    assert [part.cancelled() for part in parts] == [False, True, False]
    assert not whole.cancelled()


def test_errors_can_be_kept_in_their_place() -> None:
    parts, error = promises(3), LookupError("no such line")
    whole = us.collect(parts, keep_errors=True)

    parts[1].fail(error)
    assert whole.running()
    parts[2].set(2)
    parts[0].set(0)

    assert whole.result(WAIT) == [0, error, 2]


def test_what_is_not_done_in_time_has_a_timeout_error_in_its_place_where_errors_are_kept() -> None:
    parts = promises(3)
    parts[0].set(0)
    parts[1].fail(LookupError())

    zero, lookup, late = us.collect(parts, keep_errors=True, timeout=0.02).result(WAIT)

    assert zero == 0
    assert isinstance(lookup, LookupError)
    assert isinstance(late, TimeoutError)
    assert str(late) == "2 of 3 futures done after 0.02 s"
    assert parts[2].cancelled()


def test_runs_are_collected_in_order_and_a_pause_is_a_value() -> None:
    pausing = scripted(says("__ask_user__: Which size?"))
    agents = [scripted(says("one")), pausing, scripted(says("three"))]

    outcomes = us.collect([agent.submit("go") for agent in agents]).result(WAIT)

    assert [outcome.status for outcome in outcomes] == ["complete", "needs_input", "complete"]
    assert finished(outcomes[2]).text == "three"


def test_a_run_that_fails_cancels_the_runs_it_was_collected_with(hanging: Hanging) -> None:
    waiting = hanging.agent.submit("go")
    assert hanging.entered.wait(WAIT)
    failing = scripted(us.RateLimited("slow down")).submit("go")

    with pytest.raises(us.RateLimited):
        us.collect([waiting, failing]).result(WAIT)

    assert waiting.cancelled()


# --- first


def test_the_first_value_wins_and_the_others_are_cancelled() -> None:
    parts = promises(3)
    winner = us.first(parts)

    parts[1].set(1)

    assert winner.result(WAIT) == 1
    assert [part.cancelled() for part in parts] == [True, False, True]
    assert not winner.cancelled()


def test_of_those_that_are_done_the_first_in_order_wins() -> None:
    parts = [FakeFuture[int](), broken(ValueError()), kept(2), kept(3)]

    assert us.first(parts).result(0) == 2
    assert parts[0].cancelled()


def test_an_error_does_not_end_the_race() -> None:
    parts = promises(3)
    winner = us.first(parts)

    parts[0].fail(ValueError())
    assert winner.running()
    parts[2].set(2)

    assert winner.result(WAIT) == 2


def test_when_all_fail_all_errors_are_raised_in_order() -> None:
    parts, errors = promises(3), [ValueError("0"), LookupError("1"), CancelledError()]
    winner = us.first(parts)

    parts[2].cancel()
    parts[1].fail(errors[1])
    assert winner.running()
    parts[0].fail(errors[0])

    with pytest.raises(us.SeveralErrors, match="none of 3 futures succeeded") as caught:
        winner.result(WAIT)
    assert caught.value.exceptions[:2] == tuple(errors[:2])
    assert isinstance(caught.value.exceptions[2], CancelledError)


@pytest.mark.parametrize("leaves", [SystemExit(3), KeyboardInterrupt()])
def test_an_exit_in_one_of_all_failed_futures_is_an_error_of_several(leaves: BaseException) -> None:
    wrong = ValueError()

    with pytest.raises(us.SeveralErrors, match="none of 2 futures succeeded") as caught:
        us.first([broken(leaves), broken(wrong)]).result(WAIT)

    assert caught.value.exceptions[1] is wrong
    assert caught.value.exceptions[0].__cause__ is leaves


def test_first_of_nothing_is_a_callers_mistake() -> None:
    empty: list[FakeFuture[int]] = []

    with pytest.raises(ValueError, match="at least one future"):
        us.first(empty)


def test_a_loser_that_waits_in_a_queue_is_never_run() -> None:
    gate, ran = threading.Event(), list[str]()

    def work(name: str) -> str:
        ran.append(name)
        return name

    with ThreadPoolExecutor(1) as executor:
        blocking = executor.submit(gate.wait, WAIT)
        queued = executor.submit(work, "queued")
        entrants: list[us.Future[str] | StandardFuture[str]] = [queued, kept("quick")]

        assert us.first(entrants).result(WAIT) == "quick"
        gate.set()
        assert blocking.result(WAIT)
        executor.submit(work, "after").result(WAIT)

    assert queued.cancelled()
    assert ran == ["after"]


def test_nobody_waits_for_a_loser_that_cannot_be_interrupted() -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        busy = executor.submit(gate.wait, WAIT)
        entrants: list[us.Future[bool] | StandardFuture[bool]] = [busy, kept(True)]

        assert us.first(entrants).result(WAIT)

        assert busy.running() and not busy.cancelled()
        gate.set()


def test_of_several_runs_the_first_to_complete_wins_and_the_others_end_at_once(hanging: Hanging) -> None:
    sleepers = [hanging.agent.submit("go") for _ in range(3)]
    assert hanging.entered.wait(WAIT)

    outcome = us.first([*sleepers, scripted(says("quick")).submit("go")]).result(WAIT)

    assert finished(outcome).text == "quick"
    assert [sleeper.cancelled() for sleeper in sleepers] == [True] * 3
    assert all(isinstance(sleeper.exception(WAIT), us.RunCancelled) for sleeper in sleepers)


def test_a_losing_run_calls_no_tool_any_more() -> None:
    gate, spent = Gate(), list[int]()

    def spend(cents: int) -> None:
        spent.append(cents)

    model = FunctionModel(gate.then(calls("spend", cents=5)))
    with us.ActorSystem("market") as system:
        loser = us.Agent("loser", model=model, tools=[spend]).submit("go", system=system)
        assert gate.entered.wait(WAIT)
        us.first([loser, scripted(says("quick")).submit("go", system=system)]).result(WAIT)
        gate.open()
        eventually(lambda: system.hung == 0, "the loser's model came back")

    assert loser.cancelled()
    assert spent == []


def test_a_paused_run_has_not_won_while_another_one_may() -> None:
    paused = scripted(says("__ask_user__: Which size?")).submit("go")
    assert paused.result(WAIT).status == "needs_input"
    late: FakeFuture[us.Outcome[str]] = FakeFuture()
    winner = us.first([paused, late])

    assert winner.running()
    late.set(scripted(says("done")).run("go"))

    assert finished(winner.result(WAIT)).text == "done"


def test_when_none_succeeded_the_first_pause_in_order_is_the_outcome() -> None:
    def pausing(question: str) -> us.RunHandle[str]:
        return scripted(says(f"__ask_user__: {question}")).submit("go")

    failing = scripted(us.RateLimited("slow down")).submit("go")
    one, two = pausing("one?"), pausing("two?")
    two.result(WAIT)

    outcome = us.first([failing, one, two]).result(WAIT)

    assert isinstance(outcome, us.NeedsInput)
    assert outcome.question == "one?"
    assert outcome.token


@pytest.mark.parametrize("pause", [us.NeedsInput(question="?"), us.NeedsApproval(calls=()), us.Incomplete()])
def test_every_kind_of_pause_is_no_success(pause: us.Outcome) -> None:
    late: FakeFuture[us.Outcome] = FakeFuture()
    winner = us.first([kept(pause), late])

    assert winner.running()
    late.fail(ValueError())
    assert winner.result(WAIT) is pause


# --- both


@both
def test_one_future_may_stand_in_several_places(merge: Merge) -> None:
    promise: FakeFuture[int] = FakeFuture()
    whole = merge([promise, promise])

    promise.set(1)

    assert whole.result(WAIT) in (1, [1, 1])


@both
def test_cancelling_the_whole_cancels_all(merge: Merge) -> None:
    parts = promises(3)
    parts[0].fail(ValueError()) if merge is first else parts[0].set(1)
    whole = merge(parts)

    assert whole.cancel() is True
    assert whole.cancel() is False

    assert whole.cancelled() and whole.done() and not whole.running()
    assert [part.cancelled() for part in parts] == [False, True, True]
    with pytest.raises(CancelledError, match="1 of 3 futures done"):
        whole.result(WAIT)


@both
def test_what_is_done_cannot_be_cancelled(merge: Merge) -> None:
    whole = merge([kept(1)])

    assert whole.cancel() is False
    assert not whole.cancelled()
    assert whole.result(0) in (1, [1])


@both
def test_all_have_one_deadline_together(merge: Merge) -> None:
    # Each comes soon after the one before, and all of them take far longer than the whole has.
    parts, pause = promises(500), threading.Event()
    whole = us.collect(parts, timeout=0.1) if merge is collect else us.first(parts, timeout=0.1)

    def come_one_by_one() -> None:
        for part in parts:
            pause.wait(0.02)
            if whole.done():
                return
            part.set(1) if merge is collect else part.fail(ValueError())

    thread = threading.Thread(target=come_one_by_one)
    thread.start()

    with pytest.raises(TimeoutError, match="of 500 futures done after 0.1 s"):
        whole.result(WAIT)
    thread.join(WAIT)
    assert parts[-1].cancelled()
    assert not whole.cancelled()


def test_the_errors_before_the_deadline_are_the_cause_of_the_timeout() -> None:
    error = ValueError("down")

    late = us.first([FakeFuture[int](), broken(error)], timeout=0.01).exception(WAIT)

    assert isinstance(late, TimeoutError)
    assert causes_of(late.__cause__) == (error,)


@both
def test_a_callback_hears_of_the_deadline_though_nobody_waits(merge: Merge) -> None:
    heard = threading.Event()
    whole = us.collect(promises(2), timeout=0.01) if merge is collect else us.first(promises(2), timeout=0.01)

    whole.add_done_callback(lambda _: heard.set())

    assert heard.wait(WAIT)
    assert isinstance(whole.exception(), TimeoutError)


def test_no_time_at_all_counts_what_is_done() -> None:
    assert us.collect([kept(1), kept(2)], timeout=0).result(0) == [1, 2]
    assert us.first([*promises(2), kept(3)], timeout=0).result(0) == 3
    late = us.collect(promises(2), timeout=0)
    assert late.done()
    assert isinstance(late.exception(0), TimeoutError)


def test_an_endless_timeout_is_none() -> None:
    part: FakeFuture[int] = FakeFuture()
    whole = us.collect([part], timeout=float("inf"))

    part.set(1)

    assert whole.result(0) == [1]


@both
def test_that_a_wait_ends_ends_nothing_else(merge: Merge) -> None:
    parts = promises(3)
    parts[0].fail(ValueError()) if merge is first else parts[0].set(1)
    whole = merge(parts)

    with pytest.raises(TimeoutError, match="1 of 3 futures done after 0.01 s; the others go on"):
        whole.result(0.01)
    with pytest.raises(TimeoutError, match="1 of 3"):
        whole.exception(0)

    assert whole.running()
    assert not any(part.cancelled() for part in parts)


def test_a_whole_without_a_thread_for_its_deadline_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    parts = promises(2)
    with monkeypatch.context() as patch:
        patch.setattr(alarms, "_clockwork", alarms.AlarmClock())
        patch.setattr(threading.Thread, "start", refuse)
        whole = us.collect(parts, timeout=WAIT)

    with pytest.raises(RuntimeError, match="can't start"):
        whole.result(0)
    assert all(part.cancelled() for part in parts)


@both
def test_a_callback_is_called_once_whether_it_comes_early_or_late(merge: Merge) -> None:
    part: FakeFuture[int] = FakeFuture()
    whole, called = merge([part]), list[us.Future[object]]()

    whole.add_done_callback(called.append)
    part.set(1)
    whole.add_done_callback(called.append)

    assert called == [whole, whole]


def test_a_losers_callback_may_wait_for_the_winner_whose_callback_finds_the_losers_cancelled() -> None:
    parts, seen, found = promises(2), list[int](), list[bool]()
    winner = us.first(parts)
    winner.add_done_callback(lambda _: found.append(parts[1].cancelled()))
    parts[1].add_done_callback(lambda _: seen.append(winner.result(WAIT)))

    parts[0].set(7)

    assert (seen, found) == ([7], [True])


@both
def test_a_members_callback_that_fails_breaks_nothing(merge: Merge) -> None:
    part: FakeFuture[int] = FakeFuture()
    part.add_done_callback(lambda _: 1 / 0)
    whole = merge([part])
    part.add_done_callback(lambda _: 1 / 0)

    part.set(1)

    assert whole.result(WAIT) in (1, [1])


def test_a_member_that_cannot_be_cancelled_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(FakeFuture[int]):
        def cancel(self) -> bool:
            raise LookupError("will not")

    parts = [Stubborn(), FakeFuture[int](), kept(3)]

    assert us.first(parts).result(WAIT) == 3
    assert parts[1].cancelled()
    assert [record.name for record in caplog.records] == ["understudy"] * len(caplog.records) != []


def test_a_member_cancelled_from_outside_is_an_error(hanging: Hanging) -> None:
    handle, standard = hanging.agent.submit("go"), StandardFuture[int]()
    whole, other = us.collect([handle]), us.collect([standard])
    members: list[us.Future[object] | StandardFuture[int]] = [handle, standard]
    errors = us.collect(members, keep_errors=True)

    handle.cancel()
    standard.cancel()

    assert isinstance(whole.exception(WAIT), us.RunCancelled)
    assert isinstance(other.exception(WAIT), CancelledError)
    assert [type(error) for error in errors.result(WAIT)] == [us.RunCancelled, CancelledError]
    assert not whole.cancelled() and not other.cancelled()


def test_merged_futures_can_be_merged_and_cancelling_reaches_through_every_level() -> None:
    hares, tortoises, others = promises(2), promises(2), promises(2)
    inner = [us.first(hares), us.first(tortoises)]
    whole, left = us.collect(inner), us.collect([us.first(others)])

    tortoises[1].set(4)
    hares[0].set(1)
    left.cancel()

    assert whole.result(WAIT) == [1, 4]
    assert hares[1].cancelled() and tortoises[0].cancelled()
    assert [other.cancelled() for other in others] == [True, True]


def test_its_repr_says_how_far_it_is() -> None:
    whole = us.collect([kept(1), FakeFuture[int]()])

    assert repr(whole) == "<collect: 1 of 2 futures done>"


@both
@pytest.mark.parametrize("timeout", [-1, -0.1, float("nan")])
def test_a_timeout_below_zero_is_refused_before_anything_happens(merge: Merge, timeout: float) -> None:
    part: FakeFuture[int] = FakeFuture()

    with pytest.raises(ValueError, match="timeout must be 0 seconds or more"):
        us.collect([part], timeout=timeout) if merge is collect else us.first([part], timeout=timeout)
    assert part.running()


@both
def test_what_is_no_future_is_refused(merge: Merge) -> None:
    with pytest.raises(TypeError, match="takes futures, got 3 at place 1"):
        merge([kept(1), 3])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]  # the mistake under test
    with pytest.raises(TypeError, match="takes an iterable of futures"):
        merge(kept(1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake under test


# --- what is kept alive


class Big:
    """Something that is missed when it stays."""


def test_a_merged_future_goes_with_its_values_though_a_member_stays() -> None:
    with no_garbage_collection():
        big = Big()
        gone, staying = weakref.ref(big), StandardFuture[object]()  # which keeps its callbacks for ever
        part: FakeFuture[object] = kept(big)
        futures: list[us.Future[object] | StandardFuture[object]] = [part, staying]
        whole = us.collect(futures, timeout=WAIT)
        staying.set_result(None)
        assert whole.result(0)[0] is big

        del whole, part, futures, big

        assert gone() is None


def test_a_merged_future_that_failed_keeps_no_values_and_the_winner_no_loser() -> None:
    with no_garbage_collection():
        big, loser = Big(), FakeFuture[int]()
        gone: list[weakref.ref[object]] = [weakref.ref(big), weakref.ref(loser)]
        part: FakeFuture[object] = kept(big)
        futures: list[us.Future[object]] = [part, broken(ValueError())]
        whole, winner = us.collect(futures, timeout=WAIT), us.first([kept(1), loser], timeout=WAIT)
        with pytest.raises(ValueError):
            whole.result(0)

        del part, futures, big, loser

        assert [each() for each in gone] == [None, None]
        assert winner.result(0) == 1


def test_an_error_that_was_raised_goes_with_the_merged_future() -> None:
    with no_garbage_collection():
        part: FakeFuture[int] = FakeFuture()
        whole = us.collect([part])
        part.cancel()  # for a promise's own error is the test's
        gone: weakref.ref[BaseException] | None = None
        try:
            whole.result(0)
        except CancelledError as error:
            gone = weakref.ref(error)

        del whole, part

        assert gone is not None and gone() is None


def test_a_deadline_is_forgotten_when_it_is_not_needed_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = alarms.AlarmClock()
    monkeypatch.setattr(alarms, "_clockwork", clock)

    for _ in range(1000):
        part: FakeFuture[int] = FakeFuture()
        whole = us.collect([part], timeout=3600)
        part.set(1)
        assert whole.result(0) == [1]

    assert len(clock) <= alarms.SWEEP_FROM


# --- races


def together(*works: Callable[[], object]) -> None:
    """Do each of these in a thread, begun at the same moment."""
    all_at_once(lambda work: work(), works)


def note(told: list[int], future: us.Future[int]) -> None:
    told.append(future.result(0))


def test_of_many_that_come_at_once_one_wins_and_everybody_sees_the_same() -> None:
    for _ in range(200):
        parts = promises(6)
        winner, told, seen = us.first(parts), list[int](), list[int]()
        winner.add_done_callback(partial(note, told))

        def wait(winner: us.Future[int] = winner, seen: list[int] = seen) -> None:
            seen.append(winner.result(WAIT))

        together(*[partial(part.set, n) for n, part in enumerate(parts)], wait, wait)

        (value,) = told
        assert seen == [value, value]
        assert parts[value].result(0) == value
        assert all(part.cancelled() or part.result(0) == n for n, part in enumerate(parts))


def test_whoever_has_the_winner_finds_every_loser_cancelled() -> None:
    for _ in range(100):
        parts, found = promises(20), list[bool]()
        winner = us.first(parts)

        def wait(
            winner: us.Future[int] = winner, parts: list[FakeFuture[int]] = parts, found: list[bool] = found
        ) -> None:
            winner.result(WAIT)
            found.append(all(part.cancelled() for part in parts[1:]))

        together(partial(parts[0].set, 1), wait, wait)

        assert found == [True, True]


def test_all_values_are_collected_although_they_come_at_once() -> None:
    for _ in range(100):
        parts = promises(8)
        whole = us.collect(parts)

        together(*[partial(part.set, n) for n, part in enumerate(parts)])

        assert whole.result(0) == list(range(8))


def cancel(future: us.Future[object], answers: list[bool]) -> None:
    answers.append(future.cancel())


def test_a_cancellation_that_races_the_last_value_is_one_or_the_other() -> None:
    for _ in range(200):
        part: FakeFuture[int] = FakeFuture()
        whole, answers = us.collect([part]), list[bool]()

        together(
            partial(part.set, 1),
            partial(cancel, whole, answers),
            partial(cancel, whole, answers),
        )

        cancelled = whole.cancelled()
        assert sorted(answers) == ([False, True] if cancelled else [False, False])
        assert isinstance(whole.exception(0), CancelledError) is cancelled


def test_members_that_are_done_while_they_are_merged_are_heard_once() -> None:
    for _ in range(100):
        parts, values = promises(4), list[list[int]]()

        def merge(parts: list[FakeFuture[int]] = parts, values: list[list[int]] = values) -> None:
            values.append(us.collect(parts).result(WAIT))

        def keep(parts: list[FakeFuture[int]] = parts) -> None:
            for n, part in enumerate(parts):
                part.set(n)

        together(merge, keep)

        assert values == [[0, 1, 2, 3]]


def test_two_wholes_of_the_same_members_that_end_at_once_do_not_wait_for_each_other() -> None:
    for _ in range(100):
        parts = promises(4)
        one, two = us.first(parts), us.first(reversed(parts))

        together(partial(parts[0].set, 0), partial(parts[3].set, 3), one.cancel, two.cancel)

        assert one.done() and two.done()
        assert all(part.done() for part in parts)
