"""What is told of each event of a line: its public event and its log line, each from the event and the state around it.

The command line and the front ends word the public events, so they have no words for events of a line. An event makes at
most one public event, and its place in the line is the number of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from understudy.errors import BadReply, UnderstudyError
from understudy.orchestration.agent.next_step import new_messages
from understudy.orchestration.agent.next_step import outcome_of as outcome_of_agent
from understudy.orchestration.agent.pauses import paused_by
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.group.children import ChildFailure, ChildState
from understudy.orchestration.group.outcome import incomplete
from understudy.vocabulary.context.budget import in_dollars
from understudy.vocabulary.context.overlays import lasting
from understudy.vocabulary.messages import JsonValue, ToolCall
from understudy.vocabulary.runs import events as public
from understudy.vocabulary.runs.outcomes import Incomplete, MoreTurns, Outcome

from . import events as e
from .group_state import GroupLineState, MapLineState
from .state import AgentLineState

if TYPE_CHECKING:
    from .lines import Entry  # loads pydantic

Fields: TypeAlias = "dict[str, Any]"
AnyState: TypeAlias = "AgentLineState | GroupLineState | MapLineState"
Level: TypeAlias = Literal["debug", "info", "warning", "error"]
Ending: TypeAlias = "Outcome[object] | BaseException"


class LogLine(NamedTuple):
    """A line for the log: what `understudy.diagnostics.emit` is given. It has nothing that users or models said."""

    level: Level
    name: str
    values: Fields
    text: str = ""
    arguments: tuple[object, ...] = ()
    error: BaseException | None = None
    """The error whose words belong to the line; it has no traceback."""


class Told(NamedTuple):
    """What is told of one event."""

    event: public.Event | None
    line: LogLine | None


@dataclass(kw_only=True)
class Teller:
    """Tells a run by its line, event by event. For one thread at a time; asks no clock.

    Args:
        run_id: of the run.
        path: ids of the runners, from that of the reader's run to that of this one.
        state: what the line comes to; `tell` applies each event.
        parent_run_id: of the run around it.
        conversation_id: of the run.
        ending_of: returns how a run inside ended, which its own line tells; None if it has no line.
        has_own_lines: whether a callback of the runner logs turns, calls and the end itself.
    """

    run_id: str
    path: tuple[str, ...]
    state: AnyState
    parent_run_id: str | None = None
    conversation_id: str | None = None
    ending_of: Callable[[str], Ending | None] = lambda run_id: None
    has_own_lines: bool = False

    def __post_init__(self) -> None:
        self._began: dict[str, float] = {}
        """`RUN`, `TURN`, or the place of a run inside -> when it began."""
        self.endings: dict[str, Ending] = {}
        """Place -> how the run there ended or paused last."""

    def tell(self, entry: Entry) -> Told:
        """Apply the next event, and return what is told of it.

        Raises:
            ProtocolViolation: the event does not fit the state.
        """
        row = WORDS[type(entry.event)]
        before = row.fields(entry.event, self) if row.fields is not None and row.before else None
        self.state.apply(entry.event)
        return self.told(entry, before)

    def told(self, entry: Entry, before: Fields | None = None) -> Told:
        """Return what is told of an event that was applied; `before` has the fields that the state before it gave."""
        if isinstance(self.state, MapLineState):  # its caller has the answers
            return Told(None, None)
        row = WORDS[type(entry.event)]
        self._note(entry)
        fields = row.fields(entry.event, self) if row.fields is not None and not row.before else before
        told = None
        if row.public is not None and fields is not None:
            if row.ends:
                what = getattr(entry.event, "place", row.ends)
                fields["duration"] = entry.at - self._began.pop(what, entry.at)
            told = self._event(row.public, entry, fields)
        is_left_out = row.line is None or (row.public is not None and told is None)
        line = None if row.line is None or is_left_out else self.line(row.line, told, entry.event)
        has_readers = not (isinstance(told, public.RunFinished) and cast(str, told.outcome.status) == "more_turns")
        return Told(told if has_readers else None, line)

    def _event(self, kind: type[public.Event], entry: Entry, fields: Fields) -> public.Event:
        about: Fields = {"run_id": self.run_id, "path": self.path, "parent_run_id": self.parent_run_id}
        return kind(seq=entry.seq, time=entry.at, **about, **fields)

    def line(self, say: Say, told: public.Event | None, event: e.RunEvent | None = None) -> LogLine | None:
        """Return the line of a public event, and of the event that made it; None if a callback of the run logs it."""
        if self.has_own_lines and not say.stays:
            return None
        values: Fields = {"run_id": self.run_id, "agent": self.path[-1]}
        if self.conversation_id is not None:
            values["conversation_id"] = self.conversation_id
        arguments: tuple[object, ...] = ()
        if told is not None and say.text:
            arguments = (self.run_id, *say.arguments(told))
        values |= say.values(told, event, self)
        error = getattr(told, "error", None) if say.has_error else None
        return LogLine(say.level, say.name, values, say.text, arguments, error)

    def _note(self, entry: Entry) -> None:
        match entry.event:
            case e.Accepted() | e.TakenOver():
                self._began[RUN] = entry.at
            case e.TurnBegan():
                self._began[TURN] = entry.at
            case e.ChildBegan(place=place):
                self._began[place] = entry.at
            case _:
                pass

    def call(self, call_id: str) -> ToolCall:
        """Return a call of the round, as it runs."""
        round_ = _agent(self).state.round
        assert round_ is not None, "a call outside of a round"
        return next(call for call in cast("tuple[ToolCall, ...]", round_.calls) if call.id == call_id)

    def named(self, call: ToolCall) -> Fields:
        """Return what log lines say of a call: a name that a model made up can be any text."""
        definition = self.state.definition if isinstance(self.state, AgentLineState) else None
        known = definition is not None and any(tool.name == call.name for tool in definition.tools)
        return {"tool": call.name if known else "", "call_id": call.id}


RUN, TURN, CHILD = "run", "turn", "child"


def raised_of(error: BaseException) -> e.Raised:
    """Return an error as a line has it."""
    failure, known = ChildFailure.of(error), vars(error) if isinstance(error, UnderstudyError) else {}
    values = {name: each for name, each in known.items() if name != "token" and _is_kept(name, each)}
    return e.Raised(failure.kind, failure.message, values)


def _is_kept(name: str, value: object) -> bool:
    if name.startswith("_"):
        return False
    if isinstance(value, tuple):
        return all(isinstance(each, str) for each in cast("tuple[object, ...]", value))
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def error_of(kind: str, message: str, values: Mapping[str, JsonValue]) -> BaseException:
    """Return the error of a line: in its class if that is one of understudy's, else a `RunError` that names the class."""
    error = ChildFailure(kind, message).to_error()
    if type(error).__name__ == kind:
        for name, value in values.items():
            vars(error)[name] = tuple(cast("list[object]", value)) if isinstance(value, list) else value
    return error


