"""Tools whose effect in the store's database is committed with their result, or undone: in SQLite and in PostgreSQL."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support.journal_lines import is_early, results_in
from tests.support.scripts import WAIT, contents_of, eventually, finished, results_of
from tests.support.shelf import REFUSED, Shelf, caller, take
from understudy.actors.journal.call_transaction import StoredCallTransaction
from understudy.actors.stores.database import Sql
from understudy.actors.stores.runs import Claim, RunRow, RunTable
from understudy.actors.tools.batch_call import Call
from understudy.orchestration.journal.rows import ARTIFACT, LINE
from understudy.orchestration.runs.events import Changes
from understudy.testing import calls, says

Body = Callable[[us.ToolContext], object]


@pytest.fixture(params=["sqlite", "postgresql"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    is_server = request.param == "postgresql"
    yield Shelf(request.getfixturevalue("postgres_url") if is_server else f"sqlite:///{tmp_path}/shop.db")
    gc.collect()  # the connections of the systems, of which the server has few


def tool(body: Body, name: str = "book", **options: Any) -> us.Tool[..., object]:
    """Return a transactional tool that does something with its context."""

    def act(ctx: us.ToolContext) -> object:
        """Act."""
        return body(ctx)

    return us.tool(name=name, transactional=True, **options)(act)


def told(shelf: Shelf, *bodies: Body, **options: Any) -> list[str]:
    """Return what the calls of tools are answered, each in a turn with the others."""
    tools = [tool(body, f"tool_{number}", **options) for number, body in enumerate(bodies)]
    with shelf.system() as system:
        return contents_of(finished(caller(*tools).run("go", system=system)))


def takes_one(ctx: us.ToolContext) -> str:
    with ctx.transaction() as sql:
        take(sql)
    return "booked"


def test_what_a_tool_did_is_committed_when_it_has_returned(shelf: Shelf) -> None:
    seen = list[int]()

    def act(ctx: us.ToolContext) -> str:
        with ctx.transaction() as sql:
            take(sql, 2)
            (left,) = sql.execute("SELECT units FROM shelf WHERE sku = :sku", {"sku": "bell"}).fetchall()
        seen.append(shelf.units)
        return f"{left[0]} left"

    assert told(shelf, act) == ["5 left"]
    assert (seen, shelf.units) == ([7], 5)


def test_the_rows_of_a_statement_are_read_in_several_ways(shelf: Shelf) -> None:
    def act(ctx: us.ToolContext) -> list[object]:
        with ctx.transaction() as sql:
            added = sql.executemany("INSERT INTO shelf VALUES (?, ?)", [("drum", 1), ("lute", 2)])
            found = sql.execute("SELECT sku, units FROM shelf ORDER BY sku")
        return [added, found.columns, found.fetchone(), next(iter(found)), found.fetchall(), found.fetchone()]

    assert told(shelf, act) == ['[2, ["sku", "units"], ["bell", 7], ["drum", 1], [["lute", 2]], null]']


def raises(ctx: us.ToolContext) -> str:
    takes_one(ctx)
    raise LookupError("no such room")


def wants_another_try(ctx: us.ToolContext) -> str:
    takes_one(ctx)
    raise us.Retry("say it again")


def returns_what_has_no_text(ctx: us.ToolContext) -> object:
    takes_one(ctx)
    return iter(())


def returns_too_much(ctx: us.ToolContext) -> object:
    takes_one(ctx)
    return "x" * (9 * 2**20)


def sets_what_is_no_json(ctx: us.ToolContext) -> object:
    takes_one(ctx)
    ctx.session["odd"] = {1, 2}  # type: ignore[assignment]  # what a user may do
    return "set"


def exits(ctx: us.ToolContext) -> object:
    takes_one(ctx)
    raise SystemExit(3)


@pytest.mark.parametrize(
    "body", [raises, wants_another_try, returns_what_has_no_text, returns_too_much, sets_what_is_no_json, exits]
)
def test_a_call_that_fails_changes_nothing(body: Body, shelf: Shelf) -> None:
    (answer,) = told(shelf, body)

    assert "booked" not in answer
    assert shelf.units == 7


def test_a_tool_that_exits_holds_nobody_up(shelf: Shelf) -> None:
    begun = time.monotonic()
    told(shelf, exits, transaction_timeout=4)
    shelf.ask("UPDATE shelf SET units = units - 3")

    assert time.monotonic() - begun < 3.5
    assert shelf.units == 4


def test_none_and_nothing_are_results_too(shelf: Shelf) -> None:
    def returns_none(ctx: us.ToolContext) -> None:
        takes_one(ctx)

    def does_nothing(ctx: us.ToolContext) -> str:
        with ctx.transaction():
            return "looked"

    def asks_for_none(ctx: us.ToolContext) -> str:
        return "left it"

    assert told(shelf, returns_none, does_nothing, asks_for_none) == ["null", "looked", "left it"]
    assert shelf.units == 6


def test_an_exception_that_leaves_the_block_undoes_it_and_the_tool_may_go_on(shelf: Shelf) -> None:
    def act(ctx: us.ToolContext) -> str:
        try:
            with ctx.transaction() as sql:
                take(sql, 9)
        except REFUSED:
            return "sold out"
        return "booked"

    assert told(shelf, act) == ["sold out"]
    assert shelf.units == 7


def test_a_statement_that_failed_is_not_forgotten_by_being_caught(shelf: Shelf) -> None:
    def act(ctx: us.ToolContext) -> str:
        with ctx.transaction() as sql:
            take(sql)
            try:
                take(sql, 9)
            except REFUSED:
                return "booked"
        return "booked"

    (answer,) = told(shelf, act)

    assert "its transaction was undone: a statement failed" in answer
    assert shelf.units == 7


def twice(ctx: us.ToolContext) -> object:
    takes_one(ctx)
    return takes_one(ctx)


def commits(ctx: us.ToolContext) -> object:
    with ctx.transaction() as sql:
        take(sql)
        return sql.commit()  # type: ignore[attr-defined]  # pyright: ignore


def ends_it(ctx: us.ToolContext) -> object:
    with ctx.transaction() as sql:
        take(sql)
        return sql.execute("/* now */ commit")


def says_two_things(ctx: us.ToolContext) -> object:
    with ctx.transaction() as sql:
        take(sql)
        return sql.execute("SELECT 1; COMMIT")


def is_late(ctx: us.ToolContext) -> object:
    with ctx.transaction() as sql:
        take(sql)
    return sql.execute("SELECT 1")


def begins_a_run(ctx: us.ToolContext) -> object:
    takes_one(ctx)
    return us.Agent("other", model=us.ScriptedModel([says("hello")])).run("go")


def gives_text_for_values(ctx: us.ToolContext) -> object:
    with ctx.transaction() as sql:
        take(sql)
        return sql.execute("SELECT ?", "a")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (twice, "a call has one transaction, and this one has had it"),
        (commits, "has no commit(): the runtime commits it when the tool has returned"),
        (ends_it, "COMMIT is refused: the runtime commits the transaction"),
        (says_two_things, "more than one statement"),
        (is_late, "outside of the block"),
        (begins_a_run, "a run cannot begin inside of ctx.transaction()"),
        (gives_text_for_values, "the parameters must be a tuple or list"),
    ],
)
def test_what_a_block_is_not_for_is_refused_and_nothing_is_kept(body: Body, words: str, shelf: Shelf) -> None:
    (answer,) = told(shelf, body)

    assert words in answer
    assert shelf.units == 7


def test_a_run_may_begin_before_the_block_and_after_one_that_was_undone(shelf: Shelf) -> None:
    other = us.Agent("other", model=us.FunctionModel(lambda request: says("hello")))

    def before(ctx: us.ToolContext) -> str:
        text = other.run("go").text
        takes_one(ctx)
        return text

    def after(ctx: us.ToolContext) -> str:
        try:
            with ctx.transaction() as sql:
                take(sql)
                raise LookupError
        except LookupError:
            return other.run("go").text

    assert told(shelf, before, after) == ["hello", "hello"]
    assert shelf.units == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_inside_of_the_block_undoes_it(shelf: Shelf) -> None:
    def act(ctx: us.ToolContext) -> str:
        with ctx.transaction() as sql:
            take(sql)
            child = os.fork()
            if child == 0:
                try:
                    take(sql)
                except us.StoreError:
                    os._exit(7)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        return "booked"

    (answer,) = told(shelf, act)

    assert "its transaction was undone: the process was forked inside of it" in answer
    assert shelf.units == 7


def test_a_transaction_that_is_open_for_too_long_is_undone_while_the_tool_is_at_work(shelf: Shelf) -> None:
    def act(ctx: us.ToolContext) -> str:
        with ctx.transaction() as sql:
            take(sql)
            shelf.ask("UPDATE shelf SET units = units - 3")  # goes on as soon as the time is over
        return "booked"

    (answer,) = told(shelf, act, transaction_timeout=0.1)

    assert "its transaction was undone: it was open for more than 0.1 s" in answer
    assert shelf.units == 4


def test_a_statement_that_takes_too_long_is_ended(shelf: Shelf) -> None:
    count = (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000000) SELECT count(*) FROM n"
    )

    def act(ctx: us.ToolContext) -> object:
        with ctx.transaction() as sql:
            take(sql)
            return sql.execute(count).fetchone()

    (answer,) = told(shelf, act, transaction_timeout=0.2)

    assert "its transaction was undone: it was open for more than 0.2 s" in answer
    assert shelf.units == 7


@pytest.mark.parametrize("count", [1, 2])
def test_a_call_that_times_out_in_its_block_changes_nothing_and_holds_nobody_up(count: int, shelf: Shelf) -> None:
    goes_on = threading.Event()

    def act(ctx: us.ToolContext) -> str:
        with ctx.transaction() as sql:
            take(sql)
            goes_on.wait(WAIT)
            take(sql)
        return "booked"

    with shelf.system() as system:
        agent = caller(tool(act, timeout=0.1, transaction_timeout=4), calls=count)
        begun = time.monotonic()
        results = results_of(finished(agent.run("go", system=system)))
        shelf.ask("UPDATE shelf SET units = units - 3")
        assert time.monotonic() - begun < 3.5
        goes_on.set()

    assert [result.error_kind for result in results] == ["timed_out"] * count
    assert shelf.units == 4


class Stays:
    """The body of a tool that takes a bell, and stays in its block until it is let go.

    Attributes:
        is_in: set when it has taken the bell.
        goes_on: lets it go.
    """

    def __init__(self) -> None:
        self.is_in, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, ctx: us.ToolContext) -> str:
        with ctx.transaction() as sql:
            take(sql)
            self.is_in.set()
            self.goes_on.wait(WAIT)
        ctx.session["app:booked"] = True
        return "booked"


def test_a_run_that_is_cancelled_undoes_the_transaction(shelf: Shelf) -> None:
    act = Stays()
    with shelf.system() as system:
        handle = caller(tool(act, transaction_timeout=4)).submit("go", system=system)
        assert act.is_in.wait(WAIT)
        handle.cancel()
        shelf.ask("UPDATE shelf SET units = units - 3")
        act.goes_on.set()
        with pytest.raises(us.RunCancelled):
            handle.result(timeout=WAIT)

    assert shelf.units == 4


def test_a_system_that_stops_undoes_the_transaction(shelf: Shelf) -> None:
    act, system = Stays(), shelf.system()
    caller(tool(act, transaction_timeout=4)).submit("go", system=system)
    assert act.is_in.wait(WAIT)

    system.stop(timeout=0.1)
    shelf.ask("UPDATE shelf SET units = units + 3")
    act.goes_on.set()

    assert shelf.units == 10


class SlowCommit:
    """Holds the commit of a result until it is let go.

    Attributes:
        begun: set when the commit has begun.
        goes_on: lets it go.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()
        write = RunTable.commit_in

        def slow(table: RunTable, sql: Sql, claim: Claim, rows: Sequence[RunRow], *others: Any) -> bool:
            if any(row.kind == LINE and is_early(row.body) for row in rows):
                self.begun.set()
                assert self.goes_on.wait(WAIT)
            return write(table, sql, claim, rows, *others)

        monkeypatch.setattr(RunTable, "commit_in", slow)


