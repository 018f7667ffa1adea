"""`python -m tests.soak`: many runs that are ended, fail, hang or crash, and what is left of them."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.support import wire
from tests.support.aimock import NotInstalled, installed, serving
from tests.support.peers import PROVIDERS, Peer
from tests.support.wait_programs import drawn
from tests.support.wait_stage import perform_all

from .answers import bytes_of_waiting_run, time_answers
from .conversations import fill, talk_together
from .endings import end_runs
from .faults import chaotic, replayed, try_all
from .forks import fork_all
from .kill_campaigns import crash_loops, kill_all, kill_at_instants, kill_fresh, outages, readers, stops
from .kills import Report
from .mixed import run_all
from .programs import end_programs
from .replays import replay_all
from .sessions import EACH, update_together
from .tree_machines import try_machines
from .trees import try_trees

DESCRIPTION = """\
Carry out many runs that go wrong, and check that each is accounted for and that nothing is left behind.
Exit status: 0 when all of it holds, 1 with the reason when not, 2 for wrong options or when a job has nothing to
work with. Run it from the project's root.
"""

JOBS = """\
examples:
  python -m tests.soak                      all jobs, in half an hour
  python -m tests.soak endings mixed trees  three of them: no recordings, no node
  python -m tests.soak mixed --runs 1000    a smaller one, in seconds
  python -m tests.soak stops --seed 4711 --runs 1
                                            the trial of a report that named this seed once more
  python -m tests.soak sessions --store postgresql://ada@db/soak
                                            in a new, empty database on a server

jobs:
  endings  Hold runs up in every way that bench/situations.py knows and in some more, end half of them by cancel() and half
           by a deadline, count what hangs, and let go. Afterwards there must be no more threads at work, open files and
           objects of understudy than before. About 30 runs a second. Then tell how soon a fifth as many runs of each kind
           answer while a model, a tool, a run inside or a callback hangs: a minute for 200 of each; and how much memory a
           run takes that waits.
  mixed    Two systems and four agents; of a thousand runs 100 have a failing tool, 20 a hanging one, 50 a crashing
           agent, 50 pause, 50 have a run inside. Each must end as its kind does; what hangs is counted, every
           hundred runs it is let go, and then threads, files and objects must be as few as after the first fifth.
           Growth for every 1,000 runs is the slope of the straight line that fits best. About 100 runs a second.
  faults   Recorded exchanges behind a server that drops, cuts, delays and refuses (UNDERSTUDY_WIRE names their
           folder), and aimock (node and npm) rolling dice, half and half. Each run must end in an outcome or an error
           of understudy's own, in a minute at most. About 30 runs a second, and 4 with aimock.
  chaos    As many runs of one key, and aimock rolling dice: the refusals of each hold all others back. Each must end as those of
           faults do. About 2 runs a second.
  waits    Random programs of runs that wait for one another, for slots of tools, for conversations and for places of
           max_runs. Each must end in 5 seconds, and the first wait that is refused must be refused in a state from
           which a model, searched through, may deadlock. About 50 programs a second.
  trees    As many trees of supervisors as there are to be runs, three levels deep, whose actors fail in storms, also while
           their groups are halted or begin. Each ask must be answered, each actor be stopped and told of once, and be
           alive or not as OTP's rules allow. About 40 trees a second.
  machines The same trees as machines alone: no thread runs, and chance decides which step is next. No machine may wait for an
           answer that never comes. About 300 trees a second.
  forks    Fork while threads write to an SQLite store, close it and open it again, and while earlier children still write. All
           rows whose write returned must be in the file, and the file be whole. About 40 forks a second.
  sessions As many runs, in 16 threads, and then in 16 threads each of 4 processes, change the same values of one session, in
           memory and in an SQLite file. Each change must be the last one, be seen by the run after it, or be told in
           exactly one event.
  conversations  Write as many conversations into one SQLite file, and load some. Then 16 threads each of 4 processes talk in
           one conversation: each run must know all turns before its own. About 5,000 conversations a second.
  programs Random agents, groups and workflows, of which two in three are cancelled or have a deadline within 20 ms, and which go
           on after pauses, limits and errors. Each promise must be completed once, no work go on after the end, and threads,
           files and objects be as few as before; no tree may leave a circle of references, but for tracebacks.
           About 20 trees a second. Prints a seed.
  replays  Random agents, groups and workflows, with callbacks, errors, pauses, compaction and streams. Each run's line of events
           must come to the run's own state, session and spending, at each place as it is written, and at many places as it
           is read again. About 6 runs a second. Prints a seed, and a fault with the seed of its run: --seed and --runs 1.
  kills    Kill a process before and after each write of its runs (--runs: so many of them, by chance), and then 20 processes,
           one after another, that go on with them. The last one must bring each run to its end: nothing finished is done
           again, nothing is lost, and no token works twice. About 300 kills a minute.
  instants Kill a process of such a run at an instant by chance, and every other time one that goes on too.
  fresh    As kills, with a fresh interpreter for each process. About 20 kills a minute.
  crashloops  Kill a process at an instant by chance, and then three, one after another, within 250 ms of their recover(). The
           last process must bring each run to its end, as in kills. About 300 kills a minute.
  outages  Have the store go away for 1 to 20 seconds at a write by chance, of a run that begins or that is taken over: an
           SQLite file is locked, moved away, full or read-only, a server refuses, cuts or stalls. The process itself or
           another one goes on. No run may be over because of that. About 40 outages a minute.
  stops    Stop a process in order at an instant by chance: by stop() with some seconds of grace, by the end of a with block,
           or by a handler of SIGTERM. Others go on, and may be stopped too. No run may be over because of that. About
           150 stops a minute.
  readers  Kill processes while readers in other processes go away and come back with the last number that they saw. They must
           miss no event, and see none twice. About 60 kills a minute.
           These four print a seed, and each fault with the seed of its trial: --seed and --runs 1 repeat that trial.
