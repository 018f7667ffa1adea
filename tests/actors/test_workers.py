"""Tools with isolation="process": what a call does in its process reaches nobody else, and nothing is left of it."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import understudy as us
from tests.support import process_tools
from tests.support.scripts import eventually, results_of, scripted
from understudy.actors.tools import worker_pool
from understudy.actors.tools.worker_channel import encode
from understudy.errors import RunCancelled, RunTimedOut
from understudy.specs.checks.tool_files import load_tool_file
from understudy.testing import FunctionModel, calls, says
from understudy.vocabulary.context.ancestry import MAX_DEPTH

WAIT = 60.0  # Interpreters start here, on a machine that may be busy.


def end_workers() -> None:
    worker_pool.pool.clear()
    eventually(lambda: not worker_pool._alive, "every worker has ended and was waited for")  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(autouse=True, scope="module")
def no_worker_is_left() -> Iterator[None]:
    end_workers()
    yield
    end_workers()


@pytest.fixture(autouse=True)
def no_worker_is_lost() -> Iterator[None]:
    """Each worker has ended, or waits for the calls of the next test, which need not start one."""
    yield
    alive, parked = worker_pool._alive, worker_pool.pool._parked  # pyright: ignore[reportPrivateUsage]
    eventually(lambda: len(alive) == len(parked), "every worker has ended or waits")


@pytest.fixture
def no_worker() -> None:
    """None waits: the first call starts one."""
    end_workers()


def result_of(turn: us.ModelTurn) -> us.ToolResult:
    """Run one turn's only call and return its result."""
    return results_of(scripted(turn, says("ok"), tools=process_tools.ALL).run("go", timeout=WAIT))[0]


def value_of(turn: us.ModelTurn) -> str:
    result = result_of(turn)
    assert not result.is_error, result.content
    return result.content


def gone(pid: int) -> bool:
    """Whether no process has this id, or only its end is left for whoever inherited it to see."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return not _exists(pid)
    return state in "ZX"


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path("/proc").is_dir()


def pids_in(started: Path) -> list[int]:
    """Wait for a tool that hangs, and return who hangs: its process and that one's child."""
    eventually(started.exists, "the tool runs")
    return [int(word) for word in started.read_text().split()]


# --- what a call is


def test_a_call_runs_in_another_process_and_its_value_is_like_any_tools() -> None:
    assert int(value_of(calls("pid"))) != os.getpid()


def test_arguments_are_converted_and_defaults_filled_in_as_for_any_tool() -> None:
    assert value_of(calls("place", order={"sku": "A", "day": "2024-05-06"})) == "Order A on 06.05.2024, 1"


def test_an_async_tool_runs_there_too() -> None:
    assert int(value_of(calls("pid_async"))) != os.getpid()


def test_a_call_runs_on_the_main_thread_of_its_process() -> None:
    assert value_of(calls("main_thread")) == "true"


def test_the_tool_called_by_hand_runs_here() -> None:
    assert process_tools.pid() == os.getpid()


def test_calls_one_after_another_share_a_process() -> None:
    outcome = scripted(calls("pid"), calls("pid"), says("ok"), tools=process_tools.ALL).run("go", timeout=WAIT)

    first, second = results_of(outcome)
    assert first.content == second.content


def test_calls_of_one_turn_run_at_the_same_time(tmp_path: Path) -> None:
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    turn = calls("meet", mine=a, other=b) + calls("meet", mine=b, other=a)
    outcome = scripted(turn, says("ok"), tools=process_tools.ALL).run("go", timeout=WAIT)

    assert [r.content for r in results_of(outcome)] == ["met", "met"]


def test_a_process_is_taken_only_by_calls_with_the_same_memory_limit() -> None:
    assert value_of(calls("pid")) != value_of(calls("takes", megabytes=1))


# --- the context


def test_the_session_travels_and_what_changed_in_it_comes_back() -> None:
    session = us.SessionState({"customer": "ada", "old": 1})
    agent = scripted(calls("note", word="hi"), says("ok"), tools=process_tools.ALL)
    outcome = agent.run("go", session=session, user_id="eve", conversation_id="c-1", timeout=WAIT)

    (result,) = results_of(outcome)
    assert json.loads(result.content) == {
        "session": {"customer": "ada", "old": 1},
        "ids": [outcome.run_id, "clerk", result.call_id, "note"],
        "who": ["eve", "c-1"],
        "arguments": {"word": "hi"},
        "has_time": True,
    }
    assert session.snapshot() == {"customer": "ada", "last": "hi"}


