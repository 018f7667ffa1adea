"""The jobs of `python -m tests.soak`, a few seconds of each."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from random import Random

import pytest

import understudy as us
from tests.hosts.processes import output
from tests.support import oracle, wire
from tests.support.paths import ROOT
from tests.support.scripts import WAIT, echo
from understudy.actors.runs.record import RunRecord
from understudy.actors.system.actor_system import runs_of
from understudy.actors.threads.promise import Promise
from understudy.orchestration.definitions.port import RunOptions

from .answers import HANGING, bytes_of_waiting_run, time_answers
from .cast import EXPECTED, SHARES, Kinds
from .conversations import talk_together
from .endings import ROUND, end_runs
from .faults import FAULTS, replayed, try_all
from .footprint import Footprint
from .kill_campaigns import crash_loops, kill_all, kill_at_instants, kill_fresh, outages, readers, stops
from .kill_cast import Notes
from .kills import Report as KillReport
from .mixed import Report, run_all
from .programs import Ends, end_programs, in_circles
from .readers import Reader
from .sessions import EACH, update_together
from .tree_machines import try_machines
from .trees import try_trees

NOT_IN_THE_WAY = ("dropped once", "delayed", "reset first", "429 first", "429 first, with a date", "500 first")
"""Faults after which a run ends as it does without one."""
CASES = wire.cases()[::4]


def unheard(text: str) -> None:
    """Take progress."""


def test_runs_that_were_ended_leave_nothing_behind() -> None:
    answers = end_runs(ROUND, unheard).answers

    assert answers["RunCancelled"] == ROUND // 2
    assert answers.total() == ROUND


def test_each_kind_of_run_that_hangs_is_timed_at_a_cancel_and_at_a_deadline() -> None:
    found = time_answers(2)

    assert {what for what, _ in found} == {kind.name for kind in HANGING}
    assert {way for _, way in found} == {"cancel", "deadline"}
    assert all(0 < times.middle <= times.late <= times.longest for times in found.values())


def test_a_run_that_waits_for_its_model_takes_eleven_kilobytes_at_most() -> None:
    most = inf if oracle.ALL else 11_000  # the lines of runs that are replayed take more than the runs

    assert 1_000 < bytes_of_waiting_run(100) <= most


@pytest.fixture(autouse=True)
def nothing_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep pytest from collecting what is logged: a traceback holds its frames, and all that stands in them."""
    monkeypatch.setattr(logging.getLogger("understudy"), "disabled", True)


def test_every_one_of_many_runs_is_accounted_for_and_nothing_grows() -> None:
    report = run_all(500, unheard)

    assert report.endings.total() == 500
    assert {kind for kind, _ in report.endings} == set(EXPECTED)
    assert [number for number, _ in report.footprints] == [100, 200, 300, 400, 500]


def test_trees_that_were_ended_are_completed_once_and_leave_nothing_behind() -> None:
    report = end_programs(100, 7, unheard)

    assert {"Complete", "RunCancelled", "RunTimedOut"} <= set(report.ends)
    assert report.runs > 300


def test_no_tree_of_supervisors_hangs_or_is_left_as_otp_would_not_leave_it() -> None:
    endings = try_trees(120, unheard)

    assert endings.total() == 120
    assert all(endings[how] for how in ("works", "given up", "stopped in a storm"))


def test_no_tree_of_machines_waits_for_ever_or_is_left_as_otp_would_not_leave_it() -> None:
    endings = try_machines(300, unheard)

    assert endings.total() == 300
    assert all(endings[how] for how in ("works", "given up", "stopped in a storm"))


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_each_change_of_a_session_is_the_last_or_seen_or_told_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, processes = ("memory:", 1) if kind == "memory" else (f"sqlite:///{tmp_path}/shop.db", 4)
    if kind == "postgresql":
        url = request.getfixturevalue("postgres_url")
    became = update_together(url, processes=processes, threads=16 // processes, runs=5)

    assert became.total() == 16 * 5 * EACH
    assert became["told"]  # certain: the first runs of all threads of a process read before any of them saves


def test_processes_that_talk_in_one_conversation_on_a_server_take_turns_and_lose_none(postgres_url: str) -> None:
    assert talk_together(postgres_url, processes=4, threads=8, runs=1) == 32


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize(
    ("campaign", "trials", "least"),
    [(partial(kill_all, depth=4), 12, 12), (kill_at_instants, 11, 3), (kill_fresh, 2, 2)],
    ids=["writes", "instants", "fresh"],
)
def test_a_run_whose_process_is_killed_goes_on_to_its_end(
    campaign: Callable[..., KillReport], trials: int, least: int
) -> None:
    report = campaign(unheard, trials=trials, seed=7)

    assert report.faults == []
    assert report.kills >= least


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    ("campaign", "trials", "seed", "least"),
    [
        (crash_loops, 6, 343, 12),
        (partial(outages, between=(6.0, 7.0)), 12, 7, 6),
        (stops, 12, 7, 12),
        (readers, 4, 7, 2),
    ],
    ids=["crash loops", "outages", "stops", "readers"],
)
def test_every_accepted_run_ends_and_nothing_is_done_twice_whatever_happens_to_processes_and_stores(
    campaign: Callable[..., KillReport],
    trials: int,
    seed: int,
    least: int,
    kind: str,
    request: pytest.FixtureRequest,
) -> None:
    url = "" if kind == "sqlite" else str(request.getfixturevalue("postgres_url"))
    report = campaign(unheard, trials=trials, seed=seed, url=url)

    assert not report.faults, "\n".join(report.faults)
    assert report.kills >= least


