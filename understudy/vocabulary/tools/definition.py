"""Tools: typed functions that a model may call.

Making one only checks the function's signature. The JSON Schema and the validator of the arguments are built on first
use and kept with the tool, so that every agent that lists it shares them.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable
from operator import is_
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
    overload,
)

from understudy.vocabulary.checks import checked_flag, checked_seconds, checked_text, checked_whole
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import ToolCall, ToolSpec

from .isolation import Isolation, Place, check_can_travel, check_isolation, place_of
from .options import DEFAULT_MAX_RESULT, OnToolError, checked_max_result, checked_on_error, checked_parallel
from .origin import Origin
from .parameters import without_partial
from .reconciling import Reconcile, checked_reconcile
from .signature import signature_of
from .transactional import TRANSACTION_TIMEOUT, check_plain, check_transactional, checked_transaction_timeout

if TYPE_CHECKING:
    from typing_extensions import Unpack


P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
Owner = TypeVar("Owner")
Rest = ParamSpec("Rest")

DEFAULT_TOOL_TIMEOUT = 60.0  # Long enough for a slow web service, short enough that a hung one is noticed.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")  # The strictest of the providers' rules: OpenAI's 64 characters.

ApprovalRule: TypeAlias = "bool | Callable[[ToolCall, RunContext], bool]"


class ToolChanges(TypedDict, total=False):
    """What `Tool.replace` can change."""

    name: str
    description: str | None
    timeout: float | None
    retries: int
    idempotent: bool
    reconcile: Reconcile | None
    transactional: bool
    transaction_timeout: float
    approval: ApprovalRule
    isolation: Isolation
    memory_limit: int | None
    max_parallel: int | None
    on_error: OnToolError | None
    max_result: int | None


class Tool(Generic[P, R_co]):
    """A function that a model may call; calling the tool calls the function.

    Attributes:
        name: what the model calls it.
        timeout: seconds one call may take before the model is told that it timed out; None for no limit.
        retries: how often a call that raised is tried again.
        idempotent: whether a call that timed out, or whose process died, may be made again.
        reconcile: says what became of a call whose process died; None if nobody can.
        transactional: whether a call has a transaction in the store's database, which is committed with its result.
        transaction_timeout: seconds for which that transaction may be open.
        approval: whether a person must agree first, or a function of the call and its run that says so.
        isolation: where calls run: `"thread"`, `"process"` or `"caller"`.
        memory_limit: bytes of address space that the process of a call may take; None for no limit.
        max_parallel: how many calls may run at once in a system; None for any number.
        on_error: whether a call that fails is a result for the model or ends the run; None for what the agent says.
        max_result: characters of a result that the model gets; None for no limit but that of all results.
        toolset: where the object of a toolset's tool comes from; None for any other tool.
    """

    def __init__(
        self,
        function: Callable[P, R_co],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = DEFAULT_TOOL_TIMEOUT,
        retries: int = 0,
        idempotent: bool = False,
        reconcile: Reconcile | None = None,
        transactional: bool = False,
        transaction_timeout: float = TRANSACTION_TIMEOUT,
        approval: ApprovalRule = False,
        isolation: Isolation = "thread",
        memory_limit: int | None = None,
        max_parallel: int | None = None,
        on_error: OnToolError | None = None,
        max_result: int | None = DEFAULT_MAX_RESULT,
    ) -> None:
        if not callable(function):
            raise TypeError(f"a tool is made from a function, got {function!r}")
        inner = without_partial(function)
        self.name = _checked_name(_name_of(inner) if name is None else name)
        where = f"tool {self.name!r}"
        if inner is not function and _is_tool(inner):
            raise TypeError(
                f"{where} is made of a functools.partial of a tool, whose options would be lost; list the partial by "
                "itself, or make the tool of a partial of the plain function"
            )
        if description is not None:
            checked_text(f"{where}: description", description)
        self.timeout = timeout
        self.retries = retries
        self.idempotent = idempotent
        self.reconcile = reconcile
        self.transactional = transactional
        self.transaction_timeout = transaction_timeout
        self.approval = approval
        self.isolation: Isolation = isolation
        self.memory_limit = memory_limit
        self.max_parallel = max_parallel
        self.on_error: OnToolError | None = on_error
        self.max_result = max_result
        given: tuple[object, ...] = (timeout, retries, idempotent, reconcile, transactional, transaction_timeout)
        given += (approval, isolation, memory_limit, max_parallel, on_error, max_result)
        is_usual = all(map(is_, given, _USUAL))  # identical, because 0 equals False, which is no number of retries
        if not is_usual:
            self._check_options(where)
        self._function = function
        self._description = description
        self._spec: ToolSpec | None = None
        self.toolset: Origin | None = None
        self.signature = signature_of(function, self.name)
        self.__qualname__: str = getattr(inner, "__qualname__", self.name)
        functools.update_wrapper(self, inner, updated=())
        self.__wrapped__ = function
        if not is_usual:
            self._check_transaction(where, inner)
        self._place: Place | None = None
        if isolation == "process":
            self._check_can_travel()

    def _check_options(self, where: str) -> None:
        check_isolation(self.isolation, self.memory_limit, where)
        checked_seconds(f"{where}: timeout", self.timeout)
        checked_whole(f"{where}: retries", self.retries, 0)
        checked_flag(f"{where}: idempotent", self.idempotent)
        checked_reconcile(f"{where}: reconcile", self.reconcile)
        _check_approval(f"{where}: approval", self.approval)
        checked_parallel(f"{where}: max_parallel", self.max_parallel)
        if self.on_error is not None:
            checked_on_error(f"{where}: on_error", self.on_error)
        checked_max_result(f"{where}: max_result", self.max_result)

    def _check_transaction(self, where: str, inner: object) -> None:
        checked_flag(f"{where}: transactional", self.transactional)
        checked_transaction_timeout(f"{where}: transaction_timeout", self.transaction_timeout)
        if self.transactional:
            others = {"idempotent": self.idempotent, "reconcile": self.reconcile is not None}
            check_transactional(where, inner, self.signature, self.isolation, others)
        else:
            check_plain(where, self.transaction_timeout)

    def _check_can_travel(self) -> None:
        where = f"tool {self.name!r}"
        if self.is_bound or self.signature.receiver is not None:
            raise TypeError(
                f"{where} is a method; isolation='process' needs a function, as no instance goes to a worker"
            )
        check_can_travel(self._function, where)
        if self.signature.wants_deps:
            raise TypeError(
                f"{where}: isolation='process' has no deps, as they stay in the process of the run; annotate the "
                "context as ToolContext, and pass what the tool needs as arguments or in the session"
            )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self._function(*args, **kwargs)

    @property
    def is_bound(self) -> bool:
        """Whether this is a method's tool, bound to an instance."""
        return inspect.ismethod(self._function)

    @property
    def instance(self) -> object:
        """The instance whose tool this is; None for a function, and for a method that has none yet."""
        return self._function.__self__ if inspect.ismethod(self._function) else None

    @property
    def place(self) -> Place:
        """Where a worker process finds the tool's function.

        Raises:
            TypeError: another process would find nothing there, or something else.
        """
        if self._place is None:
            place = place_of(self._function, f"tool {self.name!r}")
            try:
                found = place.find()
            except AttributeError:
                found = None
            if (found._function if isinstance(found, Tool) else found) is not self._function:
                raise TypeError(
                    f"tool {self.name!r}: a worker process looks for its function at {place.module}:{place.qualname}, "
                    f"where it would find {found!r}"
                )
            self._place = place
        return self._place

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it: name, description and JSON Schema; built at the first use.

        Raises:
            TypeError: a parameter's type has no JSON Schema.
        """
        if self._spec is None:
            self._spec = self.signature.spec(self.name, self._description)
        return self._spec

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Tool[P, R_co]: ...
    @overload
    def __get__(
        self: Tool[Concatenate[Owner, Rest], R_co], instance: Owner, owner: type | None = None
    ) -> Tool[Rest, R_co]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., object]:
        """Return the tool of one instance, with the same options: the approval that a method needs goes with it."""
        bind = getattr(self._function, "__get__", None)
        if instance is None or bind is None:  # a partial, or another object that can be called, belongs to no instance
            return cast("Tool[..., object]", self)
        return self._copy(bind(instance, owner), {})

    def of_toolset(self, origin: Origin, name: str) -> Tool[..., object]:
        """Return this method as a tool of a toolset's, whose object each call gets from the runtime.

        Raises:
            ValueError: no provider would take the name.
        """
        function = self._function.__func__ if inspect.ismethod(self._function) else self._function
        made = self._copy(function, {"name": name})
        made.toolset = origin
        return made

    def replace(self, **changes: Unpack[ToolChanges]) -> Tool[P, R_co]:
        """Return a copy with some options changed, which says the same to a model unless `name` or `description` is.

        Raises:
            TypeError: the tool has no such option, or a value is of the wrong type.
            ValueError: a value is out of range.
        """
        unknown = sorted(changes.keys() - ToolChanges.__annotations__.keys())
        if unknown:
            known = ", ".join(sorted(ToolChanges.__annotations__))
            raise TypeError(f"tool {self.name!r} has no {', '.join(unknown)}; it has {known}")
        copy = self._copy(self._function, changes)
        copy.toolset = self.toolset
        return cast("Tool[P, R_co]", copy)

    def is_copy_of(self, other: Tool[..., object]) -> bool:
        """Whether this is the other tool, or what `replace` made of it."""
        return self._function == other._function

    def _copy(self, function: Callable[..., object], changes: ToolChanges) -> Tool[..., object]:
        kept = self._options()
        if not changes.get("transactional", True):
            kept["transaction_timeout"] = TRANSACTION_TIMEOUT
        kept.update(changes)
        return Tool(function, **kept)

    def with_bound(self, *args: object, **options: object) -> Tool[..., object]:
        """Return the tool of a `functools.partial` of its function, with the same options.

        Raises:
            TypeError: the function does not take such arguments.
        """
        function = cast("Callable[..., object]", self._function)
        return self._copy(functools.partial(function, *args, **options), {})

    def _options(self) -> ToolChanges:
        return {
            "name": self.name,
            "description": self._description,
            "timeout": self.timeout,
            "retries": self.retries,
            "idempotent": self.idempotent,
            "reconcile": self.reconcile,
            "transactional": self.transactional,
            "transaction_timeout": self.transaction_timeout,
            "approval": self.approval,
            "isolation": self.isolation,
            "memory_limit": self.memory_limit,
            "max_parallel": self.max_parallel,
            "on_error": self.on_error,
            "max_result": self.max_result,
        }

    def __reduce__(self) -> str | tuple[object, ...]:
        if inspect.ismethod(self._function):
            return (getattr, (self._function.__self__, self._function.__name__))
        function: object = self._function
        if type(function) is functools.partial:
            make: Callable[..., object] = functools.partial(Tool[..., object], **self._options())
            return (make, (cast(object, function),))
        # By name, as functions are: the other process imports the module and finds the same tool.
        return (_find, (self.__module__, self.__qualname__))

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


_CHECKED = (
    *("timeout", "retries", "idempotent", "reconcile", "transactional", "transaction_timeout"),
    *("approval", "isolation", "memory_limit", "max_parallel", "on_error", "max_result"),
)
_USUAL = tuple([inspect.signature(cast(Any, Tool).__init__).parameters[option].default for option in _CHECKED])
"""The defaults of the options. They need no check, and most tools have no other values."""


def _is_tool(given: object) -> bool:
    return isinstance(given, Tool)


def _of_partial(given: functools.partial[object]) -> ToolLike:
    """Return the tool of a partial of a tool, with the options of that one; else the partial itself."""
    inner: object = given.func
    if not isinstance(inner, Tool):
        return given
    return cast("Tool[..., object]", inner).with_bound(*given.args, **given.keywords)


def _name_of(function: Callable[..., object]) -> object:
    """Return the name of a function, or that of its class if it is an object that can be called."""
    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise ValueError("tool name '<lambda>': a lambda has no name: us.tool(name='…')(lambda …)")
    return name


def _checked_name(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"a tool's name must be a string, got {given!r}; say us.tool(name='…')(…)")
    if not NAME.fullmatch(given):
        raise ValueError(f"tool name {given!r}: expected letters, digits, '_' and '-', at most 64")
    return given


def _check_approval(where: str, given: ApprovalRule) -> None:
    if not isinstance(given, bool) and not callable(given):
        raise TypeError(f"{where} must be True, False or a function of the call and its run, got {given!r}")


def _find(module: str, qualname: str) -> object:
    found: object = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


ToolLike: TypeAlias = "Tool[..., object] | Callable[..., object]"


def as_tool(given: ToolLike) -> Tool[..., object]:
    """Return `given` if it is a tool, else a tool made from the function with the defaults.

    Raises:
        TypeError: it is a method that belongs to no instance, or its signature cannot be called by name; its calls
            are to run in another process, which could not find it.
    """
    if isinstance(given, functools.partial):
        given = _of_partial(cast("functools.partial[object]", given))
    # narrowing loses the parameter
    made = cast("Tool[..., object]", given) if isinstance(given, Tool) else Tool(given)
    if made.signature.receiver is not None and not made.is_bound and made.toolset is None:
        raise TypeError(f"tool {made.name!r} is a method; list it as one of an instance: tools=[thing.{made.name}]")
    if made.isolation == "process":
        _ = made.place  # raises for a function that no worker can find
    return made
