"""Who waits for whom, as a value."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from understudy.errors import CircularAgentCall, RunError
from understudy.vocabulary.context.ancestry import MAX_DEPTH, Link, check_call


@dataclass(frozen=True)
class Definition:
    id: str


def test_a_runner_among_its_callers_is_refused_with_the_path_from_itself_to_itself() -> None:
    root, a, b = Definition("root"), Definition("a"), Definition("b")
    callers = Link(root, "1"), Link(a, "2"), Link(b, "3")

    with pytest.raises(CircularAgentCall, match="a -> b -> a") as caught:
        check_call(callers, a)

    assert caught.value.path == ("a", "b", "a")


def test_equal_definitions_are_not_the_same_one() -> None:
    one, other = Definition("a"), Definition("a")
    assert one == other

    check_call((Link(one, "1"),), other)
    with pytest.raises(CircularAgentCall, match="a -> a"):
        check_call((Link(one, "1"),), one)


def test_a_chain_has_an_end_and_the_error_names_both() -> None:
    callers = tuple([Link(Definition(f"level-{n}"), str(n)) for n in range(MAX_DEPTH)])

    check_call(callers[:-1], Definition("last"))
    with pytest.raises(RunError, match=f"{MAX_DEPTH} deep; from agent 'level-0' to agent 'last' it would be 33"):
        check_call(callers, Definition("last"))
