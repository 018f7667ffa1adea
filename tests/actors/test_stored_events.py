"""Events of a run from any process that has the store: while another one drives the run, and after its end."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

import understudy as us
from tests.support.events import DELTAS, numbered, shown
from tests.support.killing import Effects, runners
from tests.support.run_events import read_sse
from tests.support.scripts import WAIT, eventually, finished, needs_approval, results_of
from tests.support.streaming import StreamedScript, Tap, text_turn
from understudy.testing import calls, says

ENDS = us.RunFinished | us.RunFailed


@us.tool
def on_shelf(ctx: us.ToolContext, sku: str) -> int:
    """Count what is there."""
    ctx.progress("looking")
    return 7


@us.tool(approval=True)
def pay(order: str) -> str:
    """Pay money back."""
    return f"paid {order}"


def clerk() -> us.Agent:
    """Return an agent whose turns have reasoning, a text after a call, and calls that run at the same time."""
    turns: list[list[us.Piece]] = [
        [
            us.ReasoningPiece("Let me "),
            us.ReasoningPiece("look."),
            us.CallPiece(0, '{"sku": "A', id="c1", name="on_shelf"),
            us.CallPiece(0, '-113"}'),
            us.CallPiece(1, '{"sku": "B-7"}', id="c2", name="on_shelf"),
            us.TurnEnd(),
        ],
        text_turn("Yes: ", "seven."),
    ]
    return us.Agent("clerk", model=StreamedScript(turns), tools=[on_shelf])


def cashier() -> us.Agent:
    return us.Agent("cashier", model=us.FunctionModel(pays), tools=[pay])


def pays(request: us.ModelRequest) -> us.ModelTurn:
    return calls("pay", order="7") if request.turn == 1 else says("Paid.")


Pair = tuple[us.ActorSystem, us.ActorSystem]


def test_a_run_that_is_over_tells_all_its_events_elsewhere(pair: Pair) -> None:
    drives, reads = pair
    with clerk().stream("Do we have A-113?", system=drives) as stream:
        live = list(stream)

    stored = list(reads.handle(stream.handle.run_id).events())

    assert numbered(stored) == numbered(live)
    assert [event.time for event in numbered(stored)[:-1]] == [event.time for event in numbered(live)[:-1]]
    assert shown(stored) == shown(live)
    assert [event.seq for event in numbered(stored)] == list(range(len(numbered(stored))))
    assert [type(event) for event in stored if isinstance(event, ENDS)] == [us.RunFinished]


def test_a_reader_goes_on_elsewhere_behind_any_event(pair: Pair) -> None:
    drives, reads = pair
    handle = clerk().submit("Do we have A-113?", system=drives)
    live = list(handle.events())
    whole = shown(live)

    for at, event in enumerate(live):
        before, rest = live[: at + 1], list(reads.handle(handle.run_id).events(after=event.id))
        assert numbered([*before, *rest]) == numbered(live)
        assert shown([*before, *rest]) == whole


def test_a_reader_goes_on_elsewhere_in_the_middle_of_a_delta(pair: Pair) -> None:
    drives, reads = pair
    handle = clerk().submit("Do we have A-113?", system=drives)
    whole = shown(handle.events())[2, 1]
    seq = next(event.seq for event in handle.events() if isinstance(event, us.TurnStarted) and event.turn == 2)

    for had in range(len(whole) + 1):
        rest = reads.handle(handle.run_id).events(after=f"{seq}.2.1.{had}")
        assert "".join([event.text for event in rest if isinstance(event, DELTAS)]) == whole[had:]


def test_a_tool_that_reads_the_events_of_its_own_run_from_the_store_is_refused(pair: Pair) -> None:
    drives, _ = pair

    def read(ctx: us.ToolContext) -> str:
        """Read what happens here."""
        for system in pair:
            with pytest.raises(us.CircularAgentCall) as caught:
                list(system.handle(ctx.run_id).events())
            assert caught.value.path == ("clerk", "clerk")
        return "refused"

    agent = us.Agent(
        "clerk",
        model=StreamedScript([[us.CallPiece(0, "{}", id="c1", name="read"), us.TurnEnd()], text_turn("ok")]),
        tools=[read],
    )

    outcome = agent.submit("go", system=drives).result(WAIT)

    assert [result.content for result in results_of(outcome)] == ["refused"]


def test_events_come_while_another_system_drives_the_run(pair: Pair) -> None:
    drives, reads = pair
    goes_on = threading.Event()

    def wait() -> str:
        goes_on.wait(WAIT)
        return "done"

    agent = us.Agent("slow", model=us.ScriptedModel([calls("wait"), says("Done.")]), tools=[wait])
    handle = agent.submit("go", system=drives)
    events = reads.handle(handle.run_id).events(timeout=WAIT)

    first = [next(events), next(events)]
    with pytest.raises(TimeoutError, match="is not over"):
        list(reads.handle(handle.run_id).events(after=first[-1].id, timeout=0))
    behind = [system.handle(handle.run_id).events(after=999) for system in pair]
    goes_on.set()
    for each in behind:
        with pytest.raises(ValueError, match="an event of this run"):
            next(each)

    assert numbered([*first, *events]) == numbered(handle.events())


@pytest.mark.parametrize("kind", ["failed", "cancelled", "paused"])
def test_each_end_of_a_run_is_told_once(kind: str, pair: Pair) -> None:
    drives, reads = pair
    began = threading.Event()

    def fail() -> str:
        began.set()
        if kind == "failed":
            raise ValueError("no stock")
        threading.Event().wait(WAIT if kind == "cancelled" else 0)
        return "x"

    agent = us.Agent(
        "clerk",
        model=us.ScriptedModel([calls("fail"), calls("pay", order="7")]),
        tools=[fail, pay],
        on_tool_error="raise",
    )
    handle = agent.submit("go", system=drives)
    assert began.wait(WAIT)
    if kind == "cancelled":
        handle.cancel()
    handle.exception(timeout=WAIT)
    eventually(lambda: reads.handle(handle.run_id).status().phase != "under_way", "the end was written")

    live, stored = list(handle.events()), list(reads.handle(handle.run_id).events())

    assert numbered(stored)[:-1] == numbered(live)[:-1]
    assert [type(each) for each in stored if isinstance(each, ENDS)] == [type(live[-1])]
    assert stored[-1].seq == live[-1].seq
    if isinstance(live[-1], us.RunFailed) and isinstance(stored[-1], us.RunFailed):
        assert (type(stored[-1].error), str(stored[-1].error)) == (type(live[-1].error), str(live[-1].error))
    else:
        assert stored[-1] == live[-1]


def test_the_numbers_go_on_after_a_pause_in_a_third_process(url: str) -> None:
    with us.ActorSystem("shop", store=url) as first:
        handle = cashier().submit("go", system=first)
        waits = needs_approval(handle.result(timeout=WAIT))
    with us.ActorSystem("shop", store=url) as second:
        finished(cashier().resume(waits.token, us.Approve(), system=second))
    with us.ActorSystem("shop", store=url) as third:
        stored = list(third.handle(handle.run_id).events())

    assert [event.seq for event in numbered(stored)] == list(range(len(numbered(stored))))
    assert [each.outcome.status for each in stored if isinstance(each, us.RunFinished)] == [
        "needs_approval",
        "complete",
    ]
    assert [event.text for event in stored if isinstance(event, us.TextDelta)] == ["Paid."]


def test_a_reader_of_a_paused_run_comes_to_its_end_and_goes_on_later(pair: Pair) -> None:
    drives, reads = pair
    handle = cashier().submit("go", system=drives)
    waits = needs_approval(handle.result(timeout=WAIT))
    before = list(reads.handle(handle.run_id).events())
    assert list(reads.handle(handle.run_id).events(after=before[-1].id)) == []
    with pytest.raises(ValueError, match=f"an event of this run; got {before[-1].seq + 1}"):
        reads.handle(handle.run_id).events(after=before[-1].seq + 1)
    finished(cashier().resume(waits.token, us.Approve(), system=drives))

    after = list(reads.handle(handle.run_id).events(after=before[-1].id))

    numbers = [event.seq for event in numbered([*before, *after])]
    assert numbers == list(range(len(numbers)))
    assert isinstance(after[-1], us.RunFinished)


def test_a_system_that_goes_on_with_a_run_tells_what_came_before_and_then_its_own_events(pair: Pair) -> None:
    drives, goes_on = pair
    waits = needs_approval(cashier().submit("go", system=drives).result(timeout=WAIT))
    let = threading.Event()

    def pays_late(request: us.ModelRequest) -> us.ModelTurn:
        let.wait(WAIT)
        return pays(request)

    agent = us.Agent("cashier", model=us.FunctionModel(pays_late), tools=[pay])
    handle = agent.submit_resume(waits.token, us.Approve(), system=goes_on, adopt=True)
    events = goes_on.handle(handle.run_id).events(timeout=WAIT)
    first = next(events)
    assert goes_on.handle(handle.run_id).here() is not None
    let.set()

    told = [first, *events]
    assert [event.seq for event in numbered(told)] == list(range(len(numbered(told))))
    assert isinstance(told[-1], us.RunFinished)


def test_a_run_that_is_not_streamed_has_no_events_elsewhere_and_its_reader_hears_why(pair: Pair) -> None:
    drives, reads = pair
    outcome = finished(us.Agent("clerk", model=us.ScriptedModel([says("Hi.")])).run("go", system=drives))

    with pytest.raises(us.StoreError, match=r"begun, or went on, with stream, submit or submit_resume, until 3600 s"):
        list(reads.handle(outcome.run_id).events())


def test_a_run_that_waits_and_has_no_journal_has_no_events(url: str) -> None:
    with us.ActorSystem("shop", store=url, journal=False) as system:
        waits = needs_approval(cashier().submit("go", system=system).result(timeout=WAIT))
    with us.ActorSystem("shop", store=url) as reads, pytest.raises(us.StoreError, match="has no events"):
        list(reads.handle(waits.run_id).events())


def test_a_run_that_is_erased_while_it_is_read_is_gone(pair: Pair) -> None:
    drives, reads = pair
    goes_on = threading.Event()

    def wait() -> str:
        goes_on.wait(WAIT)
        return "done"

    agent = us.Agent("slow", model=us.ScriptedModel([calls("wait"), says("Done.")]), tools=[wait])
    handle = agent.submit("go", system=drives, user_id="ada")
    events = reads.handle(handle.run_id).events(timeout=WAIT)
    next(events)

    reads.erase("ada")

    with pytest.raises(KeyError):
        list(events)
    goes_on.set()
    assert isinstance(handle.exception(timeout=WAIT), us.LeaseLost)


def test_a_browser_that_comes_back_goes_on_in_another_process(pair: Pair) -> None:
    drives, reads = pair
    handle = clerk().submit("Do we have A-113?", system=drives)
    whole = sent(us.sse(handle))
    at = next(number for number, (kind, _) in enumerate(whole) if kind == "tool_finished")

    rest = sent(us.sse(reads.handle(handle.run_id), after=whole[at][1]))

    assert rest == whole[at + 1 :]


def sent(chunks: Iterable[bytes]) -> list[tuple[str, str]]:
    """Return type and id of each event but the deltas."""
    found = read_sse(b"".join(chunks))
    return [(each.event, each.last_id) for each in found if not each.event.endswith("_delta")]


def test_a_system_without_a_journal_has_no_handles_of_runs(tmp_path: Path) -> None:
    with (
        us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db", journal=False) as system,
        pytest.raises(ValueError, match="handle needs a durable store and the journal"),
    ):
        system.handle("shop-1-1")


def test_events_of_a_user_are_erased_at_once(pair: Pair) -> None:
    drives, reads = pair
    handle = clerk().submit("go", system=drives, user_id="ada")
    handle.result(timeout=WAIT)
    stored = reads.handle(handle.run_id)
    assert len(list(stored.events())) > 3

    drives.erase("ada")

    with pytest.raises(KeyError):
        stored.events()


def test_a_run_that_is_cancelled_and_goes_on_at_once_has_both_ends(pair: Pair) -> None:
    drives, reads = pair
    began, goes_on = threading.Event(), threading.Event()

    @us.tool(idempotent=True)
    def wait() -> str:
        began.set()
        goes_on.wait(WAIT)
        return "done"

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        return calls("wait") if request.turn == 1 else says("Done.")

    agent = us.Agent("slow", model=us.FunctionModel(next_turn), tools=[wait])
    handle = agent.submit("go", system=drives)
    assert began.wait(WAIT)
    handle.cancel()
    error = handle.exception(timeout=WAIT)
    assert isinstance(error, us.RunCancelled)
    goes_on.set()
    finished(agent.resume(error.token, system=drives))

    stored = numbered(reads.handle(handle.run_id).events())

    assert [event.seq for event in stored] == list(range(len(stored)))
    assert [type(event) for event in stored if isinstance(event, ENDS)] == [us.RunFailed, us.RunFinished]


@pytest.mark.parametrize("journal", [True, False])
def test_a_run_that_is_cancelled_in_the_middle_of_a_turn_counts_on_when_it_goes_on(journal: bool, store: str) -> None:
    tap = Tap(text_turn("Yes: ", "seven."))
    agent = us.Agent("clerk", model=StreamedScript([tap]))
    with us.ActorSystem("shop", store=store, journal=journal) as system:
        handle = agent.submit("go", system=system)
        tap.let()
        next(event for event in handle.events() if isinstance(event, us.TextDelta))
        handle.cancel()
        error = handle.exception(timeout=WAIT)
        assert isinstance(error, us.RunCancelled)
        before = numbered(handle.events())
        tap.let(9)

        again = agent.submit_resume(error.token, system=system)
        told = [*before, *numbered(again.events())]

    assert [type(event) for event in before] == [us.TurnStarted, us.TurnDropped, us.RunFailed]
    assert [event.seq for event in told] == list(range(len(told)))
    if journal:
        with us.ActorSystem("shop", store=store) as reads:
            assert [type(event) for event in numbered(reads.handle(handle.run_id).events())] == [*map(type, told)]


@pytest.mark.parametrize("kind", ["sub-agent", "sequence", "parallel", "workflow"])
def test_runs_of_each_kind_tell_elsewhere_what_they_tell_here(kind: str, pair: Pair, effects: Effects) -> None:
    drives, reads = pair
    runner, _ = runners(effects.tool())[kind]
    handle = runner.submit("go", system=drives)
    handle.result(timeout=WAIT)

    live, stored = list(handle.events()), list(reads.handle(handle.run_id).events())

    assert numbered(stored) == numbered(live)
    assert shown(stored) == shown(live)
