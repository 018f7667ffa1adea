"""Events of a run whose process is killed, for readers in other processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import understudy as us
from tests.support.events import numbered, shown
from tests.support.journal_lines import EARLY
from tests.support.killing import Effects, forked, killed, worker
from tests.support.scripts import WAIT, eventually, needs_approval
from understudy.actors.stores.inspection.stored_runs import runs_in
from understudy.actors.stores.open_store import open_store
from understudy.testing import calls, says

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")

ENDS = us.RunFinished | us.RunFailed


@us.tool
def on_shelf(sku: str) -> int:
    """Count what is there."""
    return 7


def test_a_reader_goes_on_after_the_process_of_the_run_was_killed_between_two_turns(url: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path / "effects", 2)
    agent = worker("clerk", effects.tool(idempotent=True), ["a", "b", "c"])
    assert killed(lambda: agent.submit("go", system=us.ActorSystem("shop", store=url)).result())
    effects.deadly = 0
    with us.ActorSystem("shop", store=url) as reads, us.ActorSystem("shop", store=url) as goes_on:
        (run,) = [each.run_id for each in left_in(url)]
        events = reads.handle(run).events(timeout=WAIT)
        before = [next(events), next(events), next(events)]
        (handle,) = goes_on.recover(runners=[agent])
        handle.result(timeout=WAIT)

        told = [*before, *events]

        assert numbered(told) == numbered(goes_on.handle(run).events())
        assert [event.seq for event in numbered(told)] == list(range(len(numbered(told))))
        finished_calls = [event.call.id for event in told if isinstance(event, us.ToolFinished)]
        assert finished_calls == ["c0", "c1", "c2"]
        assert [type(event) for event in told if isinstance(event, ENDS)] == [us.RunFinished]
        assert list(reads.handle(run).events(after=before[-1].id)) == told[3:]


class Pours:
    """Writes a turn in two parts, and is killed after the first one in the process that is to die."""

    name = "pours"

    def __init__(self, place: Path | None, text: str) -> None:
        self._place = place
        self._text = text

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        return calls("on_shelf", sku="A") if request.turn == 1 else says(self._text)

    def stream(self, request: us.ModelRequest) -> Iterator[us.Piece]:
        if request.turn == 1:
            yield us.CallPiece(0, '{"sku": "A"}', id="c1", name="on_shelf")
            yield us.TurnEnd()
            return
        yield us.TextPiece(self._text)
        if self._place is not None:
            eventually(self._place.exists, "the reader had a part of the turn")
            os.kill(os.getpid(), signal.SIGKILL)
        yield us.TurnEnd()


def die_in_a_turn(url: str, place: Path) -> None:
    """Drive a run, note the place of its reader in the middle of a turn, and be killed."""
    agent = us.Agent("clerk", model=Pours(place, "No, "), tools=[on_shelf])
    for event in agent.submit("go", system=us.ActorSystem("shop", store=url)).events():
        if isinstance(event, us.TextDelta):
            place.with_suffix(".new").write_text(event.id)
            place.with_suffix(".new").rename(place)


def left_in(url: str) -> list[us.StoredRunStatus]:
    with us.ActorSystem("look", store=url):
        database = open_store(url).database
    assert database is not None
    return [each for each in runs_in(database).statuses() if each.phase == "left"]


@pytest.mark.parametrize("reader", ["elsewhere", "live", "too early"])
def test_a_part_of_a_turn_whose_process_was_killed_is_taken_back(reader: str, url: str, tmp_path: Path) -> None:
    assert killed(lambda: die_in_a_turn(url, tmp_path / "place"))
    place = (tmp_path / "place").read_text()
    agent = us.Agent("clerk", model=Pours(None, "Yes: seven."), tools=[on_shelf])
    with us.ActorSystem("shop", store=url) as reads, us.ActorSystem("shop", store=url) as goes_on:
        (run,) = [each.run_id for each in left_in(url)]
        early = reads.handle(run).events(after=place, timeout=WAIT)
        with pytest.raises(TimeoutError):
            next(reads.handle(run).events(after=place, timeout=0))
        (handle,) = goes_on.recover(runners=[agent], adopt=True)
        live = handle.events(after=place)
        handle.result(timeout=WAIT)

        rest = list({"live": live, "elsewhere": reads.handle(run).events(after=place), "too early": early}[reader])

    dropped, *deltas, turn, end = rest
    assert isinstance(dropped, us.TurnDropped)
    assert (dropped.turn, dropped.attempt, dropped.text, dropped.by) == (2, 1, "", "")
    assert shown(deltas) == {(2, 2): "Yes: seven."}
    assert isinstance(turn, us.TurnFinished)
    assert isinstance(end, us.RunFinished)
    assert (turn.seq, end.seq) == (int(place.partition(".")[0]) + 1, turn.seq + 1)


def test_a_run_that_was_left_and_is_cancelled_has_a_last_event(url: str, tmp_path: Path) -> None:
    agent = worker("clerk", Effects(tmp_path / "effects", 1).tool(), ["a"])
    assert killed(lambda: agent.submit("go", system=us.ActorSystem("shop", store=url)).result())
    with us.ActorSystem("shop", store=url) as system:
        (run,) = [each.run_id for each in left_in(url)]
        assert system.handle(run).cancel()

        *before, end = system.handle(run).events()

    assert isinstance(end, us.RunFailed)
    assert isinstance(end.error, us.RunCancelled)
    assert [event.seq for event in numbered([*before, end])] == list(range(len(numbered(before)) + 1))


def test_events_come_from_a_process_that_drives_the_run_while_it_does(url: str, tmp_path: Path) -> None:
    go, place = tmp_path / "go", tmp_path / "run"

    def wait() -> str:
        eventually(go.exists, "the reader had the first events")
        return "done"

    def drive() -> None:
        agent = us.Agent("slow", model=us.ScriptedModel([calls("wait"), says("Done.")]), tools=[wait])
        handle = agent.submit("go", system=us.ActorSystem("shop", store=url))
        place.with_suffix(".new").write_text(handle.run_id)
        place.with_suffix(".new").rename(place)
        handle.result(timeout=WAIT)

    child = forked(drive)
    eventually(place.exists, "the run began")
    with us.ActorSystem("shop", store=url) as reads:
        events = reads.handle(place.read_text()).events(timeout=WAIT)
        first = next(events)
        go.touch()
        told = [first, *events]
    os.waitpid(child, 0)

    assert [type(event) for event in numbered(told)] == [
        us.TurnStarted,
        us.TurnFinished,
        us.ToolStarted,
        us.ToolFinished,
        us.TurnStarted,
        us.TurnFinished,
        us.RunFinished,
    ]


def test_a_run_whose_process_died_before_it_saw_that_it_is_cancelled_has_a_last_event(url: str, tmp_path: Path) -> None:
    agent = worker("clerk", Effects(tmp_path / "effects", 1).tool(), ["a"])
    assert killed(lambda: agent.submit("go", system=us.ActorSystem("shop", store=url)).result())
    with us.ActorSystem("shop", store=url) as system:
        (run,) = [each.run_id for each in left_in(url)]
        database = open_store(url).database
        assert database is not None
        database.write(lambda sql: sql.execute("UPDATE understudy_runs SET cancel_requested = 1.0"))

        assert system.recover(runners=[agent]) == []

        end = list(system.handle(run).events())[-1]
    assert isinstance(end, us.RunFailed)
    assert isinstance(end.error, us.RunCancelled)


def test_calls_that_were_done_before_the_kill_are_told_once(url: str, tmp_path: Path) -> None:
    noted = tmp_path / "effects"

    @us.tool(idempotent=True)
    def act(word: str) -> str:
        if word == "b" and not (tmp_path / "died").exists():
            eventually(lambda: result_is_stored(url), "the result of the first call was written")
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with noted.open("a") as file:
            file.write(word)
        return word

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        both = us.ModelTurn((us.ToolCall("c1", "act", {"word": "a"}), us.ToolCall("c2", "act", {"word": "b"})))
        return both if request.turn == 1 else says("Done.")

    agent = us.Agent("clerk", model=us.FunctionModel(next_turn), tools=[act])
    assert killed(lambda: agent.submit("go", system=us.ActorSystem("shop", store=url)).result())
    with us.ActorSystem("shop", store=url) as system, us.ActorSystem("shop", store=url) as reads:
        (handle,) = system.recover(runners=[agent])
        handle.result(timeout=WAIT)
        told = numbered(reads.handle(handle.run_id).events())

    assert noted.read_text() == "ab"
    assert [event.seq for event in told] == list(range(len(told)))
    assert [event.call.id for event in told if isinstance(event, us.ToolFinished)] == ["c1", "c2"]


def result_is_stored(url: str) -> bool:
    database = open_store(url).database
    assert database is not None
    return database.read(lambda sql: sql.execute(EARLY).fetchone()) is not None


def dying_in_a_tool(shown: Path, progress: int) -> us.Agent:
    """Return an agent whose process is killed in a call that may not be made again.

    Args:
        shown: what a reader in that process was shown.
        progress: how often the tool tells of its progress.
    """

    @us.tool
    def act(ctx: us.ToolContext) -> str:
        for number in range(progress):
            ctx.progress("at work", number)
        until = time.monotonic() + 1.0  # events that are shown before they are stored come at once
        while "ToolStarted" not in shown.read_text() and time.monotonic() < until:
            threading.Event().wait(0.005)
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    return us.Agent("clerk", model=us.ScriptedModel([calls("act")]), tools=[act])


def show(agent: us.Agent, url: str, shown: Path) -> None:
    """Drive a run, and note each event that has a number with its type."""
    shown.touch()
    for event in agent.submit("go", system=us.ActorSystem("shop", store=url)).events():
        with shown.open("a") as file:
            file.write(f"{event.id} {type(event).__name__}\n" if event.id else "")


@pytest.mark.parametrize("progress", [0, 3])
@pytest.mark.parametrize("cancelled", [False, True], ids=["goes on", "cancelled"])
def test_a_reader_that_comes_back_after_a_kill_in_a_tool_sees_the_rest_and_no_number_means_two_events(
    progress: int, cancelled: bool, url: str, tmp_path: Path
) -> None:
    agent = dying_in_a_tool(tmp_path / "shown", progress)
    assert killed(lambda: show(agent, url, tmp_path / "shown"))
    shown_before = dict(line.split() for line in (tmp_path / "shown").read_text().splitlines())
    with us.ActorSystem("shop", store=url) as system:
        (run,) = [each.run_id for each in left_in(url)]
        handle = system.handle(run)
        if cancelled:
            handle.cancel()
        else:
            (here,) = system.recover(runners=[agent])
            needs_approval(here.result(timeout=WAIT))

        rest = list(handle.events(after=list(shown_before)[-1], timeout=WAIT))

        now = {event.id: type(event).__name__ for event in handle.events(timeout=WAIT)}
    assert [type(event) for event in rest[-1:]] == [us.RunFailed if cancelled else us.RunFinished]
    assert {number: now.get(number) for number in shown_before} == shown_before


def test_what_readers_were_told_to_begin_before_a_kill_is_told_once(url: str, tmp_path: Path) -> None:
    agent = dying_in_a_tool(tmp_path / "shown", 0)
    assert killed(lambda: show(agent, url, tmp_path / "shown"))

    @us.tool(idempotent=True)
    def act() -> str:
        return "done"

    again = us.Agent("clerk", model=us.ScriptedModel([says("Done.")]), tools=[act])
    with us.ActorSystem("shop", store=url) as system:
        (handle,) = system.recover(runners=[again], adopt=True)
        handle.result(timeout=WAIT)
        told = numbered(system.handle(handle.run_id).events())

    assert [event.seq for event in told] == list(range(len(told)))
    assert [type(event) for event in told] == [
        us.TurnStarted,
        us.TurnFinished,
        us.ToolStarted,
        us.ToolFinished,
        us.TurnStarted,
        us.TurnFinished,
        us.RunFinished,
    ]