def _error(raised: e.Raised | None) -> BaseException | None:
    return None if raised is None else error_of(raised.kind, raised.message, raised.values)


def _same(*names: str) -> Callable[..., Fields]:
    """Return what takes fields as they are, of an event for its public event, or of that for a log line."""

    def take(told: object, *_: object) -> Fields:
        return {name: getattr(told, name) for name in names}

    return take


# --- how a run ends


def _ended(event: e.Ended, t: Teller) -> Fields:
    if event.status == "more_turns":
        outcome: Any = MoreTurns(completion_reason="its next turn is due")
    elif isinstance(t.state, AgentLineState):
        outcome = outcome_of_agent(t.state.definition, _agent(t).state)
        if t.state.definition.output is not None and not isinstance(outcome, Incomplete):
            outcome = replace(outcome, output=event.output)
    else:
        machine = _group(t)
        outcome = machine.outcome or incomplete(machine.spec.runner_id, machine.state)
    return {"outcome": replace(outcome, **_so_far(t, outcome))}


def _asked(event: e.Asked, t: Teller) -> Fields:
    machine = _agent(t) if isinstance(t.state, AgentLineState) else _group(t)
    outcome = paused_by(machine.pauses)
    return {"outcome": replace(outcome, **_so_far(t, outcome))}