"""

RUNS = {
    "endings": 1_000,
    "mixed": 10_000,
    "faults": 1_000,
    "chaos": 200,
    "waits": 2_000,
    "trees": 2_000,
    "machines": 2_000,
    "forks": 1_000,
    "sessions": 2_560,
    "conversations": 100_000,
    "programs": 2_000,
    "replays": 5_000,
    "kills": 1_000,
    "instants": 1_000,
    "fresh": 30,
    "crashloops": 300,
    "outages": 100,
    "stops": 200,
    "readers": 100,
}
CAMPAIGNS: dict[str, Callable[..., Report]] = {
    "kills": kill_all,
    "instants": kill_at_instants,
    "fresh": kill_fresh,
    "crashloops": crash_loops,
    "outages": outages,
    "stops": stops,
    "readers": readers,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program."""
    options = _parser().parse_args(arguments)
    jobs: dict[str, Callable[[int], None]] = {
        "endings": _endings,
        "mixed": _mixed,
        "faults": _faults,
        "chaos": _chaos,
        "waits": _waits,
        "trees": _trees,
        "machines": _machines,
        "forks": _forks,
        "sessions": _sessions,
        "conversations": _conversations,
        "programs": partial(_programs, seed=options.seed),
        "replays": partial(_replays, seed=options.seed),
    }
    store: str = options.store
    if store:
        jobs["sessions"] = partial(_sessions, stores=((store, 4),))
        jobs["conversations"] = partial(_talk_in, store)
    jobs |= {name: partial(_kills, campaign, url=store, seed=options.seed) for name, campaign in CAMPAIGNS.items()}
    for job in options.jobs or list(jobs):
        print(f"{job}:", flush=True)
        try:
            jobs[job](options.runs or RUNS[job])
        except AssertionError as error:
            print(f"  FAILED: {error}")
            return 1
        except (FileNotFoundError, NotInstalled) as error:
            print(f"  nothing to work with: {error}")
            return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description=DESCRIPTION,
        epilog=JOBS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "jobs",
        nargs="*",
        metavar="JOB",
        type=_job,
        help="one of those below; all of them if none is named",
    )
    sizes = ", ".join([f"{runs:,} for {job}" for job, runs in RUNS.items()])
    parser.add_argument("--runs", type=_positive, metavar="N", help=f"how many runs (default {sizes})")
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="what a job with programs, replays, kills, stops or outages printed, to do the same again (default: by chance)",
    )
    parser.add_argument(
        "--store",
        default="",
        metavar="URL",
        help="where sessions, conversations and runs that are killed are, as postgresql://USER@HOST/DATABASE",
    )
    return parser


