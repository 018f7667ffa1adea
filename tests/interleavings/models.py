"""The models: short programs over the runtime's own classes, each with what must hold however its threads are interleaved.

They know nothing of the scheduler: `threading` and `time` are looked up when they are called, here as in the runtime.
What they do themselves is one step; threads are switched in the code they call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from functools import partial, wraps
from typing import cast

import pytest

import understudy as us
from tests.support import journal_lines
from tests.support.promises import promises
from understudy.actors.cells.cell import Cell
from understudy.actors.cells.mailbox import Fate, MailboxQueue, Put
from understudy.actors.journal.run_journal import JournalPart, RunJournal
from understudy.actors.run_view.event_reader import events_of
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.watchdog import take_step_away
from understudy.actors.stores.runs import Claim, NewRun, RunRow, RunTable
from understudy.actors.system.actor_system import runs_of
from understudy.actors.threads import alarms
from understudy.actors.threads import pool as pool_module
from understudy.actors.threads.pool import IDLE_SECONDS, ThreadPool, forget_threads
from understudy.actors.threads.promise import Promise
from understudy.actors.waiting.base_future import DerivedFuture
from understudy.actors.waiting.merged_future import MergedFuture
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.definitions.port import RunOptions
from understudy.orchestration.journal.put_together import put_together
from understudy.orchestration.journal.rows import LINE
from understudy.orchestration.supervision.call_time import GRACE
from understudy.testing import FunctionModel, ScriptedModel, calls, says

ACCEPTED = (Put.WAKE, Put.QUEUED)
LONG = 3600.0  # Seconds; time passes only when nobody can go on, so what waits that long has nothing left to wait for.


def together(*programs: Callable[[], object]) -> None:
    """Run them at the same time; returns when all have returned."""
    threads = [threading.Thread(target=program) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def come_to_rest() -> None:
    """Return when nothing can go on any more, with the pool's threads idle for so long that they have ended."""
    threading.Event().wait(LONG)


def with_alarms(model: Callable[[], None]) -> Callable[[], None]:
    """Return the model with alarms of its own, which look at the clock that is there when it runs."""

    @wraps(model)
    def program() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(alarms, "_clockwork", alarms.AlarmClock(lambda: time.monotonic()))
            model()

    return program


# --- close against put


def put_against_drain() -> None:
    """Each item that a mailbox accepts is taken or drained, once; after the drain it accepts none."""
    lanes, accepted, out = MailboxQueue[int](), list[int](), list[int]()

    def put(item: int, system: bool) -> None:
        if lanes.put(item, system=system) in ACCEPTED:
            accepted.append(item)

    def take() -> None:
        while (item := lanes.take()) is not None:
            out.append(item)

    together(lambda: put(1, False), lambda: put(2, True), take, lambda: out.extend(lanes.drain(close=True)))

    assert sorted(out) == sorted(accepted)
    assert len(lanes) == 0
    assert lanes.put(3) is Put.CLOSED


def put_against_close() -> None:
    """What an orderly close finds is taken before its own message, which is the last one."""
    lanes, accepted, out = MailboxQueue[int](), list[int](), list[int]()

    def put(item: int) -> None:
        if lanes.put(item) in ACCEPTED:
            accepted.append(item)

    together(lambda: put(1), lambda: put(2), lambda: lanes.close(99), lambda: lanes.close(98))
    while (item := lanes.take()) is not None:
        out.append(item)

    assert sorted(out[:-1]) == sorted(accepted)
    assert out[-1] in (98, 99)


def wait_for_room_against_take() -> None:
    """Who waits for room gets it, or hears of the close; nobody is forgotten."""
    lanes, accepted, out = MailboxQueue[int](1), list[int](), list[int]()
    lanes.put(0)

    def put(item: int) -> None:
        put = lanes.put_waiting(item, LONG)
        assert put is not Put.FULL
        if put in ACCEPTED:
            accepted.append(item)

    def take() -> None:
        while (item := lanes.take()) is not None:
            out.append(item)

    def take_and_close() -> None:
        take()
        out.extend(lanes.drain(close=True))

    together(lambda: put(1), lambda: put(2), take_and_close)

    assert sorted(out) == [0, *sorted(accepted)]
    assert time.monotonic() < LONG, "somebody was woken by the clock alone"


class Echo:
    """Replies with the message."""

    def __init__(self) -> None:
        self.handled = list[object]()

    def on_receive(self, message: object) -> object:
        self.handled.append(message)
        return message