def _so_far(t: Teller, outcome: Outcome[object]) -> Fields:
    """Return the fields of an outcome that a machine does not fill."""
    spent = t.state.account.spending
    told: Fields = {"run_id": t.run_id, "agent_id": t.path[-1], "session": lasting(t.state.session)}
    told |= {"usage": spent.usage, "cost_usd": in_dollars(spent.cost)}
    if isinstance(t.state, AgentLineState):
        state = _agent(t).state
        told |= {name: getattr(state, name) for name in ("iterations", "turns", "model", "response_id", "request_id")}
        return told | {"messages": new_messages(state)}
    machine = _group(t)
    state = machine.state
    places: list[int] = list(range(len(state.children)))
    if isinstance(machine, GraphRun):
        places = [place for task in machine.state.tasks for place in task.children]
        told["tasks"] = machine.tasks
    endings = [_ending_at(t, place, state.children[place]) for place in places]
    told["children"] = tuple([each for each in endings if each is not None])
    told["iterations"] = sum([child.result.iterations for child in state.children if child.result is not None])
    told["turns"] = spent.all_turns
    if isinstance(outcome, Incomplete) and not outcome.last_text:
        all_told = [t.endings[place] for place in sorted(t.endings, key=int)]
        told["last_text"] = next((each.last_text for each in all_told if isinstance(each, Incomplete)), "")
    return told


def _ending_at(t: Teller, place: int, child: ChildState) -> Ending | None:
    if child.phase == "pending":  # others decided how the run ends
        return None
    ending = t.endings.get(str(place))
    if child.phase == "failed" and child.failure is not None and not isinstance(ending, BaseException):
        return child.failure.to_error()  # of a function of its task, or it could not begin
    return ending


def _failed(event: e.Failed, t: Teller) -> Fields:
    return {"error": error_of(event.kind, event.message, event.values)}


# --- the model, and what requests show


def _agent(t: Teller) -> Any:
    machine = cast(AgentLineState, t.state).machine
    assert machine is not None, "an event before the run was opened"
    return machine


def _group(t: Teller) -> Any:
    machine = cast(GroupLineState, t.state).machine
    assert machine is not None, "an event before the run was accepted"
    return machine


def _turn(event: e.TurnTaken | e.TurnRuled, t: Teller) -> Fields:
    told = replace(event.turn, parts=(), refusal="") if event.is_held else event.turn
    return {"turn": _agent(t).state.turns, "response": told, "attempts": event.attempts}


def _no_summary(event: e.SummaryCame | e.SummaryFailed, t: Teller) -> Fields | None:
    context = _agent(t).state.context
    failed = [change for change in context.news if change.kind == "failed"]
    if not failed:
        return None
    error = _error(event.error) if isinstance(event, e.SummaryFailed) else None
    why = BadReply(f"the conversation was not summed up: {failed[0].problem}") if error is None else error
    return {"error": why, "usage": failed[0].usage}


# --- calls, and runs inside


def _began(event: e.CallBegan, t: Teller) -> Fields:
    return {"call": t.call(event.call_id)}


def _result(event: e.ResultCame, t: Teller) -> Fields:
    result, told = event.result, {"attempts": event.attempts, "duration": event.duration}
    return {"call": t.call(result.call_id), "result": result, "error": _error(event.error), **told}


def _child(event: e.ChildBegan, t: Teller) -> Fields | None:
    if not isinstance(t.state, GroupLineState) or not event.run:  # of a sub-agent's run, the call is told
        return None
    named = {"position": int(event.place), "runner_id": event.runner, "child_run_id": event.run}
    return {**named, "task": event.task}


ChildEnd: TypeAlias = "e.ChildDone | e.ChildFailed | e.ChildPaused | e.ChildLimited | e.ChildKept"


def _child_ended(event: ChildEnd, t: Teller) -> Fields | None:
    if not isinstance(t.state, GroupLineState) or event.place not in t.state.children:
        return None
    begun = t.state.begun[event.place]
    if not begun.run:
        return None
    match event:
        case e.ChildKept(error=raised):
            ending: Ending | None = _error(raised)
        case e.ChildFailed(kind=kind, message=message):
            ending = t.ending_of(begun.run) or error_of(kind, message, {})
        case _:
            ending = t.ending_of(begun.run)
    if ending is None:
        return None
    t.endings[event.place] = ending
    key = "error" if isinstance(ending, BaseException) else "outcome"
    return {**cast(Fields, _child(begun, t)), key: ending}


# --- the session


def _overwritten(event: e.KeysOverwritten, t: Teller) -> Fields:
    return {"keys": event.keys, "other_run_id": event.other_run}


def _unsaved(event: e.KeysUnsaved, t: Teller) -> Fields:
    return {"keys": event.keys, "error": error_of(event.kind, event.message, event.values)}


# --- log lines


def _no_arguments(told: Any) -> tuple[object, ...]:
    return ()


