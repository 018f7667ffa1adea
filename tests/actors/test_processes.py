"""The runtime in real processes: exits, interrupts and forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

WAIT = 30.0

HEAD = """
import os, sys, threading, time
import understudy as us
from understudy.testing import FunctionModel, ScriptedModel, calls, says
"""


def start(body: str) -> subprocess.Popen[str]:
    """Start a Python process with `body` after the usual imports; its output is piped."""
    program = HEAD + textwrap.dedent(body)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(body: str) -> tuple[int, str, str]:
    """Run `body` to its end and return exit status, output and errors."""
    process = start(body)
    out, err = process.communicate(timeout=WAIT)
    return process.returncode, out, err


def test_a_process_ends_although_a_tool_hangs_for_ever() -> None:
    status, out, err = output("""
        @us.tool(timeout=0.1)
        def hang() -> str:
            threading.Event().wait()
            return "never"

        agent = us.Agent("clerk", model=ScriptedModel([calls("hang"), says("went on")]), tools=[hang])
        print(agent.run("go").text)
    """)

    assert (status, out, err) == (0, "went on\n", "")


def test_a_process_ends_although_runs_are_in_flight() -> None:
    status, out, err = output("""
        forever = us.Agent("clerk", model=FunctionModel(lambda request: threading.Event().wait()))
        handles = [forever.submit("go") for _ in range(20)]
        print("bye")
    """)

    assert (status, out, err) == (0, "bye\n", "")


def test_an_interrupt_cancels_the_run_it_interrupts() -> None:
    process = start("""
        handles = []
        def hang(request):
            us.current_scope().on_cancel(lambda: print("cancelled", flush=True))
            print("running", flush=True)
            threading.Event().wait()

        try:
            us.Agent("clerk", model=FunctionModel(hang)).run("go")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=WAIT)

    assert (process.returncode, out, err) == (0, "cancelled\ninterrupted\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_one_agent_works_in_the_parent_and_in_a_forked_child() -> None:
    status, out, err = output("""
        def answer(request):
            return says(f"pid {os.getpid()}") if request.tool_results else calls("look") + calls("look")

        def look() -> int:
            return os.getpid()

        agent = us.Agent("clerk", model=FunctionModel(answer), tools=[look])
        own = us.ActorSystem("own")
        assert agent.run("warm up").text == f"pid {os.getpid()}"
        assert agent.run("warm up", system=own).text == f"pid {os.getpid()}"
        child = os.fork()
        if child == 0:
            here = f"pid {os.getpid()}"
            ok = agent.run("go").text == here and agent.run("go", system=own).text == here
            print("child", ok, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("parent", agent.run("go").text == f"pid {os.getpid()}")
    """)

    assert (status, out) == (0, "child True\nparent True\n"), err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_forked_during_a_run_does_not_take_the_run_along() -> None:
    status, out, err = output("""
        entered, gate = threading.Event(), threading.Event()

        def answer(request):
            if request.text == "slow":
                entered.set()
                gate.wait()
            return says("ok")

        agent = us.Agent("clerk", model=FunctionModel(answer))
        handle = agent.submit("slow")
        entered.wait()
        child = os.fork()
        if child == 0:
            print("child", agent.run("quick").text, handle.done(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        gate.set()
        print("parent", handle.result(10).text)
    """)

    assert (status, out) == (0, "child ok False\nparent ok\n"), err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "use",
    [
        "handle.result()",
        "list(handle.events())",
        "list(reader)",
        "list(us.sse(handle))",
        "handle.future()",
    ],
)
def test_a_child_is_told_that_a_run_is_its_parents(use: str) -> None:
    status, out, err = output(f"""
        entered, gate = threading.Event(), threading.Event()

        def answer(request):
            entered.set()
            gate.wait()
            return says("ok")

        handle = us.Agent("clerk", model=FunctionModel(answer)).submit("slow")
        entered.wait()
        reader = handle.events()
        next(reader)
        child = os.fork()
        if child == 0:
            try:
                {use}
            except us.RunError as error:
                print("forked" in str(error), error.run_id == handle.run_id, handle.cancel(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        gate.set()
        print("parent", handle.result(10).text, flush=True)
        child = os.fork()
        if child == 0:
            print("over", handle.result().text, len(list(handle.events())), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """)

    assert (status, out) == (0, "True True False\nparent ok\nover ok 4\n"), err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_children_forked_while_runs_wait_for_one_another_have_waits_of_their_own() -> None:
    status, out, err = output("""
        def answer(request):
            return says(request.tool_results[0].content) if request.tool_results else calls("delegate")

        inner = us.Agent("inner", model=FunctionModel(lambda request: says("ok")))
        outer = us.Agent("outer", model=FunctionModel(answer), tools=[us.tool(name="delegate")(lambda: inner.run("go").text)])
        stop = threading.Event()

        def churn():
            while not stop.is_set():
                outer.run("go")

        outer.run("warm up")  # a child forked in the middle of an import could not import
        threads = [threading.Thread(target=churn, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        ends = set()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                ok = outer.submit("go").result(10).text == "ok"
                os._exit(0 if ok else 1)
            ends.add(os.waitpid(child, 0)[1])
        stop.set()
        print(ends)
    """)

    assert (status, out) == (0, "{0}\n"), err


def test_nothing_is_printed_or_logged_unless_the_host_asks() -> None:
    status, out, err = output("""
        def broken() -> str:
            raise ValueError("no")

        agent = us.Agent("clerk", model=ScriptedModel([calls("broken"), says("ok")]), tools=[broken])
        agent.run("go")
        try:
            us.Agent("clerk", model=FunctionModel(lambda request: 1 / 0)).run("go")
        except us.ProviderError:
            pass
    """)

    assert (status, out, err) == (0, "", "")
