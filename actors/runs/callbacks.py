"""The moments at which callbacks are asked; and tools, what became of calls that were under way when their process died.

Callbacks run on the thread of the work that asks them, outside the record's lock. The record keeps each answer until it is
fed, so that the next work does not ask again if this one fails. A `reconcile` function that fails, or takes longer than a call
of the tool may take, tells nothing: a person decides then.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from logging import ERROR, WARNING
from math import inf
from typing import TYPE_CHECKING, cast

from understudy.actors.run_view.errors import note_missing_deps, safely
from understudy.actors.run_view.log import Finished, RunLog
from understudy.actors.tools.results import rendered, result_of
from understudy.diagnostics import emit
from understudy.errors import UnderstudyError, in_words
from understudy.orchestration.agent.rulings import ENDING, Ruling
from understudy.orchestration.agent.steps import Verdict
from understudy.orchestration.supervision.call_time import GRACE
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.context.overlays import CallSession, lasting
from understudy.vocabulary.context.run_values import values_of_run
from understudy.vocabulary.context.session import ToolContext
from understudy.vocabulary.messages import ModelTurn, ToolCall, ToolResult
from understudy.vocabulary.runs.callbacks import AgentCallback, Continue, Moment, RewriteArguments, action_of
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Outcome, stamp
from understudy.vocabulary.tools.reconciling import CannotTell, DidNotHappen, Happened, names_wanted, wants_context

from .agent_record import AgentRunRecord
from .ownership import Stale
from .turn_checks import must_wait, with_named_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.vocabulary.tools.definition import Tool


def note_guarded(log: RunLog, calls: Sequence[ToolCall], results: Mapping[str, ToolResult]) -> None:
    """Note calls that were blocked or skipped: no executor does."""
    for call in calls:
        result = results.get(call.id)
        if result is not None:
            log.note(call)
            log.note(Finished(call, result))


class CallbackDispatcher:
    """Asks the callbacks of a run, for the work that holds `epoch`; raises `Stale` to any other."""

    __slots__ = ("_epoch", "_record")

    def __init__(self, record: AgentRunRecord, epoch: int) -> None:
        self._record = record
        self._epoch = epoch

    # --- the model

    def ruling_after(self, turn: ModelTurn) -> Ruling | None:
        """Ask about the model's turn; return what a callback has in its place."""
        machine = self._record.machine
        assert machine is not None
        return self.ask("after_model_call", machine.state.turns + 1, with_named_calls(turn, machine))

    # --- tool calls

    def rulings_after(self, results: Sequence[tuple[ToolCall, ToolResult]]) -> dict[str, Ruling]:
        """Ask about results that are there; return what was decided, by call id."""
        rulings: dict[str, Ruling] = {}
        for call, result in results:
            ruling = self.ask("after_tool_call", call.id, call, result)
            if ruling is not None:
                rulings[call.id] = ruling
                if isinstance(ruling.action, ENDING):
                    break  # the model reads none of the results
        return rulings

    def rulings_before(self, calls: Sequence[ToolCall]) -> tuple[dict[str, Ruling], dict[str, Verdict]]:
        """Ask about calls that are to run; return what was decided, and whether a person must agree to changed calls, by call id."""
        rulings: dict[str, Ruling] = {}
        approvals: dict[str, Verdict] = {}
        for call in calls:
            ruling = self.ask("before_tool_call", call.id, call)
            if ruling is None:
                continue
            rulings[call.id] = ruling
            if isinstance(ruling.action, ENDING):
                break  # nothing runs any more
            if isinstance(ruling.action, RewriteArguments):
                rewritten = replace(call, arguments=ruling.action.arguments)
                verdict = must_wait(self._record, self._epoch, rewritten)
                if verdict is not None:
                    approvals[call.id] = verdict
        return rulings, approvals

    # --- the end

    def finish(self, outcome: Complete[object] | Incomplete) -> None:
        """Tell the outcome of a run that is over."""
        record = self._record
        stamp(outcome, record.run_id, lasting(record.session), record.artifacts.snapshot())
        self.tell(outcome)

    def tell(self, outcome: Outcome[object]) -> None:
        """Tell an outcome, also that of a run that pauses."""
        self.ask("on_finish", outcome.status, outcome)

    def ruling_of(self, error: UnderstudyError) -> Ruling | None:
        """Ask about an error with which the run is to end; return what a callback has in its place.

        A callback that fails here fails the agent, but the run still ends with `error`.
        """
        record = self._record
        record.told_error = True
        try:
            ruling = self.ask("on_error", 0, error)
        except Stale:
            raise
        except BaseException as failure:
            text = "a callback failed in on_error of run %s"
            emit(ERROR, "callback_failed", values_of_run(record.link), text, record.run_id, exc_info=failure)
            safely(record, record.fail_agent, failure)
            return None
        # A run that has not begun cannot take a text, and one that is done cannot take another.
        return None if record.machine is None or record.machine.state.phase == "done" else ruling

    def ask(self, moment: Moment, about: Hashable, *arguments: object) -> Ruling | None:
        """Ask the callbacks in order, and return what the first that does not continue decided."""
        record, question = self._record, (moment, about)
        callbacks = record.agent.callbacks
        known = record.answered.get(question, 0)  # how many have continued, or what one decided
        if isinstance(known, Ruling):
            return known
        for number in range(cast(int, known), len(callbacks)):
            callback = callbacks[number]
            if getattr(type(callback), moment) is getattr(AgentCallback, moment):
                continue
            record.begin_step(self._epoch, f"asking callback {callback.name}")
            session = CallSession(record.session)
            try:
                answer = getattr(callback, moment)(record.context_with(session), *arguments)
            except BaseException as error:
                note_missing_deps(error, record.options.deps)
                raise
            session.settle()
            action, fault = action_of(callback, moment, answer)
            if fault:
                emit(ERROR, "callback_failed", values_of_run(record.link), "%s (run %s)", fault, record.run_id)
            if not isinstance(action, Continue):
                ruling = Ruling(callback.name, action)
                record.note_answer(self._epoch, question, ruling, session)
                return ruling
            record.note_answer(self._epoch, question, number + 1, session)
        return None


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