def ask_against_stop() -> None:
    """Whatever is sent to a cell that is stopped meanwhile ends in one fate, and whoever asked hears of it."""
    forget_threads()
    echo = Echo()
    cell, replies = Cell("shop/echo", Echo, echo), list[Promise[object]]()

    together(lambda: replies.append(cell.ask(1)), lambda: replies.append(cell.ask(2)), lambda: cell.tell(3), cell.stop)
    come_to_rest()

    assert all(reply.done for reply in replies)
    assert cell.counts[Fate.HANDLED] == len(echo.handled)
    assert cell.counts[Fate.HANDLED] + cell.counts[Fate.DEAD] == 3
    assert cell.depth == 0


class Clerk(us.Actor[int]):
    """Replies with the message."""

    def on_receive(self, message: int) -> object:
        return message


def ask_against_orderly_stop() -> None:
    """An actor that is stopped answers each ask, with a reply or with its end."""
    forget_threads()
    clerk, replies = us.ActorSystem("shop").spawn(Clerk), list[us.Future[object]]()
    # As if the alarm of late asks were set: its thread would wait for real.
    clerk._cell.look_at = 0.0  # pyright: ignore[reportPrivateUsage]

    together(
        lambda: replies.append(clerk.ask_future(1, timeout=LONG)),
        lambda: replies.append(clerk.ask_future(2, timeout=LONG)),
        lambda: clerk.stop(block=False),
    )
    come_to_rest()

    for reply in replies:
        assert reply.done()
        assert reply.exception() is None or isinstance(reply.exception(), us.AgentDown)
    clerk.stop(timeout=0)
    assert not clerk.is_alive()


def watch_against_stop() -> None:
    """Whoever watches an actor that stops meanwhile is told once."""
    forget_threads()
    clerk, downs = us.ActorSystem("shop").spawn(Clerk), list[us.Down]()

    together(clerk.stop, lambda: clerk.on_down("me", downs.append))
    come_to_rest()

    assert [down.actor for down in downs] == ["shop/clerk-1"]


# --- quarantine against reply


@with_alarms
def result_against_takeover() -> None:
    """Of a tool's result and the watchdog's verdict that it hangs, the run takes exactly one; the other is refused."""
    forget_threads()
    overdue = threading.Event()

    @us.tool(timeout=0.5)
    def slow() -> str:
        threading.Event().wait(1.0)
        overdue.set()
        return "in time"

    model = ScriptedModel([calls("slow"), says("done")])
    system = us.ActorSystem("shop")
    record = runs_of(system).prepare(us.Agent("clerk", model=model, tools=[slow]), "go", RunOptions())
    assert isinstance(record, AgentRunRecord)
    completed = list[None]()
    record.promise.when_done(lambda: completed.append(None))

    def look() -> None:
        overdue.wait()
        look_after_step(record)

    together(lambda: runs_of(system).launch(record), look)
    come_to_rest()

    outcome = record.promise.get()
    assert isinstance(outcome, us.Complete)
    results = [result.content for message in outcome.messages for result in message.tool_results]
    told = [event.result.content for event in events_of(record.log, inner=False) if isinstance(event, us.ToolFinished)]
    assert len(results) == 1
    assert told == results
    assert len(model.requests) == 2
    assert completed == [None]
    assert (record.epoch, system.hung, system.in_flight) == (1 if results == ["in time"] else 2, 0, 0)


def look_after_step(record: AgentRunRecord) -> None:
    """Do what the watchdog does about a step whose grace is over, too."""
    order = record.step_order
    if order is not None:  # else the tool's result is taken already
        take_step_away(record, order, again=False)


# --- cancel against finish


@with_alarms
def cancel_against_finish() -> None:
    """A run that is cancelled while it comes to its end has one ending, told once, pays once, and is off the books."""
    forget_threads()
    system, asked, ended = us.ActorSystem("shop"), threading.Event(), list[bool]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        asked.set()
        return says("done")

    record = runs_of(system).prepare(us.Agent("clerk", model=FunctionModel(answer)), "go", RunOptions())
    completed = list[None]()
    record.promise.when_done(lambda: completed.append(None))
    runs_of(system).launch(record)

    def cancel() -> None:
        asked.wait()
        ended.append(record.host.endings.cancel(record))

    together(cancel, cancel)
    come_to_rest()

    assert completed == [None]
    assert ended.count(True) == (record.phase == "cancelled")
    assert isinstance(record.promise.error(), us.RunCancelled) == (record.phase == "cancelled")
    assert isinstance(list(events_of(record.log, inner=False))[-1], us.RunFailed) == (record.phase == "cancelled")
    assert record.account.spending.all_turns == 1
    assert (system.in_flight, system.hung) == (0, 0)


