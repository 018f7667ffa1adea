"""`@tool`: makes a tool of a typed function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from .definition import DEFAULT_TOOL_TIMEOUT, ApprovalRule, Tool
from .isolation import Isolation
from .options import DEFAULT_MAX_RESULT, OnToolError
from .reconciling import Reconcile
from .transactional import TRANSACTION_TIMEOUT

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
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
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[..., object] | None = None,
    /,
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
) -> object:
    """Make a tool of a typed function: `@tool`, or `@tool(timeout=10, approval=True)`.

    The model reads the function's name, its docstring's first paragraphs, and the type, default and description of each
    parameter (from the docstring's `Args:`, or `Annotated[..., pydantic.Field(...)]`). Only the signature is checked here;
    the schema is built when an agent first needs it.

    Args:
        name: what the model calls it; None for the function's name.
        description: what the model is told; None for the docstring.
        timeout: seconds one call may take; None for no limit.
        retries: how often a call that raised is tried again.
        idempotent: whether a call that timed out, or whose process died, may be made again.
        reconcile: a function of `ToolContext.call_key` and the arguments, or of the context and these two: it says what became of a
            call whose process died, by `us.Happened(result)`, `us.DidNotHappen()` or `us.CannotTell()`. Without one, and for what
            it cannot tell, the run pauses and a person decides.
        transactional: whether `ToolContext.transaction()` gives the tool a transaction in the store's database, which is committed
            together with the result. A call whose process died before that did not happen, and is made again.
        transaction_timeout: seconds for which that transaction may be open, from its first statement to the tool's return; at most 4.
        approval: True, or a function of the call and its run: a person must agree first.
        isolation: where calls run. `"thread"`: on threads of the runtime. `"process"`: in a worker process, which may crash
            and is killed when the call times out or its run ends; the function must be at the top level of a module that
            can be imported. `"caller"`: on the thread that called `run` and waits, one after another.
        memory_limit: for `"process"`, bytes of address space of the worker, about 170 MB of its own included; None for no limit.
        max_parallel: calls at once in a system; None for any number. More calls wait without a thread, and their time
            begins when they do. A call that was given up counts until it comes back; if only such calls are left, others
            are answered at once with an error.
        on_error: `"result"`: the model reads the error of a call that fails. `"raise"`: it ends the run. None for what the
            agent's `on_tool_error` says.
        max_result: characters of a text result that the model gets: head and tail of a longer one, which is kept as an
            `Artifact` of the run. None to cut nothing. More than 8 Mi characters are an error either way.

    Raises:
        TypeError: a parameter has no annotation, or cannot be passed by name; no other process could find the function.
        ValueError: an option is out of range, or unknown.
    """
    options: dict[str, Any] = {
        "name": name,
        "description": description,
        "timeout": timeout,
        "retries": retries,
        "idempotent": idempotent,
        "reconcile": reconcile,
        "transactional": transactional,
        "transaction_timeout": transaction_timeout,
        "approval": approval,
        "isolation": isolation,
        "memory_limit": memory_limit,
        "max_parallel": max_parallel,
        "on_error": on_error,
        "max_result": max_result,
    }
    return functools.partial(Tool[..., object], **options) if function is None else Tool(function, **options)
