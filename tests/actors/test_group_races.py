"""Groups that take the first answer, in circles of waiting: a child that could only end after its group holds nobody up.

While another child may still answer, nothing is refused; when none is left, the circle is found at that moment.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished
from understudy.actors.waiting.graph import graph
from understudy.orchestration.group.children import ChildFailure
from understudy.testing import FunctionModel, calls, says
from understudy.vocabulary.context.ancestry import current_ancestry

pytestmark = pytest.mark.usefixtures("empty_graph")

T = TypeVar("T")


class Later:
    """The handle of a run that its own children may wait for."""

    def __init__(self) -> None:
        self._handle: us.RunHandle[object] | None = None
        self._there = threading.Event()

    def is_of(self, handle: us.RunHandle[T]) -> us.RunHandle[T]:
        self._handle = handle
        self._there.set()
        return handle

    def wait(self) -> str:
        assert self._there.wait(WAIT)
        assert self._handle is not None
        self._handle.result(2 * WAIT)
        return "waited"


Act = Callable[[], str]


def acting(id: str, act: Act) -> us.Agent:
    """Make an agent that acts once and then answers with its id; what it fails of is what its run fails of."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says(id) if request.tool_results else calls("act")

    return us.Agent(id, model=FunctionModel(answer), tools=[us.tool(name="act")(act)], on_tool_error="raise")


def failing(id: str, until: threading.Event) -> us.Agent:
    """Make an agent that fails once it is let go."""

    def act() -> str:
        assert until.wait(WAIT)
        raise ValueError(f"{id} has no luck")

    return acting(id, act)


def held(until: threading.Event) -> Act:
    def act() -> str:
        assert until.wait(WAIT)
        return "went on"

    return act


def first(id: str, *children: us.Agent, max_parallel: int | None = None) -> us.ParallelAgent:
    return us.ParallelAgent(id, children, merge="first", max_parallel=max_parallel)


def waits(number: int) -> None:
    """Return when so many waits are in the graph, that of the group included."""
    eventually(lambda: len(graph) == number, f"{number} waits began")


def causes(error: BaseException | None) -> list[BaseException]:
    """Return what the children of a group failed of, in order; a tool's error by its cause."""
    assert isinstance(error, ExceptionGroup)
    group = cast("ExceptionGroup[Exception]", error)
    return [each.__cause__ or each for each in group.exceptions]


def test_a_child_may_wait_for_its_group_while_another_one_may_answer(system: us.ActorSystem) -> None:
    whole, go, refused = Later(), threading.Event(), list[us.CircleRefused]()
    group = first("g", acting("b", whole.wait), acting("c", held(go)))
    with system.subscribe(refused.append, us.CircleRefused):
        handle = whole.is_of(group.submit("go", system=system))
        waits(2)

        go.set()

        assert finished(handle.result(WAIT)).text == "c"
    eventually(lambda: system.hung == 0, "the child that waited has come back")
    assert refused == []


def test_when_the_others_have_failed_the_child_that_waits_for_its_group_does(system: us.ActorSystem) -> None:
    whole, go, refused = Later(), threading.Event(), list[us.CircleRefused]()
    group = first("g", acting("b", whole.wait), failing("c", go))
    with system.subscribe(refused.append, us.CircleRefused):
        handle = whole.is_of(group.submit("go", system=system))
        waits(2)

        go.set()

        luckless, circular = causes(handle.exception(WAIT))
        eventually(lambda: len(refused) == 1, "the circle was told")
    assert isinstance(luckless, ValueError)
    assert isinstance(circular, us.CircularAgentCall)
    assert circular.path == refused[0].path == ("b", "g", "b")
    assert refused[0].address == "shop/b"
    eventually(lambda: system.hung == 0, "the child that waited has come back")


def test_the_circle_may_go_through_whoever_runs_the_group(system: us.ActorSystem) -> None:
    whole, go = Later(), threading.Event()
    group = first("g", acting("b", whole.wait), failing("c", go))
    outer = acting("o", lambda: group.run("go").text)
    handle = whole.is_of(outer.submit("go", system=system))
    waits(3)

    go.set()

    error = handle.exception(WAIT)
    assert isinstance(error, us.ToolError)
    _, circular = causes(error.__cause__)
    assert isinstance(circular, us.CircularAgentCall)
    assert circular.path == ("b", "o", "g", "b")


