"""Tools: what is checked when one is made, how it is called, and what stays shared."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, ParamSpec, TypeAlias, TypeVar, cast

import pytest
from pydantic import AfterValidator, Field

import understudy as us
import understudy.vocabulary.context.session
from understudy import ToolContext
from understudy import ToolContext as Context
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import ToolCall
from understudy.vocabulary.tools.definition import Tool, as_tool

P = ParamSpec("P")
R = TypeVar("R")


class Shop:
    """What a tool may depend on."""


@us.tool
def on_shelf(sku: str, shop: str = "main") -> int:
    """Count the units of a product on the shelf."""
    return len(sku + shop)


def shouted(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return inner


class Bank:
    """A class with tools of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    @us.tool(approval=True, timeout=5, retries=2, idempotent=True, description="Pays back.")
    def refund(self, cents: int) -> str:
        """Pay money back."""
        return f"{self.name} pays {cents}"

    @us.tool
    async def look(self, sku: str) -> str:
        """Look."""
        return self.name + sku

    def plain(self, cents: int) -> int:
        """Take."""
        return cents


BANK = Bank("north")


# --- calling


def test_a_tool_is_called_as_its_function_and_looks_like_it() -> None:
    assert on_shelf("A-113", shop="x") == 6
    assert on_shelf.name == "on_shelf"
    assert on_shelf.__doc__ == "Count the units of a product on the shelf."
    assert list(inspect.signature(on_shelf).parameters) == ["sku", "shop"]
    assert repr(on_shelf) == "Tool('on_shelf')"


def test_options_have_defaults() -> None:
    assert (on_shelf.timeout, on_shelf.retries, on_shelf.idempotent, on_shelf.approval) == (60.0, 0, False, False)


def test_options_are_kept() -> None:
    def rule(call: ToolCall, context: RunContext) -> bool:
        return bool(call.arguments)

    @us.tool(name="take-it", description="Takes.", timeout=None, retries=3, idempotent=True, approval=rule)
    def take(sku: str) -> str:
        return sku

    assert (take.name, take.timeout, take.retries, take.idempotent, take.approval) == (
        "take-it",
        None,
        3,
        True,
        rule,
    )
    assert (take.spec.name, take.spec.description) == ("take-it", "Takes.")


def test_an_async_tool_is_called_as_the_function_it_is() -> None:
    @us.tool
    async def fetch(sku: str) -> str:
        return sku

    assert asyncio.run(fetch("A")) == "A"


def test_a_wrapped_function_keeps_its_signature_and_its_wrapper() -> None:
    @us.tool
    @shouted
    def take(sku: str, count: int = 1) -> str:
        """Take.

        Args:
            sku: product number
        """
        return sku * count

    assert take("A", count=2) == "AA"
    assert take.name == "take"
    properties = take.spec.schema["properties"]
    assert properties == {
        "sku": {"type": "string", "description": "product number"},
        "count": {"type": "integer", "default": 1},
    }


# --- methods


def test_a_method_is_the_tool_of_its_instance_and_keeps_its_options() -> None:
    # An approval that got lost on the way from the class to the instance would pay without asking.
    tool = BANK.refund

    assert isinstance(tool, Tool)
    assert (tool.approval, tool.timeout, tool.retries, tool.idempotent) == (True, 5, 2, True)
    assert tool(cents=7) == "north pays 7"
    assert Bank("south").refund(7) == "south pays 7"
    assert tool.spec.description == "Pays back."
    assert tool.spec.schema["properties"] == {"cents": {"type": "integer"}}


def test_an_agent_takes_methods_decorated_or_not() -> None:
    agent = us.Agent("clerk", model="rehearsal", tools=[BANK.refund, BANK.look, BANK.plain])

    assert [tool.name for tool in agent.tools] == ["refund", "look", "plain"]
    assert us.RunSpec.of(agent).approvals == {"refund": True, "look": False, "plain": False}


