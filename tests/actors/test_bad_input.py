"""A caller's mistakes: found before anything starts, and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import understudy as us
from tests.support.scripts import scripted
from understudy.testing import says


def agent() -> us.Agent:
    return scripted(says("ok"))


class Thing:
    """A type without JSON Schema."""


def look() -> str:
    return "x"


def takes_a_thing(thing: Thing) -> str:
    return "x"


@pytest.mark.parametrize(
    ("mistake", "error", "words"),
    [
        (lambda: us.Agent("a", model="claude"), ValueError, "agent 'a': 'claude' has no provider"),
        (lambda: us.Agent("a", model="openia:gpt-4o"), ValueError, "did you mean 'openai:gpt-4o'"),
        (lambda: us.Agent("a", model="openai:"), ValueError, "no model named in 'openai:'"),
        (lambda: us.Agent("a"), TypeError, "model"),  # type: ignore[call-overload]  # the mistake under test
        (lambda: us.Agent("a", model="rehearsal", tools=[look, look]), ValueError, "two tools are named 'look'"),
        (lambda: us.Agent("a", model="rehearsal", tools=[len]), TypeError, "tool 'len': parameter 'obj' is positional"),
        (lambda: agent().run(["hi"]), TypeError, r"input\[0\] is a value of type str, expected a part"),  # type: ignore[list-item]  # the mistake under test
        (lambda: agent().run([us.TextPart(7)]), TypeError, r"input\[0\].text is a value of type int"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (lambda: agent().run({"topic": "tea"}), TypeError, "got a value of type dict; .* parameters="),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (lambda: agent().run("x", session={"__mine": 1}), ValueError, "'__mine'"),
        (lambda: agent().run("x", timeout=0), ValueError, "timeout must be above 0"),
        (lambda: agent().run("x", history=["hi"]), TypeError, "history must hold Message"),  # type: ignore[list-item]
        (
            lambda: us.Agent("a", model="rehearsal", tools=[takes_a_thing]).run("x"),
            TypeError,
            "tool 'takes_a_thing': parameter 'thing' is of type .*Thing, which has no JSON Schema",
        ),
    ],
)
def test_a_mistake_is_named(mistake: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        mistake()
