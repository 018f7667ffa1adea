"""Tests of the errors that name an argument or attribute of this package in place of another library's."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

import understudy as us
from understudy.testing import FunctionModel
from understudy.vocabulary.other_names import (
    OF_ACTORS,
    OF_FUTURES,
    OF_HANDLES,
    OF_LOADERS,
    OF_MODULE,
    OF_OUTCOMES,
    OF_RUNNERS,
)

CLERK = us.Agent("clerk", model=FunctionModel(lambda _: "Six."))
DONE = us.Complete(text="Six.", output="Six.")
BOOK = us.Workflow("book", [us.Task("plan", CLERK, prompt="Plan ${topic}")])


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
        (DONE, "data", "use output"),
        (DONE, "final_response", "use text"),
        (us.NeedsInput(question="Which?"), "resume_context", "use token"),
        (us.SpecLoader(), "register_async_tool", "use register_tool"),
        (us.RunHandle, "wait", "use result"),
        (us.RunHandle, "text", r"use result\(\)\.text"),
    ],
)
def test_an_attribute_of_another_library_is_missing_and_names_ours(owner: object, name: str, ours: str) -> None:
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': .*{ours}"):
        getattr(owner, name)


@pytest.mark.parametrize(
    ("owner", "names"),
    [(CLERK, OF_RUNNERS), (BOOK, OF_RUNNERS), (DONE, OF_OUTCOMES), (us.SpecLoader(), OF_LOADERS), (Quiet(), OF_ACTORS)],
)
def test_such_an_attribute_is_not_listed(owner: object, names: dict[str, str]) -> None:
    assert set(object.__dir__(owner)) - set(dir(owner)) == names.keys()


def test_a_name_of_another_library_is_missing_in_the_module_and_names_ours() -> None:
    for name, ours in OF_MODULE.items():
        with pytest.raises(AttributeError, match=f"^module 'understudy' has no attribute '{name}': {re.escape(ours)}$"):
            getattr(us, name)
    assert not OF_MODULE.keys() & set(dir(us))
    with pytest.raises(AttributeError, match="has no attribute 'AgentBuilders'$"):
        us.AgentBuilders  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018


def test_an_unknown_attribute_is_missing_as_in_any_class() -> None:
    with pytest.raises(AttributeError, match="'Agent' object has no attribute 'telepathy'"):
        cast(Any, CLERK).telepathy  # noqa: B018


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (us.Actor, OF_ACTORS),
        (us.Agent, OF_RUNNERS),
        (us.Workflow, OF_RUNNERS),
        (us.Future, OF_FUTURES),
        (us.SpecLoader, OF_LOADERS),
        *[(kind, OF_OUTCOMES) for kind in (us.Complete, us.NeedsInput, us.NeedsApproval, us.Incomplete, us.MoreTurns)],
    ],
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
        assert "stop" in dir(Till()) and "start" not in dir(Till())
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
        (
            lambda: us.SequentialAgent("s", [CLERK], **wrong("agents")),
            "SequentialAgent has no argument agents=: use steps=",
        ),
        (lambda: us.ParallelAgent("p", [CLERK], **wrong("merge_strategy")), "use merge="),
        (
            lambda: us.Task("t", CLERK, **wrong("depends_on")),
            "a task has no argument depends_on=: use dependencies=",
        ),
        (lambda: us.Task("t", CLERK, **wrong("condition")), "use when="),
        (lambda: us.Workflow("w", [us.Task("t", CLERK)], **wrong("edges")), r"use Task\(dependencies=…\)"),
        (lambda: us.InMemoryMemory(**wrong("window_size")), r"use WindowedMemory\(turns=…\)"),
        (lambda: us.WindowedMemory(**wrong("window_size")), "WindowedMemory has no argument window_size=: use turns="),
        (lambda: us.PersistentMemory(**wrong("max_tokens")), "use tokens="),
        (lambda: us.KeywordCriteria("x", **wrong("keywords")), "use keyword="),
        (lambda: us.MaxIterationsCriteria(**wrong("max")), "use limit="),
        (lambda: us.StructuredOutputCriteria(**wrong("json_schema")), "use schema="),
        (lambda: us.ActorSystem(**wrong("session_store")), "ActorSystem has no argument session_store=: use store="),
        (lambda: us.configure(**wrong("session_store")), "configure has no argument session_store=: use store="),
    ],
)
def test_an_unknown_argument_of_a_value_names_the_nearest_one(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        make()


# Each comment is a check too: the type checkers refuse these calls, and would refuse a comment without a need.
@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: CLERK.run("Hi", thread_id="c"), "Agent.run has no argument thread_id=: use conversation_id="),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.run("Hi", message_history=[]), "use history="),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.run(prompt="Hi"), "use input="),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.run("Hi", us.SessionState()), "Agent.run takes 1 .* got 2: write session=…"),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.submit("Hi", context=1), "Agent.submit has no argument context=: use deps="),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.submit("Hi", sesion={}), "did you mean session="),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.stream("Hi", hooks=[]), r"use Agent\(callbacks=…\)"),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.run_turn("Hi", thread_id="c"), "Agent.run_turn has no argument thread_id="),  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.map(["Hi"], max_concurrency=2), "Agent.map has no argument max_concurrency=: use max_parallel="),  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.resume(resume_context="t"), "Agent.resume has no argument resume_context=: use token="),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.resume("t", "yes", {}), "takes 2 arguments without a name, got 3: write session=…"),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: CLERK.submit_resume("t", user_answer="yes"), "use answer="),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: us.SequentialAgent("s", [CLERK]).run("Hi", state={}), "SequentialAgent.run .* use session="),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: BOOK.run(topic="tea"), r"Workflow.run has no argument topic=: use parameters=\{'topic': …\}"),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: BOOK.submit(topic="tea"), "Workflow.submit .* use parameters="),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: BOOK.stream(context=1), "Workflow.stream .* use deps="),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (lambda: BOOK.map([], context=1), "Workflow.map .* use deps="),  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    ],
)
def test_a_method_names_ours_for_an_argument_of_another_library(call: Callable[[], object], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        call()


def test_the_methods_of_a_reference_name_ours_too() -> None:
    with us.ActorSystem("shop") as system:
        clerk, book = system.spawn(CLERK), system.spawn(BOOK)
        calls: list[tuple[Callable[..., object], str, str]] = [
            (partial(clerk.run, "Hi"), "thread_id", "AgentRef.run .* use conversation_id="),
            (partial(clerk.submit, "Hi"), "system", "AgentRef.submit has no argument system="),
            (partial(clerk.resume, "t"), "resume_context", "use token="),
            (partial(clerk.map, ["Hi"]), "context", "AgentRef.map .* use deps="),
            (book.run, "topic", "use parameters="),
        ]
        for call, name, problem in calls:
            with pytest.raises(TypeError, match=problem):
                call(**wrong(name))


def test_a_mistake_of_another_kind_keeps_its_own_words() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'input'"):
        CLERK.run()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="session must be a SessionState or a mapping, got int"):
        CLERK.run("Hi", session=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def wrong(name: str) -> Any:
    """Return an argument that the type checker would refuse."""
    return {name: 1}


@pytest.mark.parametrize("value", [us.Settings(max_tokens=5), us.Budget(turns=2), us.Compaction(keep=0.1)])
def test_such_a_value_is_copied_and_pickled_as_before(value: object) -> None:
    assert copy.copy(value) == value == pickle.loads(pickle.dumps(value))