@with_alarms
def cancel_against_begin() -> None:
    """A run begun inside one that is cancelled meanwhile ends too, and none stays on the books."""
    forget_threads()
    system, begun = us.ActorSystem("shop"), list[us.RunHandle]()
    inner = us.Agent("inner", model=ScriptedModel([says("inside")]))

    def ask(request: us.ModelRequest) -> us.ModelTurn:
        begun.append(inner.submit("go"))
        return says("done")

    outer = us.Agent("outer", model=FunctionModel(ask)).submit("go", system=system)

    together(outer.cancel, lambda: system.stop(LONG))
    come_to_rest()

    assert outer.done()
    assert all(handle.done() for handle in begun)
    assert (system.in_flight, system.hung) == (0, 0)


@with_alarms
def result_against_alarm() -> None:
    """Of a tool's result and the alarm that gives its call up, the run takes exactly one, and a call beside it has its own end."""
    forget_threads()

    @us.tool(timeout=0.5)
    def slow() -> str:
        threading.Event().wait(0.5 + GRACE)
        return "in time"

    @us.tool(timeout=0.5)
    def slower() -> str:
        threading.Event().wait(2.0)
        return "late"

    model = ScriptedModel([calls("slow") + calls("slower"), says("done")])
    system, completed = us.ActorSystem("shop"), list[None]()
    record = runs_of(system).prepare(us.Agent("clerk", model=model, tools=[slow, slower]), "go", RunOptions())
    record.promise.when_done(lambda: completed.append(None))
    runs_of(system).launch(record)
    come_to_rest()

    outcome = record.promise.get()
    assert isinstance(outcome, us.Complete)
    results = [result for message in outcome.messages for result in message.tool_results]
    told = [event.result for event in events_of(record.log, inner=False) if isinstance(event, us.ToolFinished)]
    assert [result.error_kind for result in results] in (["", "timed_out"], ["timed_out", "timed_out"])
    assert sorted(result.content for result in told) == sorted(result.content for result in results)
    assert len(model.requests) == 2
    assert completed == [None]
    assert (system.hung, system.in_flight) == (0, 0)


# --- result against journal, and against the end


