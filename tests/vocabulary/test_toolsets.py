"""Toolsets: which tools they give an agent, and what is refused before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pytest

import understudy as us
from understudy.vocabulary.tools.origin import Origin


class Shelf(us.Toolset):
    """Counts units."""

    def __init__(self) -> None:
        self.units = 7

    @us.tool
    def count(self, sku: str) -> int:
        """Count the units of a product.

        Args:
            sku: product number
        """
        return self.units

    @us.tool(name="put_back", timeout=5, approval=True, retries=2, on_error="raise", max_result=100)
    def put(self, sku: str, units: int = 1) -> str:
        """Put units back."""
        self.units += units
        return "done"

    def helper(self) -> int:
        return self.units


class Upper(Shelf):
    prefix = "upper_"

    @us.tool
    def count(  # pyright: ignore[reportIncompatibleVariableOverride] (a tool's parameters are invariant, self included)
        self, sku: str
    ) -> int:
        """Count those above."""
        return self.units + 1

    @us.tool
    def reach(self) -> str:
        """Reach up."""
        return "reached"


class Closed(Shelf):
    put = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType, reportIncompatibleUnannotatedOverride] (takes the tool away)


class Elsewhere(us.Toolset):
    def __init__(self, place: str) -> None:
        self.place = place

    @us.tool
    def look(self) -> str:
        return self.place


@dataclass(frozen=True)
class Frozen(us.Toolset):
    units: int = 3

    @us.tool
    def left(self) -> int:
        return self.units


def agent(*tools: Any) -> us.Agent:
    return us.Agent("clerk", model="rehearsal", tools=tools)


def names(made: us.Agent) -> list[str]:
    return [tool.name for tool in made.tools]


@pytest.mark.parametrize("given", [Shelf, Shelf(), partial(Shelf)])
def test_an_agent_gets_the_methods_that_are_tools_with_their_options(given: Any) -> None:
    made = agent(given)

    assert names(made) == ["count", "put_back"]
    put = made.tools_by_name["put_back"]
    assert (put.timeout, put.approval, put.retries, put.on_error, put.max_result) == (5, True, 2, "raise", 100)
    spec = made.tools_by_name["count"].spec
    assert (spec.description, list(spec.schema["properties"])) == ("Count the units of a product.", ["sku"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_subclass_adds_overrides_takes_away_and_names() -> None:
    assert names(agent(Upper)) == ["upper_count", "upper_put_back", "upper_reach"]
    assert agent(Upper).tools_by_name["upper_count"].spec.description == "Count those above."
    assert names(agent(Closed)) == ["count"]


def test_tools_of_objects_that_are_listed_by_themselves_have_their_prefixes() -> None:
    left, right = Shelf(), Shelf()
    left.prefix, right.prefix = "left_", "right_"

    agent = us.Agent("clerk", model="rehearsal", tools=[left.count, right.count])

    assert [tool.name for tool in agent.tools] == ["left_count", "right_count"]


def test_an_object_s_own_prefix_goes_before_its_class_s() -> None:
    left, right = Shelf(), Upper()
    left.prefix, right.prefix = "left_", "right_"

    assert names(agent(left, right)) == ["left_count", "left_put_back", "right_count", "right_put_back", "right_reach"]


def test_an_object_of_any_class_will_do() -> None:
    assert names(agent(Frozen())) == ["left"]
    assert names(agent(partial(Elsewhere, "there"), Frozen)) == ["look", "left"]


def test_a_changed_copy_of_an_agent_keeps_its_toolsets() -> None:
    made = agent(Shelf, Frozen())

    copy = made.replace(max_iterations=3)

    assert [tool.toolset for tool in copy.tools] == [tool.toolset for tool in made.tools]


def test_all_that_an_agent_lists_of_one_object_stands_behind_it() -> None:
    shelf = Shelf()

    tools = [*agent(shelf).tools, *agent(shelf.count, shelf.helper).tools]

    origins = [tool.toolset for tool in tools if isinstance(tool.toolset, Origin)]
    assert [tool.name for tool in tools] == ["count", "put_back", "count", "helper"]
    assert len(origins) == 4
    assert len({id(origin.key) for origin in origins}) == 1
    assert agent(Shelf().count).tools[0].toolset is not None


def test_tools_of_a_toolset_can_be_called_as_the_methods_they_are() -> None:
    shelf = Shelf()

    assert (shelf.put("A", units=2), shelf.count("A"), Shelf.count(shelf, "A")) == ("done", 9, 9)


MISTAKES: list[Any] = [
    ([Shelf, Shelf()], ValueError, "two tools are named 'count'.*or the prefix of a toolset"),
    ([us.Toolset], ValueError, "toolset Toolset has no tools"),
    (
        [Elsewhere],
        TypeError,
        "toolset Elsewhere cannot be made so: missing a required argument: 'place'",
    ),
    ([cast(Any, partial)(Elsewhere, "here", "there")], TypeError, "cannot be made so: too many positional"),
]


@pytest.mark.parametrize(("tools", "error", "words"), MISTAKES)
def test_what_is_wrong_is_said_when_the_agent_is_made(tools: list[Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        agent(*tools)


@pytest.mark.parametrize(("prefix", "error"), [("two words ", ValueError), ("x" * 60, ValueError), (3, TypeError)])
def test_a_prefix_that_makes_no_names_is_refused(prefix: Any, error: type[Exception]) -> None:
    shelf = Shelf()
    shelf.prefix = prefix

    with pytest.raises(error, match="two words|x{60}|prefix must be a string"):
        agent(shelf)


def test_a_tool_that_would_run_beside_others_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(
        ValueError, match="toolset Wide: tool 'look': max_parallel=2, but calls of a toolset run one at a"
    ):

        class Wide(us.Toolset):  # pyright: ignore[reportUnusedClass]
            @us.tool(max_parallel=2)
            def look(self) -> str:
                return "seen"


def test_a_tool_without_its_object_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(TypeError, match="toolset Loose: tool 'look' takes no self"):

        class Loose(us.Toolset):  # pyright: ignore[reportUnusedClass]
            @us.tool
            def look() -> str:  # pyright: ignore[reportSelfClsParameterName, reportGeneralTypeIssues]
                return "seen"


def test_a_tool_of_the_class_itself_is_refused_when_its_class_is_made() -> None:
    @us.tool
    def look(cls: int = 0) -> str:
        return "seen"

    kinds: list[Any] = [classmethod, staticmethod]
    for kind in kinds:
        with pytest.raises(TypeError, match="toolset Common: tool 'look' is one of the class, and not of its objects"):
            type("Common", (us.Toolset,), {"look": kind(look)})


def test_a_method_cannot_run_in_a_process() -> None:
    with pytest.raises(TypeError, match="is a method; isolation='process' needs a function"):

        class Far(us.Toolset):  # pyright: ignore[reportUnusedClass]
            @us.tool(isolation="process")
            def look(self) -> str:
                return "seen"