def test_a_thousand_runs_are_of_the_kinds_they_should_be() -> None:
    kinds = Kinds()
    dealt = [kinds.next() for _ in range(2_000)]

    for thousand in (dealt[:1_000], dealt[1_000:]):
        assert {kind: thousand.count(kind) for kind in SHARES} == SHARES


@pytest.mark.skipif(not CASES, reason=wire.MISSING)
def test_a_run_whose_provider_is_out_of_order_ends_with_an_outcome_or_a_named_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("UNDERSTUDY_OFFLINE", raising=False)
    with wire.replaying() as server:
        endings = try_all(replayed(CASES, server), len(CASES) * len(FAULTS), unheard)

    found = {fault: sorted(how for of, how in endings.elements() if of == fault) for fault in FAULTS}
    assert all(len(hows) == len(CASES) for hows in found.values())
    assert len(set(found["whole"])) > 2
    for fault in NOT_IN_THE_WAY:
        assert found[fault] == found["whole"], fault
    assert set(found["429 always"]) == {"RateLimited"}
    assert set(found["500 always"]) == {"ProviderError"}
    assert set(found["too late"]) == {"ProviderTimeout"}


# What checks must be able to fail.


def test_a_thread_a_file_and_an_object_too_many_are_told() -> None:
    told = output("""
        import os, threading
        import understudy as us
        from tests.soak.footprint import Footprint

        before, gate = Footprint.now(), threading.Event()
        threading.Thread(target=gate.wait).start()
        with open(os.devnull), us.ActorSystem("kept") as kept:
            more = Footprint.now().beyond(before)
        gate.set()
        print(more["threads"], more["files"], more["ActorSystem"])
    """)

    assert told == "1 1 1\n"


class Circle(Promise[object]):
    """A promise of one test alone: threads of other tests may leave circles meanwhile."""

    __module__ = Promise.__module__


def test_a_circle_of_references_is_told() -> None:
    gc.collect()
    gc.disable()
    try:
        itself = Circle()
        itself.set(itself)
        del itself
        assert in_circles()["Circle"] == 1
        assert in_circles()["Circle"] == 0
    finally:
        gc.enable()


def test_a_run_that_was_completed_twice_is_told() -> None:
    ends = Ends()
    with us.ActorSystem("twice") as system, ends.counted():
        record = runs_of(system).prepare(echo("clerk"), "go", RunOptions())
        runs_of(system).launch(record)
        assert record.promise.wait(WAIT)
        RunRecord.complete(record, us.RunCancelled("once more"))

        with pytest.raises(AssertionError, match=f"completed, but not once: .*{record.run_id}: 2"):
            ends.check()


def test_a_reader_that_missed_an_event_or_saw_one_twice_is_told(tmp_path: Path) -> None:
    class Left(Reader):
        """Comes back without its number."""

        def leave(self) -> None:
            self._last.clear()

    with us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/shop.db") as system:
        agent = us.Agent("clerk", model=us.ScriptedModel([us.says("done")]))
        run = agent.submit("go", system=system).result(10.0).run_id
        events = list(system.handle(run).events())
        reader, twice = Reader(Notes(tmp_path / "one"), Random(1)), Left(Notes(tmp_path / "two"), Random(1))
        reader.finish(system, [run])
        for _ in range(2):
            twice.finish(system, [run])
            twice.leave()

    assert reader.faults(run, events) == []
    assert "missed [(3, 'RunFinished')]" in reader.faults(run, [*events, replace(events[-1], seq=3)])[0]
    assert "saw twice [(0, 'TurnStarted'), (1, 'TurnFinished'), (2, 'RunFinished')]" in twice.faults(run, events)[0]


class Misfit:
    """Of a class that says no module's name."""

    __module__ = property(lambda self: 7)  # pyright: ignore[reportAssignmentType]


def test_classes_of_any_make_are_passed_over() -> None:
    misfit = Misfit()

    assert not isinstance(type(misfit).__module__, str)
    assert "Misfit" not in Footprint.now().objects


@pytest.mark.parametrize("growth", [0.0, 2.0])
def test_the_slope_is_the_growth_for_every_thousand_runs(growth: float) -> None:
    empty = Footprint.now()
    footprints = [(runs, footprint(empty, round(growth * runs / 1_000))) for runs in (500, 1_000, 1_500, 4_000)]
    report = Report(endings=Counter(), footprints=footprints)

    assert report.slope(lambda now: now.threads) == pytest.approx(growth)


def footprint(like: Footprint, threads: int) -> Footprint:
    return Footprint(threads=threads, files=like.files, objects=like.objects, tracked=like.tracked, memory=like.memory)


def soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.soak", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_program_tells_of_its_progress_and_of_what_it_found() -> None:
    done = soak("mixed", "--runs", "100")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "100 runs ended, of 100\n"
    assert "  100  in all" in done.stdout
    assert "memory in use" in done.stdout


def test_help_names_every_job() -> None:
    out = soak("--help").stdout

    assert all(f"\n  {job}  " in out for job in ("endings", "mixed", "faults", "waits", "trees"))