def test_a_method_without_its_instance_is_refused() -> None:
    with pytest.raises(TypeError, match=r"tool 'refund' is a method.*thing\.refund"):
        us.Agent("clerk", model="rehearsal", tools=[Bank.refund])
    with pytest.raises(TypeError, match="tool 'plain' is a method"):
        us.Agent("clerk", model="rehearsal", tools=[Bank.plain])


def test_a_class_method_is_a_tool_of_its_class() -> None:
    class Mint:
        @classmethod
        def coin(cls, cents: int) -> str:
            return f"{cls.__name__} {cents}"

        @staticmethod
        def melt(cents: int) -> int:
            return cents

    assert as_tool(Mint.coin).spec.schema["required"] == ["cents"]
    assert as_tool(Mint.coin)(cents=3) == "Mint 3"
    assert as_tool(Mint.melt)(cents=3) == 3


# --- sharing and pickling


def test_the_schema_is_built_once_for_all_tools_of_a_function() -> None:
    def take(sku: str) -> str:
        return sku

    first, second = us.tool(take), us.tool(name="again")(take)

    assert first.signature is second.signature
    assert first.spec.schema is second.spec.schema
    assert first.spec is first.spec
    assert first.signature.arguments_model("take") is second.signature.arguments_model("again")


def test_the_schema_is_built_once_for_all_instances_of_a_class() -> None:
    assert BANK.refund.spec.schema is Bank("south").refund.spec.schema
    assert as_tool(BANK.plain).signature is as_tool(Bank("south").plain).signature


def test_a_wrapper_does_not_share_the_signature_of_what_it_wraps() -> None:
    def take(sku: str) -> str:
        return sku

    outer = shouted(take)

    assert us.tool(take).signature is not us.tool(outer).signature


def test_as_tool_gives_a_tool_back_and_makes_one_of_a_function() -> None:
    def take(sku: str) -> str:
        return sku

    assert as_tool(on_shelf) is on_shelf
    assert as_tool(take).name == "take"


def test_a_tool_is_pickled_by_its_qualified_name() -> None:
    assert pickle.loads(pickle.dumps(on_shelf)) is on_shelf
    assert copy.copy(on_shelf) is on_shelf
    assert copy.deepcopy(on_shelf) is on_shelf


def test_the_tool_of_an_instance_is_pickled_with_the_instance() -> None:
    tool = pickle.loads(pickle.dumps(BANK.refund))

    assert isinstance(tool, Tool)
    assert tool.approval is True
    assert tool(cents=1) == "north pays 1"
    assert pickle.loads(pickle.dumps(Bank.refund)) is Bank.refund


# --- contexts


def bare(ctx: ToolContext, sku: str) -> None: ...
def of_deps(ctx: ToolContext[Shop], sku: str) -> None: ...
def dotted(ctx: us.ToolContext[Shop], sku: str) -> None: ...
def far(ctx: understudy.vocabulary.context.session.ToolContext[Shop], sku: str) -> None: ...
def quoted(ctx: "us.ToolContext[Shop]", sku: str) -> None: ...  # noqa: UP037  # the spelling is the point
def renamed(ctx: Context[Shop], sku: str) -> None: ...
def optional(sku: str, ctx: ToolContext[Shop] | None = None) -> None: ...
def last(sku: str, *, ctx: ToolContext[Shop]) -> None: ...


Ours = ToolContext[Shop]


def by_alias(ctx: Ours, sku: str) -> None: ...
def by_object(ctx: str, sku: str) -> None: ...
def by_union(ctx: str, sku: str) -> None: ...


by_object.__annotations__["ctx"] = ToolContext[Shop]  # as in modules without the __future__ import
by_union.__annotations__["ctx"] = ToolContext[Shop] | None