class JournalTable:
    """The rows of one run, in memory: each transaction is one step, and two of them never overlap."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], str] = {}
        self.versions = list[dict[tuple[str, str], str]]()
        """The rows as each transaction has left them."""
        self._lock = threading.Lock()
        self._is_over = False

    def accept(self, run: NewRun, accepted: str, **_: object) -> Claim:
        return Claim(1, 1)

    def commit(self, claim: Claim, rows: Sequence[RunRow], drop: Sequence[str]) -> bool:
        with self._lock:
            if not self._is_over:
                self.rows |= {(row.kind, row.name): row.body for row in rows}
                self.versions.append(dict(self.rows))
            return not self._is_over

    def end(self, claim: Claim, ending: str, **_: object) -> bool:
        with self._lock:
            self._is_over = True
            return True

    def results(self) -> dict[str, str]:
        """Return the results in the line, by call; each stands there once."""
        came = [
            each.result
            for each in journal_lines.results_in(body for (kind, _), body in self.rows.items() if kind == LINE)
        ]
        found = contents(came)
        assert len(found) == len(came), "a result is written twice"
        return found


def journaled(system: us.ActorSystem, table: JournalTable, agent: us.Agent[str]) -> AgentRunRecord:
    """Return a run that has not begun, and has its journal in `table`."""
    record = runs_of(system).prepare(agent, "go", RunOptions())
    assert isinstance(record, AgentRunRecord)
    journal = RunJournal(cast("RunTable", table), record.run_id)
    journal.accept(NewRun(record.run_id, "shop", "clerk", "here", None, None), "")
    record.journal = JournalPart(journal, record.account)
    return record


@with_alarms
def results_against_journal() -> None:
    """Calls that end together are written once, each with what it changed, and before the model hears of them."""
    forget_threads()
    table, system, asked_with = JournalTable(), us.ActorSystem("shop"), list[int]()

    @us.tool
    def count(number: int, context: us.ToolContext[None]) -> str:
        context.session[str(number)] = number
        return str(number)

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        asked_with.append(len(table.versions))
        return says("done") if request.turn > 1 else calls("count", number=1) + calls("count", number=2)

    agent = us.Agent("clerk", model=FunctionModel(answer), tools=[count])
    record = journaled(system, table, agent)
    runs_of(system).launch(record)
    come_to_rest()

    outcome = record.promise.get()
    assert isinstance(outcome, us.Complete)
    assert sorted(told_by(record).values()) == list(results_in(outcome.messages).values()) == ["1", "2"]
    for version, rows in enumerate(table.versions, 1):
        saved = put_together(agent, "", {"": rows})
        assert saved is not None
        state = AgentRun.from_json(saved.machine, agent.run_spec).state
        results = results_in(state.messages) if state.round is None else contents(state.round.results.values())
        assert saved.session == {content: int(content) for content in results.values()}
        assert len(results) == 2 or version < asked_with[1]
    assert table.results() == told_by(record)


@with_alarms
def results_against_cancel() -> None:
    """A run that is cancelled while its calls end keeps each result that was told or written, and no call is made again."""
    forget_threads()
    table, system, begun = JournalTable(), us.ActorSystem("shop"), threading.Event()

    @us.tool
    def count(number: int) -> str:
        begun.set()
        return str(number)

    turns = [calls("count", number=1), calls("count", number=2) + calls("count", number=3), says("done")]
    record = journaled(system, table, us.Agent("clerk", model=ScriptedModel(turns), tools=[count]))
    at_end = list[dict[str, str]]()
    record.promise.when_done(lambda: at_end.append(kept_by(record)))

    def cancel() -> None:
        begun.wait()
        record.host.endings.cancel(record)

    together(partial(runs_of(system).launch, record), cancel)
    come_to_rest()

    kept = kept_by(record)
    assert at_end == [kept]
    events = list(events_of(record.log, inner=False))
    assert {event.call.id for event in events if isinstance(event, us.ToolStarted)} <= kept.keys()
    assert told_by(record).items() <= kept.items()
    assert table.results().items() <= kept.items()
    assert (system.hung, system.in_flight) == (0, 0)


def results_in(messages: Iterable[us.Message]) -> dict[str, str]:
    """Return the content of each result in messages, by call."""
    return contents([result for message in messages for result in message.tool_results])


def kept_by(record: AgentRunRecord) -> dict[str, str]:
    """Return the results that the machine of a run has."""
    assert record.machine is not None
    state = record.machine.state
    return results_in(state.messages) | contents(() if state.round is None else state.round.results.values())


def told_by(record: AgentRunRecord) -> dict[str, str]:
    """Return the results that events tell; each is told once."""
    told = [event.result for event in events_of(record.log, inner=False) if isinstance(event, us.ToolFinished)]
    found = contents(told)
    assert len(found) == len(told)
    return found


def contents(results: Iterable[us.ToolResult]) -> dict[str, str]:
    """Return the content of each result, by call."""
    return {result.call_id: result.content for result in results}


# --- claim against grow


class Errand:
    """Something for a thread of the pool to do; counts how often that happens."""

    def __init__(self) -> None:
        self.runs = 0

    def run_turns(self) -> None:
        self.runs += 1

    def refused(self, cause: RuntimeError) -> None:
        raise AssertionError(cause)


def claim_against_grow() -> None:
    """Of two that need a thread, one gets the parked one and the other a new one; nothing is lost, nothing is run twice."""
    pool, errands = ThreadPool(), [Errand() for _ in range(3)]
    pool.submit(errands[0])
    threading.Event().wait(IDLE_SECONDS / 2)
    assert pool.idle == 1

    together(lambda: pool.submit(errands[1]), lambda: pool.submit(errands[2]))
    come_to_rest()

    assert [errand.runs for errand in errands] == [1, 1, 1]
    assert pool.idle == 0


def claim_against_retire() -> None:
    """A parked thread that ends for want of work, and is lent in that moment, does not take the work with it."""
    pool, errands = ThreadPool(), [Errand() for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "IDLE_SECONDS", 0.0)  # whoever parks looks once, and goes

        together(*[partial(pool.submit, errand) for errand in errands])
        come_to_rest()

    assert [errand.runs for errand in errands] == [1, 1, 1]
    assert pool.idle == 0


class Meets(Errand):
    """An errand that goes on when another one has begun, as nested work does."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.other = self

    def run_turns(self) -> None:
        self.begun.set()
        if self.other.begun.wait(IDLE_SECONDS / 4):
            super().run_turns()