class Say(NamedTuple):
    """A log line: how it is made of a public event. It has the values of the run besides its own."""

    level: Level
    name: str
    values: Callable[[Any, Any, Teller], Fields] = _same()
    """Of the public event, the event and the teller."""
    stays: bool = False
    """Whether it is written too if a callback logs turns, calls and the end."""
    text: str = ""
    arguments: Callable[[Any], tuple[object, ...]] = _no_arguments
    """For the places in the text after the run's id."""
    has_error: bool = False


OF_TURN = ("finish_reason", "model", "request_id")
OF_CONTEXT = ("how", "messages_before", "messages_after", "tokens_before", "tokens_after", "pruned")


def _of_error(kind: str, values: Mapping[str, object]) -> Fields:
    about: Fields = {"error_type": kind}
    return about | {"request_id": values["request_id"]} if values.get("request_id") else about


def _of_call(told: public.ToolStarted, event: Any, t: Teller) -> Fields:
    return t.named(told.call)


def _keys_and_run(told: public.SessionOverwritten) -> tuple[object, ...]:
    return len(told.keys), told.other_run_id


def _keys_and_store(told: public.SessionNotSaved) -> tuple[object, ...]:
    return len(told.keys), getattr(told.error, "store", "")


def _of_turn(told: public.TurnFinished, event: Any, t: Teller) -> Fields:
    said = told.response
    tokens = {"input_tokens": said.usage.input_tokens, "output_tokens": said.usage.output_tokens}
    about = {name: getattr(said, name) for name in OF_TURN}
    return {"turn": told.turn, "tool_calls": len(said.tool_calls), **tokens, **about}


def _of_result(told: public.ToolFinished, event: Any, t: Teller) -> Fields:
    result, took = told.result, {"attempts": told.attempts, "duration": told.duration}
    return t.named(told.call) | {"is_error": result.is_error, "error_kind": result.error_kind, **took}


def _of_outcome(told: public.RunFinished, event: Any, t: Teller) -> Fields:
    outcome = told.outcome
    counts = {"turns": outcome.turns, "iterations": outcome.iterations, "total_tokens": outcome.usage.total_tokens}
    return {"status": outcome.status, **counts, "duration": told.duration}


def _of_retry(told: public.RetryScheduled, event: Any, t: Teller) -> Fields:
    about: Fields = {} if told.call is None else t.named(told.call)
    if told.task:
        about["task"] = told.task
    raised = raised_of(told.error)
    about |= {"what": told.what, "attempt": told.attempt, "wait": told.wait}
    return about | _of_error(raised.kind, raised.values)


def _of_failure(told: public.RunFailed, event: e.Failed, t: Teller) -> Fields:
    return _of_error(event.kind, event.values) | {"duration": told.duration}


def _of_no_summary(told: public.CompactionFailed, event: e.SummaryCame | e.SummaryFailed, t: Teller) -> Fields:
    raised = event.error if isinstance(event, e.SummaryFailed) else None
    return {"error_type": type(told.error).__name__ if raised is None else raised.kind}


RUN_STARTED = Say("info", "run_started", stays=True)
TURN_STARTED = Say("debug", "turn_started", _same("turn"))
TURN_FINISHED = Say("debug", "turn_finished", _of_turn)
TOOL_STARTED = Say("debug", "tool_started", _of_call)
TOOL_FINISHED = Say("info", "tool_finished", _of_result)
CONTEXT_COMPACTED = Say("info", "context_compacted", _same(*OF_CONTEXT), stays=True)
COMPACTION_FAILED = Say("warning", "compaction_failed", _of_no_summary, stays=True)
RUN_FINISHED = Say("info", "run_finished", _of_outcome)
RUN_FAILED = Say("info", "run_failed", _of_failure)
SESSION_OVERWRITTEN = Say(
    "warning",
    "session_overwritten",
    _same("other_run_id"),
    stays=True,
    text="run %s: %d session values that it stored replace those of run %s, which it had not seen",
    arguments=_keys_and_run,
)
SESSION_NOT_SAVED = Say(
    "error",
    "session_not_saved",
    stays=True,
    text="run %s: %d session values could not be stored in %s",
    arguments=_keys_and_store,
    has_error=True,
)
RETRY_SCHEDULED = Say("info", "retry_scheduled", _of_retry, stays=True)


# --- the table