@pytest.mark.parametrize(
    "function",
    [bare, of_deps, dotted, far, quoted, renamed, optional, last, by_alias, by_object, by_union],
    ids=lambda function: function.__name__,
)
def test_a_context_is_known_in_every_spelling_and_kept_from_the_model(function: Callable[..., object]) -> None:
    tool = as_tool(function)

    assert tool.signature.context_parameter == "ctx"
    assert tool.spec.schema == {
        "type": "object",
        "properties": {"sku": {"type": "string"}},
        "required": ["sku"],
        "additionalProperties": False,
    }


def not_a_context(ctx: str, tool_context: str) -> None: ...


def test_a_parameter_that_is_only_called_like_a_context_is_none() -> None:
    assert as_tool(not_a_context).signature.context_parameter is None


# --- what is refused


def stars(*skus: str) -> None: ...
def double_stars(**skus: str) -> None: ...
def by_position(sku: str, /) -> None: ...
def two_contexts(a: ToolContext, b: ToolContext) -> None: ...


def unannotated() -> Callable[..., object]:
    scope: dict[str, Callable[..., object]] = {}
    exec("def unannotated(sku): ...", scope)  # noqa: S102  # type checkers refuse it where it can be seen
    return scope["unannotated"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (stars, "tool 'stars': parameter 'skus' is variadic positional"),
        (double_stars, "tool 'double_stars': parameter 'skus' is variadic keyword"),
        (by_position, "tool 'by_position': parameter 'sku' is positional-only"),
        (two_contexts, "tool 'two_contexts': parameter 'b' is a second ToolContext"),
        (unannotated(), "tool 'unannotated': parameter 'sku' has no type annotation"),
    ],
)
def test_a_signature_that_no_model_can_call_is_refused_when_the_tool_is_made(
    function: Callable[..., object], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        us.tool(function)


@pytest.mark.parametrize("name", ["", "two words", "1st", "x" * 65, "näme", "a.b", "a\n"])
def test_a_name_that_a_provider_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected letters, digits"):
        us.tool(name=name)(on_shelf)


@pytest.mark.parametrize("name", ["a", "_a", "a-b", "x" * 64])
def test_a_name_that_providers_take_is_taken(name: str) -> None:
    assert us.tool(name=name)(lambda: None).name == name


@pytest.mark.parametrize("given", [lambda: None, functools.partial(lambda: None)])
def test_a_lambda_needs_a_name(given: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"a lambda has no name: us\.tool\(name='…'\)\(lambda …\)"):
        as_tool(given)


def search(shop: str, sku: str, limit: int = 3) -> str:
    """Search a shop.

    Args:
        shop: which one
        sku: product number
        limit: how many
    """
    return f"{shop} {sku} {limit}"


@pytest.mark.parametrize(
    ("bound", "left"),
    [
        (functools.partial(search, "main"), {"sku", "limit"}),
        (functools.partial(search, shop="main"), {"sku", "limit"}),
        (functools.partial(functools.partial(search, "main"), limit=1), {"sku"}),
    ],
)
def test_what_a_partial_has_bound_is_not_the_model_s_to_say(bound: Callable[..., str], left: set[str]) -> None:
    made = as_tool(bound)

    assert (made.name, made.spec.description) == ("search", "Search a shop.")
    properties = made.spec.schema["properties"]
    assert isinstance(properties, dict)
    assert properties.keys() == left
    assert str(made(sku="A-113")).startswith("main A-113")


def test_a_partial_that_has_bound_what_is_not_taken_is_refused() -> None:
    with pytest.raises(
        TypeError, match="tool 'search': functools.partial has bound arguments that its function does not"
    ):
        as_tool(functools.partial(cast("Callable[..., str]", search), shops="main"))


def test_a_partial_of_a_tool_has_its_options() -> None:
    made = as_tool(functools.partial(BANK.refund, cents=5))

    assert (made.name, made.approval, made.retries, made.spec.description) == ("refund", True, 2, "Pays back.")
    assert made() == "north pays 5"


def test_options_beside_those_of_a_partial_s_tool_are_refused() -> None:
    with pytest.raises(TypeError, match="a functools.partial of a tool, whose options would be lost"):
        us.tool(functools.partial(BANK.refund, cents=5))


def test_a_partial_can_still_be_pickled_when_a_tool_was_made_of_it() -> None:
    bound = functools.partial(search, "main")
    made = as_tool(bound)

    assert made.spec.name == "search"  # which builds the schema

    copies: list[Callable[..., str]] = [pickle.loads(pickle.dumps(each)) for each in (bound, made)]

    assert [each(sku="A-113") for each in copies] == ["main A-113 3"] * 2


def test_what_cannot_be_called_is_no_tool() -> None:
    with pytest.raises(TypeError, match="a tool is made from a function, got 3"):
        as_tool(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake is the point


# --- isolation


def top_level(ctx: us.ToolContext, sku: str) -> str:
    return sku


def needs_shop(ctx: us.ToolContext[Shop]) -> str:
    return "no"


def needs_shop_in_words(ctx: "us.ToolContext[Shop] | None") -> str:  # noqa: UP037 (a string is what it is about)
    return "no"


ShopContext: TypeAlias = us.ToolContext[Shop]


def needs_shop_or_none(ctx: us.ToolContext[Shop] | None) -> str:
    return "no"


def needs_shop_by_alias(ctx: ShopContext) -> str:
    return "no"


def needs_nothing(ctx: us.ToolContext[None], other: int) -> int:
    return other


def needs_anything(ctx: us.ToolContext[Any]) -> str:
    return "no"


MAIN = types.FunctionType(top_level.__code__, {"__name__": "__main__"}, "main", None, None)
MAIN.__annotations__ = top_level.__annotations__

NOT_FOR_PROCESSES = [
    pytest.param(
        lambda: us.tool(isolation="process", name="made")(lambda: None), "cannot find .*<lambda>", id="lambda"
    ),
    pytest.param(lambda: us.tool(isolation="process")(nested()), r"cannot find 'nested.<locals>.inner'", id="nested"),
    pytest.param(lambda: us.tool(isolation="process")(BANK.plain), "is a method", id="bound method"),
    pytest.param(lambda: us.tool(isolation="process")(Bank.plain), "is a method", id="method"),
    pytest.param(
        lambda: us.tool(isolation="process")(functools.partial(top_level, sku="x")),
        "cannot find a functools.partial",
        id="partial",
    ),
    pytest.param(lambda: us.tool(isolation="process")(MAIN), "move it to a module of its own", id="__main__"),
    pytest.param(lambda: us.tool(isolation="process")(needs_shop), "has no deps", id="deps"),
    pytest.param(lambda: us.tool(isolation="process")(needs_shop_in_words), "has no deps", id="deps in words"),
    pytest.param(lambda: us.tool(isolation="process")(needs_shop_or_none), "has no deps", id="deps or none"),
    pytest.param(lambda: us.tool(isolation="process")(needs_shop_by_alias), "has no deps", id="deps by an alias"),
]


def nested() -> Callable[[], int]:
    def inner() -> int:
        return 1

    return inner


@pytest.mark.parametrize(("make", "words"), NOT_FOR_PROCESSES)
def test_a_function_that_no_other_process_could_run_is_refused_when_the_tool_is_made(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(TypeError, match=f"tool .*{words}"):
        make()


@pytest.mark.parametrize("function", [top_level, needs_nothing, needs_anything, nested])
def test_a_function_that_another_process_finds_is_taken(function: Callable[..., object]) -> None:
    made = us.tool(isolation="process")(function)

    assert as_tool(made) is made


def test_a_function_that_is_something_else_under_its_name_is_refused_when_an_agent_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = us.tool(isolation="process")(top_level)
    monkeypatch.setattr(sys.modules[__name__], "top_level", needs_shop)

    with pytest.raises(
        TypeError, match=rf"looks for its function at {__name__}:top_level, where it would find <function"
    ):
        us.Agent("clerk", model="rehearsal", tools=[made])

    monkeypatch.delattr(sys.modules[__name__], "top_level")
    with pytest.raises(TypeError, match="where it would find None"):
        us.Agent("clerk", model="rehearsal", tools=[made])


def test_a_function_of_a_module_that_was_never_imported_is_refused_when_an_agent_is_made() -> None:
    names: dict[str, Any] = {"__name__": "made_up", "us": us}
    exec("@us.tool(isolation='process')\ndef look() -> int: return 1", names)  # noqa: S102 (a notebook does it too)

    with pytest.raises(TypeError, match="no other process can import its module 'made_up'"):
        us.Agent("clerk", model="rehearsal", tools=[names["look"]])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"timeout": 0}, ValueError, "timeout must be above 0 seconds"),
        ({"timeout": -1}, ValueError, "timeout must be above 0 seconds"),
        ({"timeout": float("nan")}, ValueError, "timeout must be above 0 seconds"),
        ({"timeout": "10"}, TypeError, "timeout must be a number of seconds, or None for no limit; got '10'"),
        ({"retries": -1}, ValueError, "retries must be at least 0, got -1"),
        ({"retries": "2"}, TypeError, "retries must be a whole number, got '2'"),
        ({"approval": "yes"}, TypeError, "approval must be True, False or a function of the call and its run"),
        ({"isolation": "fiber"}, ValueError, "isolation must be one of 'thread', 'process', 'caller', got 'fiber'"),
        ({"isolation": None}, ValueError, "isolation must be one of"),
        ({"memory_limit": 2**30}, ValueError, "memory_limit needs isolation='process'"),
        ({"memory_limit": 0, "isolation": "process"}, ValueError, "above 0 bytes"),
        ({"memory_limit": 1.5, "isolation": "process"}, TypeError, "whole number of bytes"),
        ({"memory_limit": True, "isolation": "process"}, TypeError, "whole number of bytes"),
        # equal to the default, but of another type
        ({"retries": False}, TypeError, "retries must be a whole number, got False"),
        ({"idempotent": 0}, TypeError, "idempotent must be True or False, got 0"),
        ({"transactional": 0}, TypeError, "transactional must be True or False, got 0"),
        ({"transaction_timeout": True}, TypeError, "transaction_timeout must be a number of seconds, got True"),
        ({"approval": 0}, TypeError, "approval must be True, False or a function of the call and its run"),
        ({"max_result": 50_000.0}, TypeError, "max_result must be a whole number or None, got 50000.0"),
    ],
)
def test_options_are_checked(options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"tool 'top_level': .*{words}"):
        us.tool(**options)(top_level)