def test_of_children_that_all_wait_for_their_group_the_last_one_is_refused_and_then_the_others(
    system: us.ActorSystem,
) -> None:
    whole, go = Later(), threading.Event()

    def wait_too() -> str:
        assert go.wait(WAIT)
        return whole.wait()

    handle = whole.is_of(first("g", acting("b", whole.wait), acting("c", wait_too)).submit("go", system=system))
    waits(2)

    go.set()

    refused, left = causes(handle.exception(WAIT))
    assert isinstance(refused, us.CircularAgentCall) and isinstance(left, us.CircularAgentCall)
    assert (refused.path, left.path) == (("c", "g", "c"), ("b", "g", "b"))


def test_a_child_that_has_not_begun_may_still_answer(system: us.ActorSystem) -> None:
    whole, go, last = Later(), threading.Event(), threading.Event()
    group = first("g", acting("b", whole.wait), failing("c", go), acting("d", held(last)), max_parallel=2)
    refused = list[us.CircleRefused]()
    with system.subscribe(refused.append, us.CircleRefused):
        handle = whole.is_of(group.submit("go", system=system))
        waits(2)

        go.set()
        eventually(lambda: "d" in handle.status().doing, "the next one began")
        last.set()

        assert finished(handle.result(WAIT)).text == "d"
    assert refused == []


class Hook(str):
    """A key of a session that calls something when group g copies it, as it does to begin a child."""

    called: Callable[[], object]

    def __hash__(self) -> int:
        if current_ancestry() and current_ancestry()[-1].runner.id == "g":
            self.called()
        return str.__hash__(self)

    __eq__ = str.__eq__


def test_who_comes_to_wait_for_a_group_that_is_about_to_begin_a_child_is_not_refused(system: us.ActorSystem) -> None:
    whole, fail, wait = Later(), threading.Event(), threading.Event()

    def wait_late() -> str:
        assert wait.wait(WAIT)
        return whole.wait()

    def let_it_wait() -> None:
        if fail.is_set() and not wait.is_set():
            wait.set()
            waits(2)  # b's: the group is between the child that failed and the one to come

    key = Hook("key")
    key.called = let_it_wait
    group = first("g", acting("b", wait_late), failing("c", fail), acting("d", lambda: "here"), max_parallel=2)
    handle = whole.is_of(group.submit("go", session={key: "value"}, system=system))
    waits(1)

    fail.set()

    assert finished(handle.result(WAIT)).text == "d"
    assert wait.is_set()


@pytest.mark.parametrize("places", [1, 2])
def test_a_child_that_waits_for_its_group_gives_its_place_to_the_next(system: us.ActorSystem, places: int) -> None:
    whole = Later()
    waiting = [acting(f"b-{n}", whole.wait) for n in range(places)]
    group = first("g", *waiting, acting("c", lambda: "here"), max_parallel=places)

    handle = whole.is_of(group.submit("go", system=system))

    assert finished(handle.result(WAIT)).text == "c"


