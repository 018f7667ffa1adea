"""Tests of the errors that name an argument or attribute of this package in place of another library's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, cast

import pytest

import understudy as us
from understudy.testing import FunctionModel
from understudy.vocabulary.other_names import OF_ACTORS, OF_FUTURES, OF_HANDLES, OF_RUNNERS

CLERK = us.Agent("clerk", model=FunctionModel(lambda _: "Six."))


class Till(us.Actor[str]):
    """An actor whose own attribute has a name of Pykka's."""

    def __init__(self) -> None:
        self.stop = "closed"

    def on_receive(self, message: str) -> object:
        return self.stop


class Quiet(us.Actor[str]):
    """An actor without such an attribute."""

    def on_receive(self, message: str) -> object:
        return hasattr(self, message)


@pytest.mark.parametrize(
    ("owner", "name", "ours"),
    [
        (Till, "start", "system.spawn"),
        (CLERK, "run_sync", "use run"),
        (us.Agent, "run_sync", "use run"),
        (CLERK, "invoke", "use run"),
        (us.ParallelAgent, "ainvoke", "use submit"),
        (us.RunHandle, "wait", "use result"),
        (us.RunHandle, "text", r"use result\(\)\.text"),
    ],
)
def test_an_attribute_of_another_library_is_missing_and_names_ours(owner: object, name: str, ours: str) -> None:
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': .*{ours}"):
        getattr(owner, name)


def test_an_unknown_attribute_is_missing_as_in_any_class() -> None:
    with pytest.raises(AttributeError, match="'Agent' object has no attribute 'telepathy'"):
        cast(Any, CLERK).telepathy  # noqa: B018


@pytest.mark.parametrize(
    ("owner", "names"),
    [(us.Actor, OF_ACTORS), (us.Agent, OF_RUNNERS), (us.Workflow, OF_RUNNERS), (us.Future, OF_FUTURES)],
)
def test_no_attribute_of_ours_is_hidden(owner: type, names: dict[str, str]) -> None:
    assert [name for name in names if hasattr(owner, name)] == []


def test_a_handle_names_what_its_outcome_has() -> None:
    with us.ActorSystem("shop") as system:
        handle = CLERK.submit("How many?", system=system)

        assert [name for name in {**OF_HANDLES, **OF_FUTURES} if hasattr(handle, name)] == []
        assert handle.result(5).text == "Six."


def test_an_actor_may_have_an_attribute_of_such_a_name() -> None:
    with us.ActorSystem("shop") as system:
        assert system.spawn(Till, name="till").ask("?") == "closed"
        assert system.spawn(Quiet, name="quiet").ask("stop") is False


def test_a_proxy_lacks_what_its_actor_lacks_and_the_actor_goes_on() -> None:
    with us.ActorSystem("shop") as system:
        ref = system.spawn(Quiet, name="quiet")

        with pytest.raises(AttributeError, match=r"system\.spawn"):
            ref.proxy().start  # noqa: B018
        assert ref.ask("start") is False
        assert system.health().actors[0].restarts == 0


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: us.Settings(**wrong("temprature")), "Settings has no argument temprature=: did you mean temperature="),
        (lambda: us.Settings(**wrong("timeout")), r"use Agent\(model_timeout="),
        (lambda: us.Budget(**wrong("tokens")), "Budget has no argument tokens=: use total_tokens="),
        (lambda: us.Budget(**wrong("total_token")), "did you mean total_tokens="),
        (lambda: us.Budget(**wrong("zebra")), "it takes cost_usd, input_tokens"),
        (lambda: us.Compaction(**wrong("treshold")), "did you mean threshold="),
    ],
)
def test_an_unknown_argument_of_a_value_names_the_nearest_one(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        make()


def wrong(name: str) -> Any:
    """Return an argument that the type checker would refuse."""
    return {name: 1}


@pytest.mark.parametrize("value", [us.Settings(max_tokens=5), us.Budget(turns=2), us.Compaction(keep=0.1)])
def test_such_a_value_is_copied_and_pickled_as_before(value: object) -> None:
    assert copy.copy(value) == value == pickle.loads(pickle.dumps(value))
