"""What a thread of a tool's own knows of the run."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import understudy as us
from tests.support.scripts import WAIT, finished, results_of
from understudy.testing import FunctionModel, calls, says


def make(id: str, tool: us.ToolLike | None = None) -> us.Agent:
    """Make an agent that calls its tool, if it has one, and then says what it gave."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.tool_results:
            return says(request.tool_results[0].content)
        return calls(request.tools[0].name) if request.tools else says("hello")

    return us.Agent(id, model=FunctionModel(answer), tools=() if tool is None else (tool,))


def on_a_thread(function: Callable[[], str]) -> str:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(function).result(WAIT)


def inside(act: Callable[[], str], system: us.ActorSystem | None = None) -> str:
    """Return what `act` gives inside of a tool, or what the model reads of its failure."""

    def tool() -> str:
        return act()

    return results_of(make("outer", tool).run("go", system=system))[0].content


def test_what_is_carried_is_still_part_of_the_run() -> None:
    def again() -> str:
        return on_a_thread(us.carry(lambda: finished(me.run("once more")).text))

    me = make("me", again)

    assert "me -> me" in finished(me.run("go")).text


def test_what_is_not_carried_begins_anew() -> None:
    once = threading.Lock()  # never released: the second run has nothing more to call

    def again() -> str:
        return on_a_thread(lambda: finished(me.run("more")).text) if once.acquire(blocking=False) else "anew"

    me = make("me", again)

    assert finished(me.run("go")).text == "anew"


def test_system_and_deadline_are_carried() -> None:
    inner = make("inner")

    def look() -> str:
        scope = us.current_scope()
        assert scope is not None
        left = scope.remaining()
        return f"{inner.run('go').run_id} {left is not None and left <= 60}"

    with us.ActorSystem("shop") as system:
        said = inside(lambda: on_a_thread(us.carry(look)), system)

    assert said.startswith("shop-")
    assert said.endswith(" True")


def test_cancelling_the_run_is_heard_in_what_was_carried() -> None:
    entered, told = threading.Event(), threading.Event()

    def listen() -> str:
        scope = us.current_scope()
        assert scope is not None
        scope.on_cancel(told.set)
        entered.set()
        assert told.wait(WAIT)
        return "told"

    def act() -> str:
        return on_a_thread(us.carry(listen))

    handle = make("outer", act).submit("go")
    assert entered.wait(WAIT)
    handle.cancel()

    assert told.wait(WAIT)


def test_it_may_be_called_by_many_threads_at_once_and_again() -> None:
    together, inner, said = threading.Barrier(20), make("inner"), list[list[str]]()

    def act() -> str:
        def one(n: int, *, times: int) -> str:
            together.wait(WAIT)
            return finished(inner.run("go")).text + str(n * times)

        carried = us.carry(one)
        with ThreadPoolExecutor(20) as threads:
            for _ in range(2):
                waits = [threads.submit(carried, n, times=2) for n in range(20)]
                said.append([wait.result(WAIT) for wait in waits])
        return "ok"

    assert inside(act) == "ok"
    assert said == [[f"hello{n * 2}" for n in range(20)]] * 2


def test_variables_are_those_of_the_moment_and_changes_stay_inside() -> None:
    shelf = contextvars.ContextVar("shelf", default="none")

    def change() -> str:
        found = shelf.get()
        shelf.set("changed")
        return found

    def act() -> str:
        shelf.set("first")
        carried = us.carry(change)
        shelf.set("second")
        return f"{carried()} {carried()} {shelf.get()}"

    assert inside(act) == "first first second"


def test_what_the_function_raises_goes_to_its_caller() -> None:
    def fail() -> str:
        raise LookupError("no such line")

    assert "LookupError: no such line" in inside(lambda: us.carry(fail)())


def test_it_keeps_the_name_and_docstring_of_the_function() -> None:
    def named() -> str:
        """Say something."""
        return "said"

    def act() -> str:
        carried = us.carry(named)
        return f"{carried.__name__}: {carried.__doc__}"

    assert inside(act) == "named: Say something."


def test_outside_of_runs_there_is_nothing_to_carry() -> None:
    def double(n: int) -> int:
        return n * 2

    assert us.carry(double)(4) == 8
    with pytest.raises(ZeroDivisionError):
        us.carry(lambda: 1 // 0)()


def test_a_thread_that_outlives_its_run_is_outside_of_runs() -> None:
    over, said = threading.Event(), list[str]()
    threads: list[threading.Thread] = []

    def later() -> None:
        assert over.wait(WAIT)
        try:
            said.append(finished(me.run("again")).text)
        except us.RunError as error:
            said.append(str(error))

    def start() -> str:
        if not threads:
            threads.append(threading.Thread(target=us.carry(later), daemon=True))
            threads[0].start()
        return "started"

    me = make("me", start)
    me.run("go")
    over.set()
    threads[0].join(WAIT)

    assert said == ["started"]