def test_when_nobody_else_is_left_that_runs_the_group_pauses(system: us.ActorSystem) -> None:
    whole, go = Later(), threading.Event()

    def ask(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            assert go.wait(WAIT)
            return says("__ask_user__: who?")
        return says("c")

    group = first("g", acting("b", whole.wait), us.Agent("c", model=FunctionModel(ask)))
    handle = whole.is_of(group.submit("go", system=system))
    waits(2)

    go.set()

    paused = handle.result(WAIT)
    assert isinstance(paused, us.NeedsInput)
    assert finished(group.resume(paused.token, "Ada", system=system)).text == "c"


def test_two_groups_that_wait_for_each_other_lose_one_child_in_all(system: us.ActorSystem) -> None:
    wholes, gates = [Later(), Later()], [threading.Event(), threading.Event()]
    groups = [first(f"g-{n}", acting(f"b-{n}", wholes[1 - n].wait), failing(f"c-{n}", gates[n])) for n in range(2)]
    refused = list[us.CircleRefused]()
    with system.subscribe(refused.append, us.CircleRefused):
        handles = [wholes[n].is_of(groups[n].submit("go", system=system)) for n in range(2)]
        waits(4)
        gates[0].set()
        eventually(lambda: handles[0].status().doing == "running b-0", "one of its children failed")
        assert refused == []

        gates[1].set()

        errors = [handle.exception(WAIT) for handle in handles]
        eventually(lambda: len(refused) == 1, "the circle was told")
    assert [type(cause) for cause in causes(errors[1])] == [ValueError, us.CircularAgentCall]
    assert refused[0].path == ("b-1", "g-0", "b-0", "g-1", "b-1")
    # The other one is not in a circle any more, and fails of what it waited for.
    assert [type(cause) for cause in causes(errors[0])] == [ValueError, us.SeveralErrors]


def test_a_group_inside_is_a_child_like_any_other(system: us.ActorSystem) -> None:
    whole, go = Later(), threading.Event()
    inner = us.ParallelAgent("inner", [acting("b", whole.wait), acting("a", lambda: "at once")])
    group = us.ParallelAgent("g", [inner, failing("c", go)], merge="first")
    handle = whole.is_of(group.submit("go", system=system))
    waits(3)

    go.set()

    luckless, circular = causes(handle.exception(WAIT))
    assert isinstance(luckless, ValueError)
    assert isinstance(circular, us.CircularAgentCall)
    assert circular.path == ("inner", "b", "g", "inner")


def test_a_circle_is_found_after_a_turn_of_the_group_crashed(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, go, crashes = Later(), threading.Event(), list[us.RunCrashed]()
    error, faults, failure_of = us.ProviderError("no luck"), iter([MemoryError()]), ChildFailure.of

    def failing(error: BaseException) -> ChildFailure:
        for fault in faults:
            raise fault
        return failure_of(error)

    monkeypatch.setattr(ChildFailure, "of", failing)

    def fail(request: us.ModelRequest) -> us.ModelTurn:
        assert go.wait(WAIT)
        raise error

    group = first("g", acting("b", whole.wait), us.Agent("c", model=FunctionModel(fail)))
    with system.subscribe(crashes.append, us.RunCrashed):
        handle = whole.is_of(group.submit("go", system=system))
        waits(2)

        go.set()

        luckless, circular = causes(handle.exception(WAIT))
        eventually(lambda: len(crashes) == 1, "the failure was told")
    assert luckless is error
    assert isinstance(circular, us.CircularAgentCall)
    assert isinstance(crashes[0].error, MemoryError)


def test_whoever_needs_all_is_refused_at_once_as_ever(system: us.ActorSystem) -> None:
    whole, go, paths = Later(), threading.Event(), list[tuple[str, ...]]()

    def wait() -> str:
        assert go.wait(WAIT)
        try:
            return whole.wait()
        except us.CircularAgentCall as error:
            paths.append(error.path)
            return "refused"

    group = us.ParallelAgent("g", [acting("b", wait), acting("c", held(go))])
    handle = whole.is_of(group.submit("go", system=system))
    waits(2)
    go.set()

    assert finished(handle.result(WAIT)).combined_text == '["b", "c"]'
    assert paths == [("b", "g", "b")]


# --- in no order


Plan = Sequence[Sequence[str | int]]
"""What the children of each group do: wait for another group, by number; or `fail`, `answer` or `ask` a person."""


def plan(chance: random.Random) -> Plan:
    size = chance.randint(1, 4)
    does: list[str | int] = [*range(size), *range(size), *range(size), "fail", "fail", "ask", "answer"]
    return [[chance.choice(does) for _ in range(chance.randint(1, 4))] for _ in range(size)]


class Field:
    """Groups whose children wait for one another's groups."""

    def __init__(self, plan: Plan, chance: random.Random, system: us.ActorSystem) -> None:
        self._wholes = [Later() for _ in plan]
        self._go = threading.Event()
        self.handles: list[us.RunHandle[object]] = []
        for n, (does, whole) in enumerate(zip(plan, self._wholes, strict=True)):
            children = [self._child(f"{n}-{m}", do) for m, do in enumerate(does)]
            group = first(f"g-{n}", *children, max_parallel=chance.choice([None, 1, 2]))
            self.handles.append(whole.is_of(group.submit("go", system=system)))
        self._go.set()

    def _child(self, id: str, do: str | int) -> us.Agent:
        if do == "ask":
            return us.Agent(id, model=FunctionModel(lambda _: says("__ask_user__: who?")))

        def act() -> str:
            assert self._go.wait(WAIT)
            if isinstance(do, int):
                return self._wholes[do].wait()
            if do == "fail":
                raise ValueError("no luck")
            return "answered"

        return acting(id, act)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_waits_for_whatever_every_group_ends(system: us.ActorSystem, seed: int) -> None:
    chance = random.Random(seed)
    field = Field(plan(chance), chance, system)

    ended = [handle.exception(WAIT) for handle in field.handles]

    assert all(error is None or isinstance(error, ExceptionGroup) for error in ended), ended
    eventually(lambda: system.hung == 0, "no thread waits any more")
