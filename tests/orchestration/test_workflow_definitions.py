"""Workflows as values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from understudy.errors import SpecError
from understudy.orchestration import Agent, Runner
from understudy.orchestration.definitions.workflow import Task, Workflow

ONE = Agent("one", model="rehearsal")
TWO = Agent("two", model="rehearsal")


async def never(given: object) -> bool:
    return False


class Never:
    async def __call__(self, given: object) -> bool:
        return False


def test_a_workflow_knows_which_parameters_its_prompts_need() -> None:
    brief = Workflow(
        "brief",
        [
            Task("fetch", ONE, prompt="On ${topic}, ${input}"),
            Task("write", TWO, prompt="${fetch} in ${words}", dependencies=["fetch"], when="${tone} == dry"),
        ],
    )

    assert brief.parameters == {"topic", "words", "tone"}
    assert brief.inner_runners == (ONE, TWO)
    assert brief.replace(id="other", max_parallel=2).max_parallel == 2


def test_a_workflow_with_parameters_needs_the_rest_and_is_the_same_definition() -> None:
    brief = Workflow("brief", [Task("a", ONE, prompt="${topic} ${words} ${tone}")], max_parallel=2)

    given = brief.with_parameters({"topic": "tides"}).with_parameters({"words": 100})

    assert dict(given.given) == {"topic": "tides", "words": 100}
    assert (given.parameters, given.max_parallel) == (frozenset({"tone"}), 2)
    assert given.fingerprint() == brief.fingerprint()
    assert brief.parameters == {"topic", "words", "tone"}
    assert dict(given.replace(id="other").given) == dict(given.given)
    assert dict(given.replace(tasks=[Task("a", ONE, prompt="${words}")]).given) == {"words": 100}


@pytest.mark.parametrize(
    ("parameters", "error", "says"),
    [
        ("tides", TypeError, "parameters must be a mapping such as {'topic': 'tides'}, got 'tides'"),
        ({"topik": "x"}, ValueError, "no prompt refers to parameter 'topik'. Did you mean 'topic'?"),
        ({"input": "x"}, ValueError, "no prompt refers to parameter 'input'; they need: topic"),
        ({"topic": "${a}"}, ValueError, "parameter 'topic' refers to ${a}; expected ${input} or plain text"),
        ({"words": 5}, ValueError, "parameter 'words' has a value already, by with_parameters"),
        ({"topic": math.inf}, TypeError, "parameter 'topic' is not JSON"),
        ({"topic": {1}}, TypeError, "parameter 'topic' is not JSON"),
    ],
)
def test_parameters_that_a_workflow_cannot_have_are_refused_at_once(
    parameters: object, error: type[Exception], says: str
) -> None:
    brief = Workflow("brief", [Task("a", ONE, prompt="${topic} in ${words}")]).with_parameters({"words": 9})

    with pytest.raises(error, match=re.escape(says)):
        brief.with_parameters(parameters)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_all_that_is_wrong_is_said_at_once_a_line_each() -> None:
    with pytest.raises(SpecError) as raised:
        Workflow("brief", [Task("a", ONE, dependencies=["b"]), Task("a", ONE, dependencies=["c"])])

    assert str(raised.value).splitlines() == [
        "workflow 'brief': two tasks are named 'a'",
        "workflow 'brief': task 'a': it depends on 'b', which is no task; the tasks are: a, a",
        "workflow 'brief': task 'a': it depends on 'c', which is no task; the tasks are: a, a",
    ]


def test_what_decides_a_run_is_in_the_fingerprint() -> None:
    def of(**changes: object) -> str:
        arguments = {"prompt": "Go", **changes}
        return Workflow("brief", [Task("a", ONE, **arguments)]).fingerprint()  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] (each of its own type)

    changed = [
        of(prompt="Go on"),
        of(retries=1),
        of(when="${x}"),
        of(for_each="${x}"),
        of(until="${a}"),
        of(when=bool),
        Workflow("brief", [Task("a", TWO, prompt="Go")]).fingerprint(),
    ]

    assert of() == of()
    assert len({of(), *changed}) == len(changed) + 1


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Task("", ONE), ValueError, "name must be letters"),
        (lambda: Task("a b", ONE), ValueError, "name must be letters"),
        (lambda: Task("a", cast("Runner[object]", "one")), TypeError, "its runner must be an agent"),
        (lambda: Task("a", ONE, prompt=cast(str, 3)), TypeError, "prompt must be a string"),
        (lambda: Task("a", ONE, dependencies="b"), TypeError, "dependencies must be a list of names"),
        (lambda: Task("a", ONE, retries=-1), ValueError, "retries must be at least 0"),
        (lambda: Task("a", ONE, backoff=(5.0, 1.0)), ValueError, "backoff must be seconds"),
        (
            lambda: Task("a", ONE, backoff=cast("tuple[float, float]", 3.0)),
            TypeError,
            r"task 'a': backoff must be \(first, most\)",
        ),
        (
            lambda: Task("a", ONE, backoff=cast("tuple[float, float]", ("1", "2"))),
            TypeError,
            "backoff must be a number, got '1'",
        ),
        (lambda: Task("a", ONE, backoff=(1.0, math.inf)), ValueError, "backoff must be finite"),
        (lambda: Task("a", ONE, when=cast(str, 3)), TypeError, "when must be a condition or a function"),
        (
            lambda: Task("a", ONE, when=cast(str, never)),
            TypeError,
            "task 'a': when must be a plain function, not async def",
        ),
        (lambda: Task("a", ONE, until=cast(str, Never())), TypeError, "until must be a plain function, not async def"),
        (lambda: Task("a", ONE, until=cast(str, partial(never))), TypeError, "until must be a plain function"),
        (lambda: Task("a", ONE, for_each=cast(str, [1])), TypeError, "for_each must be a reference"),
        (lambda: Task("a", ONE, max_repeats=-1), ValueError, "max_repeats must be at least 0"),
        (lambda: Workflow("w", []), SpecError, "at least one task"),
        (lambda: Workflow("w", cast("list[Task]", [ONE])), TypeError, "tasks must hold Task"),
        (lambda: Workflow("w", cast("list[Task]", "a")), TypeError, "tasks must be a list of Task"),
        (lambda: Workflow("w", [Task("a", ONE)], max_parallel=0), ValueError, "max_parallel must be at least 1"),
        (
            lambda: Workflow("w", [Task("a", ONE, prompt="${b.}")]),
            SpecError,
            "task 'a': its prompt: .* is no reference",
        ),
    ],
)
def test_what_is_wrong_with_a_workflow_is_said_when_it_is_made(
    make: Callable[[], object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        make()