def arriving_in_line() -> None:
    """Where one thread arrives at a time, all that is lent comes to run at once: who arrives brings who is in line."""
    pool, errands, one, other = ThreadPool(arriving=1), [Errand() for _ in range(2)], Meets(), Meets()
    one.other, other.other = other, one
    together(*[partial(pool.submit, errand) for errand in errands])
    threading.Event().wait(IDLE_SECONDS / 2)

    together(*[partial(pool.submit, errand) for errand in (one, other)])
    come_to_rest()

    assert [errand.runs for errand in (*errands, one, other)] == [1, 1, 1, 1]
    assert pool.idle == 0


# --- first and collect


def first_against_cancel() -> None:
    """`first` has one ending: the one whose value it has won, all others are cancelled, and each callback hears once."""
    two, heard, cancelled = promises(2), list[object](), list[bool]()
    merged = us.first(two)
    merged.add_done_callback(lambda whole: heard.append(_ending(whole)))

    together(
        lambda: two[0].set(0),
        lambda: two[1].set(1),
        lambda: cancelled.append(merged.cancel()),
        lambda: merged.add_done_callback(lambda whole: heard.append(_ending(whole))),
    )

    ending = _ending(merged)
    assert heard == [ending, ending]
    assert cancelled == [merged.cancelled()] == [ending == "cancelled"]
    if not merged.cancelled():
        assert two[merged.result()].result() == ending
    assert all(promise.done() for promise in two)


def first_frees_its_losers() -> None:
    """Who has the winner's value finds no loser that could still win."""
    three = promises(3)
    merged = us.first(three)

    def rely_on_it() -> None:
        assert three[merged.result()].result() == merged.result()
        assert all(promise.done() for promise in three)

    together(lambda: three[1].set(1), lambda: three[2].set(2), rely_on_it)

    assert three[0].cancelled()


def collect_misses_nobody() -> None:
    """`collect` has all values once the last one is there, whoever comes last, also while it is made."""
    three, merged = promises(3), list[us.Future[list[int]]]()

    together(lambda: merged.append(us.collect(three)), *[partial(promise.set, n) for n, promise in enumerate(three)])

    assert merged[0].done()
    assert merged[0].result() == [0, 1, 2]


def collect_against_lapse() -> None:
    """`collect` ends with the one error or the time's end, which is decided once, and what is left is cancelled."""
    two, heard = promises(2), list[object]()
    merged = us.collect(two)
    merged.add_done_callback(lambda whole: heard.append(_ending(whole)))

    together(
        lambda: two[0].set(0),
        lambda: two[1].fail(ValueError("no")),
        lambda: lapse(merged),
        lambda: heard.append(_ending(merged)),
    )

    ending = _ending(merged)
    assert heard == [ending, ending]
    assert ending in ("no", "late")
    assert all(promise.done() for promise in two)


def join_misses_nobody() -> None:
    """A future derived from several calls its function once, when the last one is there, and each callback hears of it."""
    forget_threads()
    two, calls_made, heard = promises(2), list[object](), list[object]()

    def note(values: list[int]) -> list[int]:
        calls_made.append(values)
        return values

    derived = DerivedFuture(two, note)
    derived.add_done_callback(lambda each: heard.append(_ending(each)))

    together(lambda: two[0].set(0), lambda: two[1].set(1))
    come_to_rest()

    assert calls_made == heard == [[0, 1]]


def lapse(merged: us.Future[list[int]]) -> None:
    """Do what the clock does when the time is over."""
    cast("MergedFuture[int, list[int]]", merged).lapse(1.0)


def _ending(future: us.Future[object]) -> object:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, CancelledError):
        return "cancelled"
    return "late" if isinstance(error, TimeoutError) else str(error)


def answer_against_wait() -> None:
    """A reply has the first answer given; who waits for it wakes, and each callback is called once."""
    reply, heard, given = Promise[int](), list[int](), list[bool]()

    together(
        lambda: given.append(reply.set(1)),
        lambda: given.append(reply.fail(ValueError())),
        lambda: reply.when_done(lambda: heard.append(1)),
        lambda: heard.append(reply.wait()),
    )

    assert sorted(given) == [False, True]
    assert heard == [1, 1]


MODELS: tuple[Callable[[], None], ...] = (
    put_against_drain,
    put_against_close,
    wait_for_room_against_take,
    ask_against_stop,
    ask_against_orderly_stop,
    watch_against_stop,
    result_against_takeover,
    cancel_against_finish,
    cancel_against_begin,
    result_against_alarm,
    results_against_journal,
    results_against_cancel,
    claim_against_grow,
    claim_against_retire,
    arriving_in_line,
    first_against_cancel,
    first_frees_its_losers,
    collect_misses_nobody,
    collect_against_lapse,
    join_misses_nobody,
    answer_against_wait,
)
