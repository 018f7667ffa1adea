"""`fast_init`: what it leaves as it was, and what it must do as `dataclass` does."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from understudy.vocabulary.fast_init import fast_init


@dataclass(frozen=True, slots=True)
class Slow:
    name: str
    parts: tuple[int, ...] = ()
    values: list[int] = field(default_factory=list[int])
    made: list[str] = field(default_factory=list[str], init=False)
    kind: str = field(default="value", init=False)
    limit: int = field(default=3, kw_only=True)
    size: int = field(kw_only=True)


@fast_init
@dataclass(frozen=True, slots=True)
class Fast:
    name: str
    parts: tuple[int, ...] = ()
    values: list[int] = field(default_factory=list[int])
    made: list[str] = field(default_factory=list[str], init=False)
    kind: str = field(default="value", init=False)
    limit: int = field(default=3, kw_only=True)
    size: int = field(kw_only=True)


@fast_init
@dataclass(frozen=True, slots=True)
class Further(Fast):
    more: int = 0

    def __post_init__(self) -> None:
        if self.more < 0:
            raise ValueError("less than nothing")


def test_it_takes_what_the_dataclass_takes() -> None:
    assert inspect.signature(Fast) == inspect.signature(Slow)
    assert repr(Fast("a", (1,), size=2)).removeprefix("Fast") == repr(Slow("a", (1,), size=2)).removeprefix("Slow")
    assert Fast("a", (1,), [2], limit=4, size=5) == Fast(name="a", parts=(1,), values=[2], limit=4, size=5)


@pytest.mark.parametrize("wrong", [(), ("a", (), [], 1), ("a", (), [], [])])
def test_it_refuses_what_the_dataclass_refuses(wrong: tuple[object, ...]) -> None:
    with pytest.raises(TypeError) as fast:
        Fast(*wrong, size=1)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError) as slow:
        Slow(*wrong, size=1)  # type: ignore[arg-type]  # on purpose

    assert str(fast.value).removeprefix("Fast") == str(slow.value).removeprefix("Slow")


def test_a_field_that_takes_a_list_holds_a_tuple() -> None:
    @fast_init
    @dataclass(frozen=True, slots=True)
    class Listed:
        parts: tuple[int, ...] = field(metadata={"takes_list": True})
        others: tuple[int, ...] = ()

    given: Any = [1, 2]
    other: Any = "no list"

    assert Listed(given, given).parts == (1, 2)
    assert Listed(given, given).others is given
    assert Listed(other).parts is other


def test_a_default_that_is_made_is_made_for_each() -> None:
    one, other = Fast("a", size=1), Fast("b", size=1)

    one.values.append(1)
    one.made.append("x")

    assert (other.values, other.made) == ([], [])


def test_what_was_inherited_and_what_follows_the_fields_are_kept() -> None:
    made = Further("a", more=2, size=1)

    assert (made.name, made.kind, made.more, made.limit) == ("a", "value", 2, 3)
    with pytest.raises(ValueError, match="less than nothing"):
        Further("a", more=-1, size=1)


def test_it_stays_frozen_and_can_be_copied_replaced_and_pickled() -> None:
    made = Fast("a", (1,), size=2)

    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]  # on purpose
    assert replace(made, name="b") == Fast("b", (1,), size=2)
    assert pickle.loads(pickle.dumps(made)) == copy.copy(made) == made
