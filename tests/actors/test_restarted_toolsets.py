"""What a restart of an agent, after a tool's error that `restart_on` names, means for its toolsets and for the run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

import understudy as us
from tests.support.scripts import WAIT, contents_of, finished
from understudy.actors.tools import executor
from understudy.testing import FunctionModel, calls, says

STALE = "ask failed: ConnectionError: 1 is stale"


class Line(us.Toolset):
    """A connection; the first one that is made never works."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.number = type(self).made

    @us.tool
    def ask(self) -> str:
        if self.number == 1:
            raise ConnectionError("1 is stale")
        return f"{self.number} answers"


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system


@pytest.fixture
def clerk() -> us.Agent:
    class Fresh(Line):
        pass

    return us.Agent("clerk", model=asking(3), tools=[Fresh], restart_on=[ConnectionError])


def asking(times: int) -> FunctionModel:
    """Make a model that is at its next call at once, and makes so many of them."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        made = sum(isinstance(part, us.ToolResult) for message in request.messages for part in message.parts)
        return calls("ask") if made < times else says("done")

    return FunctionModel(answer)


Around = Callable[[us.Agent], us.Agent | us.Supervisor]
STRATEGIES: dict[str, Around] = {
    "none of its own": lambda clerk: clerk,
    "one by one": lambda clerk: us.Supervisor("desk", [us.Actor, clerk], strategy=us.OneForOne()),
    "with its group": lambda clerk: us.Supervisor("desk", [us.Actor, clerk, us.Actor], strategy=us.OneForAll()),
    "after a delay": lambda clerk: us.Supervisor("desk", [clerk], strategy=us.OneForOne(backoff=(60.0, 60.0))),
}


@pytest.mark.parametrize("around", STRATEGIES.values(), ids=STRATEGIES)
def test_the_next_call_after_an_error_that_is_named_finds_a_new_object(
    system: us.ActorSystem, clerk: us.Agent, around: Around
) -> None:
    system.spawn(around(clerk))

    outcome = finished(clerk.run("go", system=system))

    assert contents_of(outcome) == [STALE, "2 answers", "2 answers"]


def test_a_decider_that_restarts_nothing_keeps_the_object(system: us.ActorSystem, clerk: us.Agent) -> None:
    ref = system.spawn(clerk, strategy=us.OneForOne(decider=lambda error: "resume"))

    assert contents_of(ref.run("go")) == [STALE] * 3


def test_a_decider_that_hangs_does_not_hang_the_run(
    system: us.ActorSystem, clerk: us.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def decide(error: BaseException) -> us.Directive:
        over.wait(WAIT)
        return "restart"

    monkeypatch.setattr(executor, "DECISION", 0.01)
    ref = system.spawn(clerk, strategy=us.OneForOne(decider=decide))

    assert contents_of(ref.run("go")) == [STALE] * 3
    over.set()


@pytest.mark.parametrize(("strategy", "state"), [(None, "running"), (us.OneForOne(max_restarts=0), "down")])
def test_the_run_goes_on_after_any_number_of_errors_of_tools(
    system: us.ActorSystem, strategy: us.OneForOne | None, state: str
) -> None:
    def ask() -> str:
        raise ConnectionError("1 is stale")

    ref = system.spawn(us.Agent("clerk", model=asking(6), tools=[ask], restart_on=[ConnectionError]), strategy=strategy)

    assert contents_of(ref.run("go")) == [STALE] * 6
    (figures,) = system.health().actors
    assert (figures.failed, figures.restarts, figures.state) == (6, 6 if state == "running" else 0, state)