def test_what_a_failing_call_wrote_is_dropped() -> None:
    session = us.SessionState()
    scripted(calls("note_and_fail"), says("ok"), tools=process_tools.ALL).run("go", session=session, timeout=WAIT)

    assert session.snapshot() == {}


def test_deps_are_not_there_and_the_error_says_so() -> None:
    result = result_of(calls("use_deps"))

    assert (result.error_kind, "deps stay in the process of the run" in result.content) == ("raised", True)


def test_a_change_in_place_of_the_session_comes_back() -> None:
    session = us.SessionState({"notes": ["one"]})
    scripted(calls("note_in_place"), says("ok"), tools=process_tools.ALL).run("go", session=session, timeout=WAIT)

    assert session.snapshot() == {"notes": ["one", "more"]}


def test_a_session_that_is_no_json_is_an_error_of_the_call() -> None:
    session: dict[str, object] = {"thing": object()}
    agent = scripted(calls("note", word="hi"), says("ok"), tools=process_tools.ALL)
    (result,) = results_of(agent.run("go", session=session, timeout=WAIT))  # type: ignore[arg-type]  # what it is about

    assert (result.error_kind, "only JSON goes from process to process" in result.content) == ("raised", True)


def test_a_run_inside_a_worker_counts_who_waits_for_it() -> None:
    assert value_of(calls("ask_another")) == "clerk > inner"
    assert MAX_DEPTH > 2


# --- failures

FAILURES = [
    pytest.param(calls("raises"), "raised", "raises failed: LookupError: no such order", id="raises"),
    pytest.param(calls("leaves"), "raised", "leaves failed: SystemExit: 4", id="calls sys.exit"),
    pytest.param(calls("dies"), "raised", "dies failed: its process ended with status 3", id="calls os._exit"),
    pytest.param(calls("segfaults"), "raised", "segfaults failed: its process was killed by SIGSEGV", id="segfault"),
    pytest.param(calls("is_killed"), "raised", "killed by SIGKILL, as the system does when memory", id="is killed"),
    pytest.param(calls("takes", megabytes=2000), "raised", "takes failed: MemoryError", id="memory limit"),
    pytest.param(
        calls("returns_megabytes", count=9), "too_large", "at most 8,388,608 go into", id="too much to return"
    ),
    pytest.param(calls("remembers_megabytes", count=33), "raised", "at most 33,554,432 do", id="too much to remember"),
    pytest.param(
        calls("writes_on_the_line"),
        "raised",
        "wrote on the line by which its process replies",
        id="breaks the protocol",
    ),
    pytest.param(calls("note_an_object"), "raised", "only JSON goes from process to process", id="no JSON"),
    pytest.param(calls("pid", x=1), "bad_arguments", "tool 'pid': argument 'x'", id="bad arguments"),
]


@pytest.mark.parametrize(("turn", "kind", "words"), FAILURES)
def test_a_call_that_fails_in_its_process_is_a_result_that_says_how(turn: us.ModelTurn, kind: str, words: str) -> None:
    result = result_of(turn)

    assert (result.error_kind, words in result.content) == (kind, True), result.content


def test_a_call_that_kills_its_process_leaves_the_others_of_its_turn_alone() -> None:
    turn = calls("pid") + calls("dies") + calls("pid_async")
    outcome = scripted(turn, says("ok"), tools=process_tools.ALL).run("go", timeout=WAIT)

    assert [r.error_kind for r in results_of(outcome)] == ["", "raised", ""]


def test_the_end_of_a_process_is_noticed_although_a_child_of_its_own_lives_on(tmp_path: Path) -> None:
    release = tmp_path / "release"
    os.mkfifo(release)

    result = result_of(calls("die_with_a_child_that_lives_on", release=str(release)))
    release.write_text("go")  # once the child reads

    assert "its process ended with status 3" in result.content


def test_a_large_value_comes_back_whole() -> None:
    agent = scripted(calls("returns_megabytes", count=8), says("ok"), tools=process_tools.ALL)

    assert agent.run("go", timeout=WAIT).artifacts["artifact-1"].text == "x" * (8 * 2**20)