class Row(NamedTuple):
    """What is told of one class of events."""

    public: type[public.Event] | None = None
    """The class of its public event, which the command line and the front ends word; None if nothing is shown."""
    fields: Callable[[Any, Teller], Fields | None] | None = None
    """Returns the fields of that; None if this very event shows nothing."""
    line: Say | None = None
    why: str = ""
    """Why nothing is shown."""
    before: bool = False
    """Whether the fields are made of the state before the event."""
    ends: str = ""
    """`RUN`, `TURN` or `CHILD`, if the event tells how long that took."""


def _silent(why: str, *kinds: type[e.RunEvent], line: Say | None = None) -> dict[type[e.RunEvent], Row]:
    return dict.fromkeys(kinds, Row(line=line, why=why))


_CHILD_FINISHED = Row(public.ChildFinished, _child_ended, before=True, ends=CHILD)

WORDS: Mapping[type[e.RunEvent], Row] = {
    e.TurnBegan: Row(public.TurnStarted, _same("turn"), TURN_STARTED),
    e.TurnTaken: Row(public.TurnFinished, _turn, TURN_FINISHED, ends=TURN),
    e.TurnRuled: Row(public.TurnFinished, _turn, TURN_FINISHED, ends=TURN),
    e.TurnTakenBack: Row(public.TurnDropped, _same("turn", "text", "by", "attempt")),
    e.SummaryCame: Row(public.CompactionFailed, _no_summary, COMPACTION_FAILED),
    e.SummaryFailed: Row(public.CompactionFailed, _no_summary, COMPACTION_FAILED),
    e.ContextChanged: Row(public.ContextCompacted, _same(*OF_CONTEXT, "usage"), CONTEXT_COMPACTED),
    e.CallBegan: Row(public.ToolStarted, _began, TOOL_STARTED),
    e.CallNamed: Row(public.ToolStarted, _same("call"), TOOL_STARTED),
    e.ResultCame: Row(public.ToolFinished, _result, TOOL_FINISHED, before=True),
    e.CallSettled: Row(public.ToolFinished, _same("call", "result"), TOOL_FINISHED),
    e.ChildBegan: Row(public.ChildStarted, _child),
    e.ChildDone: _CHILD_FINISHED,
    e.ChildFailed: _CHILD_FINISHED,
    e.ChildPaused: _CHILD_FINISHED,
    e.ChildLimited: _CHILD_FINISHED,
    e.ChildKept: _CHILD_FINISHED,
    e.KeysConflicted: Row(public.SessionConflict, _same("keys")),
    e.KeysOverwritten: Row(public.SessionOverwritten, _overwritten, SESSION_OVERWRITTEN),
    e.KeysUnsaved: Row(public.SessionNotSaved, _unsaved, SESSION_NOT_SAVED),
    e.Diverged: Row(public.ConversationDiverged, _same("messages")),
    e.Asked: Row(public.RunFinished, _asked, RUN_FINISHED, ends=RUN),
    e.Ended: Row(public.RunFinished, _ended, RUN_FINISHED, ends=RUN),
    e.Failed: Row(public.RunFailed, _failed, RUN_FAILED, ends=RUN),
    **_silent("beginning", e.Accepted, e.TakenOver, line=RUN_STARTED),
    **_silent("beginning", e.Opened, e.Migrated, e.Answered, e.Extended),
    **_silent("inside of the turn", e.TurnCame, e.TurnLost, e.Overflowed, e.SummaryBegan),
    **_silent("inside of the round", e.RoundBegan, e.ResultsTaken, e.CallRetried, e.ResultsReviewed),
    **_silent("told by calls that are settled", e.CallsGuarded, e.CallsReconciled),
    **_silent("told by the pause or the end", e.CallsDoubted, e.CallsCut, e.RunRuled, e.ChildStopped),
    **_silent("told by the failure before it", e.ChildRefused),
    **_silent("not run", e.ChildSkipped),
    **_silent("a map has no readers", e.InputsEnded, e.HandedOut),
    **_silent("logged where it fails, with its traceback", e.Crashed),
    **_silent("told by the end", e.Closed),
    **_silent("told by the outcome", e.Charged, e.SessionChanged),
}
"""Each class of events -> what is told of it."""

SIGNALS: Mapping[type[public.Event], Say | None] = {
    public.TextDelta: None,
    public.ReasoningDelta: None,
    public.ToolCallDelta: None,
    public.PartialOutput: None,
    public.ToolProgress: None,
    public.RetryScheduled: RETRY_SCHEDULED,
}
"""Public events that no event of a line makes, because nobody keeps them: they are told to those who read now."""