def _job(text: str) -> str:
    if text not in RUNS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(RUNS)}, got {text!r}")
    return text


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {number}")
    return number


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _endings(runs: int) -> None:
    report = end_runs(runs, _progress)
    for answer, number in sorted(report.answers.items()):
        print(f"  {number:>7,}  {answer}")
    before, after = report.before.memory // 1024, report.after.memory // 1024
    print(
        f"  threads, files and objects: as before; memory in use: {before:,} KiB before, {after:,} KiB after",
        flush=True,
    )
    print("  from cancel() or a deadline to the answer, in ms:      half   99 %   longest   within 50 ms", flush=True)
    for (what, way), times in time_answers(max(1, runs // 5)).items():
        middle, late, longest = [f"{1000 * seconds:.1f}" for seconds in (times.middle, times.late, times.longest)]
        in_time = f"{times.in_time} of {times.answers}"
        print(f"    {f'{what} hangs, {way}':<48} {middle:>8} {late:>6} {longest:>9}   {in_time}", flush=True)
    kibibytes = bytes_of_waiting_run(300) / 1024
    print(f"  a run whose model hangs takes {kibibytes:.1f} KiB, without the stack of its thread", flush=True)


def _mixed(runs: int) -> None:
    report = run_all(runs, _progress)
    _show(report.endings)
    first, last = report.footprints[0][1], report.footprints[-1][1]
    print("  after the first fifth, at the end, and growth for every 1,000 runs:")
    print(
        f"    threads at work   {first.threads:>9,} {last.threads:>9,} {report.slope(lambda now: now.threads):+11,.2f}"
    )
    print(f"    open files        {first.files:>9,} {last.files:>9,} {report.slope(lambda now: now.files):+11,.2f}")
    ours = report.slope(lambda now: sum(now.objects.values()))
    print(f"    own objects       {sum(first.objects.values()):>9,} {sum(last.objects.values()):>9,} {ours:+11,.2f}")
    print(
        f"    all objects       {first.tracked:>9,} {last.tracked:>9,} {report.slope(lambda now: now.tracked):+11,.2f}"
    )
    kibibytes = report.slope(lambda now: now.memory / 1024)
    print(f"    memory in use     {first.memory // 1024:>6,} KiB {last.memory // 1024:>5,} KiB {kibibytes:+7,.1f} KiB")


def _faults(runs: int) -> None:
    cases = wire.cases()
    if not cases:
        raise FileNotFoundError(wire.MISSING)
    with _aimock() as peer:
        with wire.replaying() as server:
            _show(try_all(replayed(cases, server), runs - runs // 2, _progress))
        _show(try_all(chaotic(peer), runs // 2, _progress))


def _chaos(runs: int) -> None:
    with _aimock() as peer:
        _show(try_all(chaotic(peer, PROVIDERS[:1]), runs, _progress))


@contextmanager
def _aimock() -> Generator[Peer]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotInstalled("no node or no npm on the PATH: aimock cannot run")
    log = Path(tempfile.mkdtemp(prefix="understudy-soak-")) / "aimock.txt"
    with serving(node, installed(npm), log) as address:
        yield Peer(address)


def _waits(programs: int) -> None:
    seed = random.randrange(1_000_000)
    print(f"  programs from seed {seed} on", flush=True)
    some, refused = perform_all(programs, seed, drawn)
    print(f"  {programs:>7,}  ended, {some:,} of them with {refused:,} waits refused", flush=True)


def _trees(trees: int) -> None:
    for how, number in sorted(try_trees(trees, _progress).items()):
        print(f"  {number:>7,}  {how}", flush=True)


def _machines(trees: int) -> None:
    for how, number in sorted(try_machines(trees, _progress).items()):
        print(f"  {number:>7,}  {how}", flush=True)


def _forks(forks: int) -> None:
    report = fork_all(forks, _progress)
    print(f"  {report.forks:>7,}  forks, the longest in {report.longest_fork * 1000:.0f} ms")
    print(f"  {report.acknowledged:>7,}  rows, and none is lost", flush=True)


def _sessions(runs: int, stores: Sequence[tuple[str, int]] = ()) -> None:
    with tempfile.TemporaryDirectory(prefix="understudy-soak-") as folder:
        for url, processes in stores or (("memory:", 1), (f"sqlite:///{folder}/sessions.db", 4)):
            became = update_together(url, processes=processes, threads=16, runs=max(1, runs // processes // 16))
            print(f"  {became.total():>7,}  updates by {EACH} of each run in {url.partition(':')[0]}", flush=True)
            for what, number in sorted(became.items()):
                print(f"  {number:>7,}  {what}", flush=True)


def _conversations(conversations: int) -> None:
    with tempfile.TemporaryDirectory(prefix="understudy-soak-") as folder:
        filled = fill(Path(folder), conversations)
        print(f"  {conversations:>7,}  conversations in {filled.megabytes:.0f} MB, written in {filled.seconds:.1f} s")
        print(f"  {filled.load * 1e6:>7,.0f}  µs to load one", flush=True)
        _talk_in(f"sqlite:///{folder}/one.db", conversations)


def _talk_in(url: str, conversations: int) -> None:
    turns = talk_together(url, processes=4, threads=16, runs=min(10, max(1, conversations // 1000)))
    print(f"  {turns:>7,}  turns of 4 processes in one conversation, and none is lost or out of order", flush=True)


def _programs(trees: int, seed: int | None) -> None:
    seed = random.randrange(1_000_000) if seed is None else seed
    print(f"  seed {seed}", flush=True)
    report = end_programs(trees, seed, _progress)
    for how, number in sorted(report.ends.items()):
        print(f"  {number:>7,}  {how}")
    print(f"  {report.runs:>7,}  runs, each completed once")


def _replays(runs: int, seed: int | None) -> None:
    seed = random.randrange(1_000_000) if seed is None else seed
    print(f"  seed {seed}", flush=True)
    report = replay_all(runs, seed, _progress)
    for what, number in (*sorted(report.ends.items()), *sorted(report.not_replayed.items())):
        print(f"  {number:>7,}  {what}")
    print(f"  {report.kinds.total():>7,}  events of {len(report.kinds)} kinds, in {report.lines:,} lines")
    print(f"  {report.compared:>7,}  states and {report.trees:,} trees of lines compared", flush=True)
    assert not report.faults, "\n".join(report.faults)


def _kills(campaign: Callable[..., Report], trials: int, url: str, seed: int | None) -> None:
    seed = random.randrange(1_000_000) if seed is None else seed
    print(f"  seed {seed}", flush=True)
    report = campaign(_progress, trials=trials, url=url, seed=seed)
    for scenario, number in report.kinds.items():
        print(f"  {number:>7,}  kills, stops or outages of {scenario}")
    minutes = report.seconds / 60
    print(
        f"  {report.kills:>7,}  in all, {report.kills / minutes:,.0f} a minute; {len(report.faults)} faults",
        flush=True,
    )
    assert not report.faults, "\n".join(report.faults)


def _show(endings: Counter[tuple[str, str]]) -> None:
    for (kind, how), number in sorted(endings.items()):
        print(f"  {number:>7,}  {kind}: {how}")
    print(f"  {endings.total():>7,}  in all", flush=True)


if __name__ == "__main__":
    os.environ.pop("UNDERSTUDY_OFFLINE", None)  # the models here are on this host
    sys.exit(main())