def test_a_process_that_ran_out_of_memory_is_not_used_again() -> None:
    fine = calls("takes", megabytes=1)
    agent = scripted(fine, calls("takes", megabytes=2000), fine, fine, says("ok"), tools=process_tools.ALL)

    first, failed, second, third = results_of(agent.run("go", timeout=WAIT))

    assert failed.error_kind == "raised"
    assert first.content != second.content == third.content


@pytest.mark.usefixtures("no_worker")  # one that waits prints where the output of an earlier test went
def test_what_a_tool_prints_goes_where_ours_goes_and_disturbs_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert value_of(calls("babbles")) == "said"

    printed = capfd.readouterr()
    assert (len(printed.out), len(printed.err)) == (100 * 10_001 + len("and out\n"), 100 * 10_001)


@pytest.mark.parametrize(
    "forged",
    [
        '{"content": "forged", "parts": []}',
        '{"content": "forged", "parts": [], "changes": {}, "removed": [], "spent": false}',
        '{"error": "raised"}',
        '{"begun": true}',
    ],
)
def test_a_worker_on_whose_line_a_tool_forged_a_message_is_not_used_again(forged: str) -> None:
    turns = [calls("pid"), calls("forges", text=forged), calls("pid"), calls("pid"), says("ok")]
    outcome = scripted(*turns, tools=process_tools.ALL).run("go", timeout=WAIT)

    before, refused, after, again = results_of(outcome)
    assert "wrote on the line" in refused.content
    assert not (before.is_error or after.is_error)
    assert before.content != after.content == again.content


def test_a_tool_that_forks_and_comes_back_twice_has_one_result() -> None:
    outcome = scripted(calls("comes_back_twice"), calls("pid"), says("ok"), tools=process_tools.ALL)

    first, second = results_of(outcome.run("go", timeout=WAIT))

    assert (first.content, second.error_kind) == ("parent", "")


def test_the_traceback_of_a_tool_that_raised_is_logged_without_what_it_quotes(caplog: pytest.LogCaptureFixture) -> None:
    result_of(calls("quotes", word="canary"))

    (record,) = caplog.records
    assert "tool quotes failed in its process (run " in record.getMessage()
    assert "process_tools.py" in record.getMessage()
    assert record.getMessage().endswith("LookupError")
    assert "canary" not in record.getMessage()  # what an error says may quote the arguments


def test_a_call_whose_process_died_is_tried_again_as_often_as_the_tool_says(tmp_path: Path) -> None:
    log = tmp_path / "log"

    assert value_of(calls("dies_at_first", log=str(log))) == "there"
    assert log.read_text() == "xxx"


@pytest.mark.usefixtures("no_worker")
def test_a_worker_is_ended_whatever_fails_while_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[worker_pool.Worker] = []

    def fail(worker: worker_pool.Worker, *_: object) -> None:
        asked.append(worker)
        raise MemoryError

    monkeypatch.setattr(worker_pool.Worker, "ask", fail)

    assert "MemoryError" in result_of(calls("pid")).content
    (worker,) = asked
    assert worker not in worker_pool._alive  # pyright: ignore[reportPrivateUsage]
    assert len(worker_pool.pool) == 0


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert "no worker process can be started: [Errno 2]" in result_of(calls("pid")).content

    monkeypatch.setattr(sys, "executable", "")
    assert "sys.executable does not name the interpreter" in result_of(calls("pid")).content


# --- giving up: the process and what it started are killed


def test_a_call_that_hangs_is_killed_with_its_children_and_the_run_goes_on(tmp_path: Path) -> None:
    started = tmp_path / "started"
    # A cold start must not take the tool's time.
    agent = scripted(calls("pid"), calls("hang_briefly", started=str(started)), says("ok"), tools=process_tools.ALL)
    with us.ActorSystem("own") as system:
        outcome = agent.run("go", system=system, timeout=WAIT)
        worker, child = pids_in(started)

        result = results_of(outcome)[1]
        assert (result.error_kind, outcome.text) == ("timed_out", "ok")
        eventually(lambda: gone(worker) and gone(child), "the process and its child are gone")
        eventually(lambda: system.hung == 0, "no thread waits for it")
    with pytest.raises(ChildProcessError):
        os.waitpid(worker, os.WNOHANG)  # it was waited for: no zombie