def cancelled_during(commit: SlowCommit, handle: us.RunHandle[str]) -> us.RunCancelled:
    """Cancel a run while a result is being committed, and return its error."""
    assert commit.begun.wait(WAIT)
    cancelled = threading.Thread(target=handle.cancel)
    cancelled.start()
    eventually(lambda: handle.status().phase == "cancelled", "the run is about to end")
    commit.goes_on.set()
    cancelled.join(WAIT)
    with pytest.raises(us.RunCancelled) as ended:
        handle.result(timeout=WAIT)
    return ended.value


def test_a_cancel_during_the_commit_waits_for_it_and_takes_the_result(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = SlowCommit(monkeypatch)
    agent = caller(tool(takes_one))
    with shelf.system() as system:
        ended = cancelled_during(commit, agent.submit("go", system=system))

        assert [result.content for message in ended.messages for result in message.tool_results] == ["booked"]
        assert finished(agent.resume(ended.token, system=system)).text == "booked"
    assert shelf.units == 6


@pytest.mark.parametrize("count", [1, 2])
def test_a_call_whose_time_ends_during_its_commit_has_its_result(
    count: int, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, refused = SlowCommit(monkeypatch), list[StoredCallTransaction]()
    give_up = StoredCallTransaction.give_up

    def noted(transaction: StoredCallTransaction) -> bool:
        is_given_up = give_up(transaction)
        if not is_given_up:
            refused.append(transaction)
        return is_given_up

    monkeypatch.setattr(StoredCallTransaction, "give_up", noted)
    with shelf.system() as system:
        book = tool(takes_one, timeout=0.3)
        handle = caller(book, calls=count).submit("go", system=system)
        assert commit.begun.wait(WAIT)
        eventually(lambda: len(refused) >= 2, "the time and the grace of the call are over")
        commit.goes_on.set()
        answers = contents_of(finished(handle.result(timeout=WAIT)))

    booked = answers.count("booked")
    assert booked >= 1
    assert shelf.units == 7 - booked


def test_a_call_whose_time_ended_during_its_commit_is_waited_for_without_another_look(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, looked_at, look = SlowCommit(monkeypatch), list[Call](), Call.look

    def noted(call: Call) -> None:
        look(call)
        looked_at.append(call)

    monkeypatch.setattr(Call, "look", noted)
    with shelf.system() as system:
        handle = caller(tool(takes_one, timeout=0.1), calls=2).submit("go", system=system)
        assert commit.begun.wait(WAIT)
        is_left = "nobody looks at the call that is being committed"
        eventually(
            lambda: any(each.order.overdue and not each.reply.done and each.next_look == inf for each in looked_at),
            is_left,
        )
        commit.goes_on.set()
        assert "booked" in contents_of(finished(handle.result(timeout=WAIT)))


def test_a_cancel_during_one_of_two_commits_keeps_that_result_alone(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = SlowCommit(monkeypatch)
    agent = caller(tool(takes_one), calls=2)
    with shelf.system() as system:
        ended = cancelled_during(commit, agent.submit("go", system=system))
        answers = finished(agent.resume(ended.token, system=system)).text.split("; ")
    assert (answers.count("booked"), len(answers), shelf.units) == (1, 2, 6)


def test_each_attempt_has_a_transaction_of_its_own(shelf: Shelf) -> None:
    attempts = list[int]()

    def act(ctx: us.ToolContext) -> str:
        attempts.append(1)
        with ctx.transaction() as sql:
            take(sql)
        if len(attempts) == 1:
            raise ConnectionError("try again")
        return "booked"

    assert told(shelf, act, retries=1) == ["booked"]
    assert (len(attempts), shelf.units) == (2, 6)


def keeps_an_open_block(ctx: us.ToolContext) -> Callable[[], object]:
    sql = ctx.transaction().__enter__()
    return lambda: take(sql)


def keeps_a_new_block(ctx: us.ToolContext) -> Callable[[], object]:
    return ctx.transaction().__enter__


def keeps_the_context(ctx: us.ToolContext) -> Callable[[], object]:
    return ctx.transaction


@pytest.mark.parametrize("keep", [keeps_an_open_block, keeps_a_new_block, keeps_the_context])
def test_a_thread_that_a_tool_leaves_behind_begins_no_transaction(
    keep: Callable[[us.ToolContext], Callable[[], object]], shelf: Shelf
) -> None:
    kept = list[Callable[[], object]]()

    def act(ctx: us.ToolContext) -> str:
        kept.append(keep(ctx))
        return "booked"

    with shelf.system() as system:
        assert contents_of(finished(caller(tool(act)).run("go", system=system))) == ["booked"]
        with pytest.raises(RuntimeError, match="was used after the end of the call"):
            kept[0]()

    assert shelf.units == 7


def test_a_block_of_an_attempt_that_failed_has_no_part_in_the_next_one(shelf: Shelf) -> None:
    blocks = list[us.SqlTransaction]()

    def act(ctx: us.ToolContext) -> str:
        block = ctx.transaction()
        blocks.append(block.__enter__())
        if len(blocks) == 1:
            raise ConnectionError("try again")
        with pytest.raises(RuntimeError, match="after the end of the call"):
            take(blocks[0])
        return "booked"

    assert told(shelf, act, retries=1) == ["booked"]
    assert shelf.units == 7


def test_a_context_of_an_attempt_that_failed_begins_no_transaction_in_the_next_one(shelf: Shelf) -> None:
    contexts = list[us.ToolContext]()

    def act(ctx: us.ToolContext) -> str:
        contexts.append(ctx)
        if len(contexts) == 1:
            raise ConnectionError("try again")
        with pytest.raises(RuntimeError, match="after the end of the call"):
            contexts[0].transaction()
        with ctx.transaction() as sql:
            take(sql)
        return "booked"

    assert told(shelf, act, retries=1) == ["booked"]
    assert shelf.units == 6


def test_calls_of_one_turn_take_turns(shelf: Shelf) -> None:
    met, meeting = list[int](), threading.Barrier(2, timeout=0.2)

    def act(ctx: us.ToolContext) -> str:
        with ctx.transaction() as sql:
            sql.execute("SELECT units FROM shelf")  # which locks no row on a server
            with suppress(threading.BrokenBarrierError):  # nobody else came
                met.append(meeting.wait())
        return "booked"

    with shelf.system() as system:
        answers = contents_of(finished(caller(tool(act), calls=5).run("go", system=system)))

    assert (answers, met) == (["booked"] * 5, [])


def test_results_of_other_calls_and_of_other_runs_are_written_behind_a_transaction(shelf: Shelf) -> None:
    act = Stays()

    @us.tool
    def look(ctx: us.ToolContext) -> str:
        """Look."""
        assert act.is_in.wait(WAIT)
        ctx.session["app:looked"] = True
        threading.Timer(0.1, act.goes_on.set).start()
        return "looked"

    with shelf.system() as system:
        handle = caller(tool(act, transaction_timeout=4), look).submit("go", system=system)
        assert act.is_in.wait(WAIT)
        other = us.Agent("other", model=us.ScriptedModel([says("hello")])).submit("go", system=system)
        outcome = finished(handle.result(timeout=WAIT))
        assert finished(other.result(timeout=WAIT)).text == "hello"

    assert outcome.session == {"app:booked": True, "app:looked": True}
    assert (outcome.text, shelf.units) == ("booked; looked", 6)


def test_tools_of_sub_agents_and_groups_have_transactions_too(shelf: Shelf) -> None:
    lead = us.Agent(
        "lead",
        model=us.ScriptedModel([calls("clerk", input="go"), says("done")]),
        sub_agents=[caller(tool(takes_one))],
    )
    group = us.ParallelAgent("both", [lead, caller(tool(takes_one)).replace(id="other")])

    with shelf.system() as system:
        assert group.run("go", system=system).status == "complete"

    assert shelf.units == 5


def test_a_run_that_another_process_took_over_commits_nothing(shelf: Shelf) -> None:
    def act(ctx: us.ToolContext) -> str:
        shelf.ask("UPDATE understudy_runs SET epoch = epoch + 1")
        return takes_one(ctx)

    with shelf.system() as system, pytest.raises(us.LeaseLost):
        caller(tool(act)).run("go", system=system)

    assert shelf.units == 7


def test_what_a_tool_changes_in_the_session_is_committed_with_it(shelf: Shelf) -> None:
    def act(ctx: us.ToolContext) -> str:
        ctx.session["app:last"] = "bell"
        return takes_one(ctx)

    with shelf.system() as system:
        assert finished(caller(tool(act)).run("go", system=system)).session == {"app:last": "bell"}


def test_all_that_a_call_leaves_is_committed_with_it(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    written, write = list[list[RunRow]](), RunTable.commit_in

    def noted(table: RunTable, sql: Sql, claim: Claim, rows: Sequence[RunRow], *rest: Any, **named: Any) -> bool:
        if any(row.kind == LINE and is_early(row.body) for row in rows):
            written.append(sorted(rows, key=lambda row: row.kind))
        return write(table, sql, claim, rows, *rest, **named)

    def act(ctx: us.ToolContext) -> str:
        takes_one(ctx)
        ctx.session["app:last"] = "bell"
        return "x" * 200

    monkeypatch.setattr(RunTable, "commit_in", noted)
    told(shelf, act, max_result=100)

    ((artifact, line),) = written
    (came,) = results_in([line.body])
    assert (artifact.kind, line.kind) == (ARTIFACT, LINE)
    assert came.changes == Changes({"app:last": "bell"})


def begun_in_a_tool(system: us.ActorSystem) -> str:
    agent = caller(tool(takes_one))

    @us.tool
    def outer() -> str:
        """Begin a run."""
        return finished(agent.run("go", system=system)).text

    return finished(caller(outer).run("go", system=system)).text


def turn_by_turn(system: us.ActorSystem) -> str:
    agent = caller(tool(takes_one))
    step = agent.run_turn("go", system=system)
    assert isinstance(step, us.MoreTurns)
    return step.messages[-1].tool_results[0].content


def by_hand(system: us.ActorSystem) -> str:
    return caller(tool(takes_one)).execute(us.ToolCall("c1", "book", {}), system=system).content


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (begun_in_a_tool, "begun by code of another one"),
        (turn_by_turn, "goes turn by turn"),
        (by_hand, "use run or submit"),
    ],
)
def test_a_run_without_a_journal_says_what_is_missing(
    do: Callable[[us.ActorSystem], str], words: str, shelf: Shelf
) -> None:
    with shelf.system() as system:
        assert words in do(system)
    assert shelf.units == 7


@pytest.mark.parametrize("options", [{}, {"journal": False}])
def test_a_system_without_a_journal_says_what_is_missing(options: dict[str, Any], tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/shop.db" if options else None
    with us.ActorSystem("shop", store=store, **options) as system:
        (answer,) = contents_of(finished(caller(tool(takes_one)).run("go", system=system)))

    assert "give the system a durable store" in answer


def test_a_plain_tool_has_no_transaction(shelf: Shelf) -> None:
    with shelf.system() as system:
        (answer,) = contents_of(finished(caller(tool(takes_one).replace(transactional=False)).run("go", system=system)))

    assert "made with @us.tool(transactional=True)" in answer


def test_many_runs_that_change_one_row_all_succeed(shelf: Shelf) -> None:
    def act(ctx: us.ToolContext) -> str:
        with ctx.transaction() as sql:
            (before,) = sql.execute("SELECT units FROM shelf WHERE sku = 'bell'").fetchall()
            sql.execute("UPDATE shelf SET units = ? WHERE sku = 'bell'", (before[0] + 1,))
        return "put back"

    with shelf.system() as system:
        agent = caller(tool(act))
        handles = [agent.submit("go", system=system) for _ in range(8)]
        answers = [finished(handle.result(timeout=WAIT)).text for handle in handles]

    assert answers == ["put back"] * 8
    assert shelf.units == 15
