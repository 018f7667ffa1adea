"""Asks tools what became of calls that were under way when their process died.

A function that fails, returns something else than it should, or takes longer than a call of the tool may take, tells
nothing: a person decides then.
"""

from __future__ import annotations

import time
from logging import WARNING
from math import inf
from typing import TYPE_CHECKING

from understudy.actors.runs.ownership import Stale
from understudy.actors.tools.results import rendered, result_of
from understudy.diagnostics import emit
from understudy.errors import in_words
from understudy.orchestration.supervision.call_time import GRACE
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.context.overlays import CallSession
from understudy.vocabulary.context.run_values import values_of_run
from understudy.vocabulary.context.session import ToolContext
from understudy.vocabulary.messages import ToolCall, ToolResult
from understudy.vocabulary.tools.reconciling import CannotTell, DidNotHappen, Happened, names_wanted, wants_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.actors.runs.agent_record import AgentRunRecord
    from understudy.vocabulary.tools.definition import Tool


def found_of(record: AgentRunRecord, epoch: int) -> dict[str, ToolResult | None]:
    """Return what is found of the calls in doubt whose tools have `reconcile`: the result, or None for one that did not happen.

    User code runs here, on the thread of a work, for as long as a call of the tool may take.

    Raises:
        Stale: the run is over or in other hands.
    """
    assert record.machine is not None
    found: dict[str, ToolResult | None] = {}
    for call in record.machine.in_doubt:
        tool = record.agent.tools_by_name.get(call.name)
        if tool is None or tool.reconcile is None:
            continue
        question = ("reconcile", call.id)
        if question in record.answered:  # a work before this one hung in it
            _tell_failed(record, call, str(record.answered[question]))
            continue
        limit = inf if tool.timeout is None else time.monotonic() + tool.timeout + GRACE
        record.begin_step(epoch, f"asking what became of a call of {call.name}", limit, check=question)
        try:
            result = _asked(record, tool, tool.reconcile, call)
        except Stale:
            raise
        except BaseException as error:  # also sys.exit(): a person decides, and the agent is not to blame
            _tell_failed(record, call, in_words(error), error)
            continue
        if not isinstance(result, CannotTell):
            found[call.id] = result
    return found


def _tell_failed(record: AgentRunRecord, call: ToolCall, why: str, error: BaseException | None = None) -> None:
    values = values_of_run(record.link) | {"tool": call.name, "call_id": call.id}
    text = "reconcile of tool %s cannot tell, so a person decides: %s"
    emit(WARNING, "reconcile_failed", values, text, call.name, why, exc_info=error)


def _asked(
    record: AgentRunRecord, tool: Tool[..., object], ask: Callable[..., object], call: ToolCall
) -> ToolResult | CannotTell | None:
    """Return the result of a call that happened, and None if it did not happen."""
    from understudy.vocabulary.tools.schemas import check_arguments  # loads pydantic

    key = record.call_key(call.id)
    given: tuple[object, ...] = (_context(record, call, key), key) if wants_context(ask) else (key,)
    names, named = names_wanted(ask, [each.name for each in tool.signature.parameters]), dict[str, object]()
    if names is None:
        given = (*given, dict(call.arguments))
    else:
        as_taken = check_arguments(tool.signature, tool.name, call.arguments)
        named = {name: as_taken[name] for name in names}
    match ask(*given, **named):
        case Happened(result=result):
            return result_of(call, tool, rendered(result), record)
        case DidNotHappen():
            return None
        case CannotTell() as unknown:
            return unknown
        case other:
            raise WrongReturn(
                f"reconcile of tool {tool.name!r} must return us.Happened(result), us.DidNotHappen() or us.CannotTell(), "
                f"got {found_instead(other)}"
            )


def _context(record: AgentRunRecord, call: ToolCall, key: str) -> ToolContext[object]:
    """Return what the function sees of the run; what it writes to the session is dropped."""
    return ToolContext(
        deps=record.options.deps,
        session=CallSession(record.session),
        run_id=record.run_id,
        agent_id=record.agent.id,
        tool_name=call.name,
        call_id=call.id,
        call_key=key,
        arguments=call.arguments,
        scope=record.scope,
        artifacts=record.artifacts,
        user_id=record.options.user_id,
        conversation_id=record.options.conversation_id,
    )
