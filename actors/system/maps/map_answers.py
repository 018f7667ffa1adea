"""The runs of a `map`: begins them as its machine says, waits for them, and hands their answers out."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, assert_never, cast, overload

from understudy.actors.system.actor_system import runs_of
from understudy.actors.threads.promise import taken
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.actors.waiting.children import FirstChild
from understudy.errors import StoreError
from understudy.orchestration import Agent
from understudy.orchestration.definitions.agent import account_of
from understudy.orchestration.definitions.port import RunOptions
from understudy.orchestration.definitions.runner import below
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.group.map_run import (
    Answered,
    AwaitAnswers,
    HandOut,
    MapDone,
    MapFailed,
    MapRun,
    TakeInput,
)
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.ancestry import circular, current_ancestry
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.context.scope import Scope, current_scope, enter_scope, leave_scope
from understudy.vocabulary.context.session import SessionState
from understudy.vocabulary.context.session_values import SessionValues
from understudy.vocabulary.runs.outcomes import MapAnswer, MapFailure

if TYPE_CHECKING:
    from understudy.actors.runs.record import RunRecord
    from understudy.actors.system.actor_system import ActorSystem
    from understudy.orchestration.definitions.port import MapOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.messages import JsonValue

DROPPED = 0.1  # Seconds a thread that drops the generator waits until its runs are cancelled; it takes far less.

Prepare = Callable[[object, RunOptions], "RunRecord"]
"""Makes the record of the run of one input; raises what is wrong with it."""


class Answers(Generator[Answered, None, None]):
    """What `map` returns. One thread at a time iterates, and any may close it.

    It is no generator function, because the garbage collection closes a generator on any thread, and that thread may
    hold a lock that the end of a run needs.

    Args:
        system: where the runs are.
        runner: whose runs they are.
        inputs: taken on the thread that iterates.
        options: what the caller said.
        prepare: makes the record of a run.

    Raises:
        ValueError: there is a limit of dollars, and a model has no price.
    """

    def __init__(
        self,
        system: ActorSystem,
        runner: Runner[object],
        inputs: Iterator[object],
        options: MapOptions,
        prepare: Prepare,
    ) -> None:
        self._under_way: dict[int, RunRecord] = {}
        """Index -> its run, from before it begins until its end is heard of."""
        self._closed = False
        self._system = system
        self._runner = runner
        self._inputs = inputs
        self._prepare = prepare
        self._each = RunOptions(
            session=_copied(options.session),
            user_id=options.user_id,
            deps=options.deps,
            timeout=options.timeout,
            of_map=options.name is not None,
        )
        self._machine = MapRun(
            max_parallel=options.max_parallel, ordered=options.ordered, keep_errors=options.keep_errors
        )
        self._news: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        """Indexes of the runs that ended, put by the threads that ended them; None when the map is closed."""
        self._iterating = threading.Lock()
        self._callers = current_ancestry()
        self._scope = Scope(None, time.monotonic, current_scope())
        self._account: Account | None = None
        if options.budget is not None:
            spending = Spending(budget=options.budget)
            self._account = self._scope.account = Account(f"{runner.id} (map)", None, spending, self._scope.account)
            for each in (runner, *below([runner])):
                if isinstance(each, Agent):
                    account_of(each, None, None, self._account)  # finds a price that is missing
        self._waits = FirstChild(self._callers[-1], self._scope) if self._callers else None

    # --- the generator

    def __next__(self) -> Answered:
        return self.send(None)

    def send(self, value: None, /) -> Answered:
        """Return the next answer; blocks until there is one."""
        if not self._iterating.acquire(blocking=False):
            raise ValueError(
                f"this map of {self._runner.id!r} is being iterated over by another thread, or by its own inputs"
            )
        try:
            return self._next()
        except BaseException as error:
            self._end(error)
            raise
        finally:
            self._iterating.release()

    @overload
    def throw(self, typ: type[BaseException], val: object = None, tb: TracebackType | None = None, /) -> Answered: ...
    @overload
    def throw(self, typ: BaseException, val: None = None, tb: TracebackType | None = None, /) -> Answered: ...
    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: object = None,
        tb: TracebackType | None = None,
        /,
    ) -> Answered:
        """Close, and raise what is given."""
        self.close()
        if isinstance(typ, BaseException):
            raise typ
        raise val if isinstance(val, BaseException) else typ()

    def close(self) -> None:
        """Cancel the runs that are under way, and begin no more. A thread that waits for an answer gets none."""
        self._end()

    def _end(self, why: BaseException | None = None) -> None:
        self._closed = True
        self._cancel_all(why)
        if self._account is not None:
            self._account.stop()
        self._news.put(None)
        self._give_back()

    def __del__(self) -> None:
        # Mostly a loop was left early. But this may also be a garbage collection, on a thread that holds any lock.
        if self._under_way or self._has_to_give_back:
            cancelled = threading.Event()
            run_elsewhere(partial(self._drop, list(self._under_way.values()), cancelled))
            cancelled.wait(DROPPED)

    def _drop(self, records: Iterable[RunRecord], cancelled: threading.Event) -> None:
        self._cancel(records)
        self._give_back()
        cancelled.set()

    # --- for a map with a name

    @property
    def _has_to_give_back(self) -> bool:
        """Whether this call has taken the map."""
        return False

    def _open(self) -> None:
        """Take the map, if there is one to take."""

    def _give_back(self) -> None:
        """Give the map back."""

    def _look_away(self) -> None:
        """Look what became of runs that others drive."""

    def _news_in_time(self) -> int | None:
        """Wait for the next run that ends; raises `queue.Empty` if it is time to look elsewhere."""
        return taken(self._news)

    # --- one answer

    def _next(self) -> Answered:
        if not self._closed:
            self._open()
        while not self._closed:
            self._hear_all()
            self._look_away()
            match self._machine.next_step():
                case TakeInput():
                    self._take()
                case HandOut(answer=answer):
                    self._machine.handed_out()
                    return answer
                case AwaitAnswers():
                    self._wait()
                case MapFailed(failure=failure):
                    with contextlib.suppress(Exception):  # an error of a user's may take no notes
                        failure.error.add_note(f"input {failure.index} of the map, counted from 0")
                    raise failure.error
                case MapDone():
                    break
                case never:
                    assert_never(never)
        raise StopIteration

    def _take(self) -> None:
        try:
            given = next(self._inputs)
        except StopIteration:
            self._machine.no_more_inputs()
            return
        index = self._machine.took()
        if self._account is not None:
            self._account.start(time.monotonic)
        with self._as_part_of_it():
            self._begin(index, given)

    @contextlib.contextmanager
    def _as_part_of_it(self) -> Generator[None]:
        entered = enter_scope(self._scope)
        try:
            yield
        finally:
            leave_scope(entered)

    def _begin(self, index: int, given: object) -> None:
        try:
            record = self._prepared(given)
        except Exception as error:  # of this input alone, as far as anybody knows
            self._machine.answered(MapFailure(index, error))
            return
        record.ancestry = (*self._callers, record.link)
        record.promise.when_done(partial(self._news.put, index))
        if self._waits is not None:
            self._waits.join(record.link)
        self._under_way[index] = record
        if not self._closed:
            record.host.launch(record)
        if self._closed:  # by another thread, which may have come before this run
            self._cancel_all()

    def _prepared(self, given: object) -> RunRecord:
        parameters = _as_parameters(given) if isinstance(self._runner, Workflow) else None
        return self._prepare(given if parameters is None else "", self._options(parameters))

    def _options(self, parameters: Mapping[str, JsonValue] | None) -> RunOptions:
        each = self._each
        return RunOptions(
            session=each.session,
            user_id=each.user_id,
            deps=each.deps,
            timeout=each.timeout,
            parameters=parameters,
            of_map=each.of_map,
        )

    # --- what came of the runs

    def _wait(self) -> None:
        """Wait for news, as part of the run that this is called in, if it is."""
        way = () if self._waits is None else self._waits.settle()
        if way:
            error = circular(*[link.runner.id for link in way])
            runs_of(self._system).tell_refused(self._runner, error)
            raise error
        try:
            with contextlib.suppress(queue.Empty):
                self._hear(self._news_in_time())
        finally:
            if self._waits is not None:
                self._waits.look()

    def _hear_all(self) -> None:
        while not self._news.empty():
            self._hear(self._news.get())

    def _hear(self, index: int | None) -> None:
        record = None if index is None else self._under_way.pop(index, None)
        if record is None or index is None:
            return
        if self._waits is not None:
            self._waits.leave(record.link)
        error = record.promise.error()
        self._machine.answered(MapAnswer(index, record.promise.get()) if error is None else MapFailure(index, error))
        if self._machine.failure is not None:
            self._cancel_all(self._machine.failure.error)

    def _cancel_all(self, why: BaseException | None = None) -> None:
        """Cancel the runs that are under way; if the map ends because its store failed, those that the store has go on."""
        records: list[RunRecord] = []
        while self._under_way:
            with contextlib.suppress(KeyError):  # another thread cancels too, or has heard of the end
                records.append(self._under_way.popitem()[1])
        # An input that failed with a value that no store takes says nothing about the others.
        has_store_failed = isinstance(why, StoreError) and (self._machine.failure is None or bool(why.run_id))
        self._cancel([each for each in records if each.journal is None] if has_store_failed else records)

    def _cancel(self, records: Iterable[RunRecord]) -> None:
        if self._waits is None and runs_of(self._system).is_stopping:
            return  # maybe the map is over only because of that; the system lets its runs end, or leaves them
        for record in records:
            if self._waits is not None:
                self._waits.leave(record.link)
            # The runs of a map with a name are kept, so that they go on when it is called again.
            kept = record.options.of_map
            record.host.endings.cancel(record, "the map that it was a part of is over", kept=kept)


def _as_parameters(given: object) -> Mapping[str, JsonValue] | None:
    return cast("Mapping[str, JsonValue]", given) if isinstance(given, Mapping) else None


def _copied(session: Mapping[str, JsonValue] | None) -> Mapping[str, JsonValue] | None:
    """Return what all runs begin with, which none of them updates."""
    if session is None:
        return None
    return SessionValues(session.snapshot() if isinstance(session, SessionState) else session)