def test_a_call_that_hangs_beside_others_is_killed_too(tmp_path: Path) -> None:
    started = tmp_path / "started"
    turn = calls("pid") + calls("hang_briefly", started=str(started))
    agent = scripted(calls("pid") + calls("pid_async"), turn, says("ok"), tools=process_tools.ALL)

    results = results_of(agent.run("go", timeout=WAIT))[2:]

    assert [r.error_kind for r in results] == ["", "timed_out"]
    worker, child = pids_in(started)
    eventually(lambda: gone(worker) and gone(child), "the process and its child are gone")


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_a_call_that_timed_out_is_tried_again_if_the_tool_is_idempotent(tmp_path: Path, beside: bool) -> None:
    started = tmp_path / "started"
    turn = calls("hang_at_first", started=str(started))
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    both_start = calls("meet", mine=a, other=b) + calls(
        "meet", mine=b, other=a
    )  # a start must not take an attempt's time
    agent = scripted(both_start, turn + calls("pid") if beside else turn, says("ok"), tools=process_tools.ALL)

    result = results_of(agent.run("go", timeout=WAIT))[2]

    assert result.content == "second time"
    worker, child = pids_in(started)
    eventually(lambda: gone(worker) and gone(child), "the first attempt's process and child are gone")


def _cancel(handle: us.RunHandle, system: us.ActorSystem) -> None:
    handle.cancel()


def _stop(handle: us.RunHandle, system: us.ActorSystem) -> None:
    system.stop(0.0)


@pytest.mark.parametrize("end", [_cancel, _stop])
def test_the_end_of_a_run_kills_its_calls(tmp_path: Path, end: Callable[[us.RunHandle, us.ActorSystem], None]) -> None:
    started = tmp_path / "started"
    agent = scripted(calls("hang", started=str(started)), says("ok"), tools=process_tools.ALL)
    with us.ActorSystem("own") as system:
        handle = agent.submit("go", system=system)
        worker, child = pids_in(started)

        end(handle, system)

        with pytest.raises(RunCancelled):
            handle.result(WAIT)
        eventually(lambda: gone(worker) and gone(child), "the process and its child are gone")
        eventually(lambda: system.hung == 0, "no thread waits for it")


def test_the_deadline_of_a_run_kills_its_calls(tmp_path: Path) -> None:
    started = tmp_path / "started"
    agent = scripted(calls("hang", started=str(started)), says("ok"), tools=process_tools.ALL)
    scripted(calls("pid"), says("ok"), tools=process_tools.ALL).run("warm up", timeout=WAIT)

    with pytest.raises(RunTimedOut):
        agent.run("go", timeout=4)

    worker, child = pids_in(started)
    eventually(lambda: gone(worker) and gone(child), "the process and its child are gone")


def test_a_call_that_is_given_up_while_its_process_starts_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    starting, cancelled = threading.Event(), threading.Event()

    def hold(message: us.JsonObject) -> bytes:
        starting.set()
        assert cancelled.wait(WAIT)
        return encode(message)

    monkeypatch.setattr("understudy.actors.tools.worker_pool.encode", hold)
    with us.ActorSystem("own") as system:
        handle = scripted(calls("pid"), tools=process_tools.ALL).submit("go", system=system)
        assert starting.wait(WAIT)
        handle.cancel()
        cancelled.set()
        eventually(lambda: system.hung == 0, "the thread is back")

    assert len(worker_pool.pool) == 0


# --- workers that wait


def test_a_worker_that_died_while_it_waited_is_replaced() -> None:
    first = int(value_of(calls("pid")))
    os.kill(first, signal.SIGKILL)
    eventually(lambda: gone(first), "the worker is dead")

    assert int(value_of(calls("pid"))) != first


def test_a_worker_that_waits_for_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "IDLE_SECONDS", 0.0)

    worker = int(value_of(calls("pid")))

    eventually(lambda: gone(worker) and len(worker_pool.pool) == 0, "the worker is gone")


def test_only_so_many_workers_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker_pool, "MAX_PARKED", 1)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    turn = calls("meet", mine=a, other=b) + calls("meet", mine=b, other=a)
    scripted(turn, says("ok"), tools=process_tools.ALL).run("go", timeout=WAIT)

    eventually(lambda: len(worker_pool._alive) == 1, "one of the two has ended")  # pyright: ignore[reportPrivateUsage]
    assert len(worker_pool.pool) == 1