def test_a_tool_of_an_instance_keeps_its_isolation() -> None:
    class Till:
        @us.tool(isolation="caller")
        def count(self) -> int:
            return 1

    assert Till().count.isolation == "caller"


Positive = Annotated[int, AfterValidator(abs)]
late: Any = None  # bound to a type after the tool was made


@pytest.mark.parametrize(
    ("annotation", "default", "is_plain"),
    [
        (int, inspect.Parameter.empty, True),
        (bool, False, True),
        ("str", "all", True),
        (float, None, True),
        ("list[int]", inspect.Parameter.empty, False),
        (Positive, inspect.Parameter.empty, False),
        ("late", inspect.Parameter.empty, False),
        (int, Field(default_factory=int), False),
    ],
    ids=str,
)
def test_only_arguments_of_plain_types_and_defaults_are_checked_by_no_code_of_users(
    annotation: object, default: object, is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(ctx: ToolContext, plain: int, sku: object) -> str:
        raise NotImplementedError

    look.__annotations__["sku"] = annotation
    look.__defaults__ = () if default is inspect.Parameter.empty else (default,)
    made = as_tool(look)
    monkeypatch.setitem(globals(), "late", Positive)

    assert not made.signature.is_plain  # nobody knows yet
    made.signature.schema("look")
    assert made.signature.is_plain is is_plain