# --- where tools are found


def test_a_tool_is_imported_from_where_it_was_imported_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_of_a_test").mkdir()
    (tmp_path / "shop_of_a_test" / "names.py").write_text("NAME = 'north'\n")
    (tmp_path / "shop_of_a_test" / "tools.py").write_text(
        textwrap.dedent("""
            import os
            import understudy as us
            from .names import NAME

            def plain(n: int) -> str:
                return f"{NAME} {n + 1}"

            class Shelf:
                @staticmethod
                @us.tool(isolation="process")
                def count(n: int) -> str:
                    return f"{NAME} {n + 2} {os.environ.get('PYTHONPATH')}"
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]  # pytest leaves it untyped
    monkeypatch.setenv("PYTHONPATH", "/mine")
    from shop_of_a_test import tools  # type: ignore[import-not-found]  # pyright: ignore

    outside = us.tool(isolation="process", name="renamed")(tools.plain)  # pyright: ignore
    agent = scripted(calls("renamed", n="1"), calls("count", n=1), says("ok"), tools=[outside, tools.Shelf.count])  # pyright: ignore

    assert [r.content for r in results_of(agent.run("go", timeout=WAIT))] == ["north 2", "north 3 /mine"]


def test_a_tool_of_a_file_that_was_loaded_by_its_path_is_found_too(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text(
        "import os\nimport understudy as us\n\n@us.tool(isolation='process')\ndef who() -> int: return os.getpid()\n"
    )
    agent = scripted(calls("who"), says("ok"), tools=[load_tool_file(file).tools["who"]])

    (result,) = results_of(agent.run("go", timeout=WAIT))

    assert (result.is_error, result.content == str(os.getpid())) == (False, False)


def test_a_module_that_fails_in_the_worker_is_an_error_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "picky_of_a_test.py").write_text(
        "import os, understudy as us\n"
        f"if os.getpid() != {os.getpid()}: import no_such_module_anywhere\n"
        "@us.tool(isolation='process')\ndef who() -> int: return os.getpid()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]  # pytest leaves it untyped
    import picky_of_a_test  # type: ignore[import-not-found]  # pyright: ignore

    agent = scripted(calls("who"), says("ok"), tools=[picky_of_a_test.who])  # pyright: ignore
    (result,) = results_of(agent.run("go", timeout=WAIT))

    assert result.content == "who failed: ModuleNotFoundError: No module named 'no_such_module_anywhere'"


# --- processes


HEAD = """
import os, signal, sys, threading, time
import understudy as us
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.actors.tools import worker_pool
from understudy.actors.tools.worker_channel import encode
sys.path.append({folder!r})
import process_tools
from process_tools import pid, hang
"""


def start(body: str) -> subprocess.Popen[str]:
    """Start a Python process with `body` after the usual imports; its output is piped."""
    program = HEAD.format(folder=str(Path(process_tools.__file__).parent)) + textwrap.dedent(body)
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_parent_that_is_killed_takes_the_call_and_its_children_along(tmp_path: Path) -> None:
    started = tmp_path / "started"
    parent = start(f"""
        us.Agent("clerk", model=ScriptedModel([calls("hang", started={str(started)!r})]), tools=[hang]).run("go")
    """)
    pids_in(started)

    parent.send_signal(signal.SIGKILL)

    # The pipes are the children's too: they end when the last of them has ended.
    assert parent.communicate(timeout=WAIT) == ("", "")


@pytest.mark.skipif(not hasattr(fcntl, "F_SETSIG"), reason="this system's kernel does not tell of the end of a pipe")
def test_a_parent_that_is_killed_takes_a_call_along_that_lets_no_thread_run(tmp_path: Path) -> None:
    started = tmp_path / "started"
    parent = start(f"""
        us.Agent("clerk", model=ScriptedModel([calls("spin", started={str(started)!r})]), tools=[process_tools.spin]).run("go")
    """)
    eventually(started.exists, "the tool runs")

    parent.send_signal(signal.SIGKILL)

    assert parent.communicate(timeout=WAIT) == ("", "")


def test_a_killed_parent_takes_its_workers_along_although_a_child_that_it_forked_lives() -> None:
    parent = start("""
        agent = us.Agent("clerk", model=ScriptedModel([calls("pid"), says("ok")]), tools=[pid])
        agent.run("go")
        if os.fork() == 0:
            os.closerange(1, 3)
        else:
            print("forked", flush=True)
        sys.stdin.read()
        os._exit(0)
    """)
    assert parent.stdout is not None and parent.stdout.readline() == "forked\n"

    parent.send_signal(signal.SIGKILL)

    ended, _, _ = select.select([parent.stdout], [], [], WAIT)
    assert (bool(ended), parent.stdout.read()) == (True, "")  # the worker held the pipe, and the child does not
    parent.communicate(timeout=WAIT)  # now the child ends too


def test_a_forked_child_has_workers_of_its_own() -> None:
    parent = start("""
        def answer(request):
            return says(request.tool_results[0].content) if request.tool_results else calls("pid")

        agent = us.Agent("clerk", model=FunctionModel(answer), tools=[pid])
        mine = agent.run("go").text
        import warnings
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # from Python 3.12 on
        child = os.fork()
        if child == 0:
            own = agent.run("go").text
            print("child", own != mine, agent.run("go").text == own, flush=True)
            sys.exit(0)
        print(os.waitpid(child, 0)[1], "parent", agent.run("go").text == mine)
    """)

    out, err = parent.communicate(timeout=WAIT)
    assert (out, err) == ("child True True\n0 parent True\n", "")


def test_a_fork_while_a_worker_is_made_leaves_its_line_to_the_parent() -> None:
    parent = start("""
        pipe, settled, held = os.pipe, threading.Event(), []

        class Making:
            lock = threading.Lock()
            def acquire(self):
                if not self.lock.acquire(blocking=False):
                    settled.set()
                    self.lock.acquire()
            def release(self):
                self.lock.release()
            def __enter__(self):
                self.acquire()
            def __exit__(self, *exception):
                self.release()

        def fork():
            child = os.fork()
            if child == 0:
                try:
                    os.fstat(held[1])
                except OSError:
                    os._exit(0)
                os._exit(1)
            settled.set()
            print("open in the child:", bool(os.waitpid(child, 0)[1]))

        def pipe_and_fork():
            os.pipe = pipe
            held.extend(pipe())
            forking.start()
            assert settled.wait(60)
            return held

        worker_pool._making, os.pipe = Making(), pipe_and_fork
        forking = threading.Thread(target=fork)
        worker = worker_pool.Worker(("", None))
        forking.join()
        worker.end()
    """)

    out, err = parent.communicate(timeout=WAIT)
    assert out == "open in the child: False\n", err


def test_a_process_ends_with_its_workers_and_without_a_warning() -> None:
    parent = start("""
        import warnings
        warnings.simplefilter("always")

        def answer(request):
            return says(request.tool_results[0].content) if request.tool_results else calls("pid")

        print(us.Agent("clerk", model=FunctionModel(answer), tools=[pid]).run("go").text)
    """)

    out, err = parent.communicate(timeout=WAIT)
    assert (parent.returncode, err) == (0, "")
    eventually(lambda: gone(int(out)), "the worker is gone")


def test_a_system_without_process_groups_says_so_when_a_worker_is_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_GROUPS + HEAD.format(folder=str(Path(process_tools.__file__).parent)) + LOOK],
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout == "pid failed: no worker process can be started: this system has no process groups\n"


WITHOUT_GROUPS = """
import os, signal, socket, sys
del os.fork, os.killpg, os.getpgrp, os.register_at_fork, signal.SIGKILL, socket.MSG_DONTWAIT, socket.MSG_NOSIGNAL
sys.modules["resource"] = sys.modules["fcntl"] = None
import understudy.actors.tools.worker_main
"""

LOOK = """
agent = us.Agent("clerk", model=ScriptedModel([calls("pid"), says("ok")]), tools=[pid])
print(agent.run("go").messages[2].tool_results[0].content)
"""


@pytest.mark.usefixtures("no_worker")
def test_a_model_that_wants_a_process_a_turn_leaves_one_worker() -> None:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says("ok") if request.turn > 5 else calls("pid")

    agent = us.Agent("clerk", model=FunctionModel(answer), tools=process_tools.ALL)
    agent.run("go", timeout=WAIT)

    assert len(worker_pool.pool) == 1
