"""What can happen in a run: the events of its line, which are appended and never changed.

An event makes at most one public event, which has the event's place in the line as its number. Pieces of a turn, progress of a
tool and retries of a client are signals for those who read now: they are no events, and have no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar, cast, dataclass_transform

from understudy.orchestration.agent.rulings import Ruling
from understudy.orchestration.agent.steps import Resolution, Verdict
from understudy.vocabulary.context.budget import Budget
from understudy.vocabulary.fast_init import fast_init
from understudy.vocabulary.messages import NO_USAGE, JsonValue, Message, ModelTurn, Part, ToolCall, ToolResult, Usage
from understudy.vocabulary.runs.outcomes import Decision, Pause


class RunEvent:
    """Something that happened in a run."""

    __slots__ = ()


C = TypeVar("C", bound=type[RunEvent])

KINDS: dict[str, type[RunEvent]] = {}
"""Each class of events, by the name that a line has for it."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _event(cls: C) -> C:
    made = cast("C", dataclass(frozen=True, slots=True)(cls))
    if cls.__annotations__:
        made = fast_init(made)
    KINDS[cls.__name__] = made
    return made


@dataclass(frozen=True, slots=True)
class Changes:
    """What user code changed of the session of its run. `temp:` keys are written into no line."""

    values: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The keys that were set."""
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent since the event before: replay adds it, and asks neither prices nor budgets.

    It has what the run spent itself, and what runs inside spent that are over since. A run inside that is under way has a line
    of its own.
    """

    usage: Usage = NO_USAGE
    cost: int | None = 0
    """In `PARTS_PER_DOLLAR`; None if it is unknown."""
    turns: int = 0
    tool_calls: int = 0


NOTHING = Spent()
A_TURN, A_CALL = Spent(turns=1), Spent(tool_calls=1)
"""What most turns and rounds spend beside tokens: a line does not repeat it. A turn that came before has spent it already."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An error as a line has it."""

    kind: str
    """The name of its class."""
    message: str
    values: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Its attributes that are texts or numbers, such as the id of a request; without a token."""


Answer: TypeAlias = str | Decision | dict[str, Decision]
"""A person's text, decision, or decisions by call id."""


# --- how a run begins


@_event
class Accepted(RunEvent):
    """The run was taken on."""

    runner: str
    """The id of its agent, group or workflow."""
    definition: str
    """The digest of the definition that the line is written under."""
    input: str | tuple[Part, ...]
    parent: str = ""
    """The line of the run around it; empty for a run of its own."""
    place: str = ""
    """The call or the child of the parent that it is."""
    session: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    history: tuple[Message, ...] = ()
    parameters: Mapping[str, JsonValue] | None = None
    """Of a workflow."""
    user_id: str | None = None
    conversation_id: str | None = None
    budget: Budget | None = None
    """The caller's; the definition may have one besides."""
    deadline: float | None = None
    """In seconds since the epoch."""


@_event
class Opened(RunEvent):
    """The memory, the store of sessions and the prompt function gave what the first request needs."""

    history: tuple[Message, ...] = ()
    system: str | None = None
    """What the prompt function returned; None without one."""
    session: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    changes: Changes | None = None


# --- the model


@_event
class TurnBegan(RunEvent):
    """The model is asked: limits and budgets allowed it."""

    turn: int


@_event
class TurnCame(RunEvent):
    """A turn is paid for and not judged yet: a later stay judges it, and does not ask again."""

    turn: ModelTurn
    spent: Spent = NOTHING


@_event
class TurnTaken(RunEvent):
    """The model's turn, and what checks, rules and criteria found about it."""

    turn: ModelTurn
    problems: Mapping[int, str] | None = None
    """Position of a call -> why its arguments do not fit."""
    resolutions: Mapping[int, Resolution] | None = None
    approvals: Mapping[int, Verdict] | None = None
    met: str | None = None
    """Why the text ends the run, for an agent with criteria."""
    output_problem: str | None = None
    """The problem of a typed answer; empty if there is none, None if nothing was checked."""
    changes: Changes | None = None
    spent: Spent = A_TURN
    attempts: int = 1
    """Requests for it, those of its client and those of the stays before."""
    is_held: bool = False
    """Whether it does not stand, and a callback keeps its text from readers."""


@_event
class TurnRuled(RunEvent):
    """A callback decided about the turn, which counts and is not kept."""

    turn: ModelTurn
    ruling: Ruling
    changes: Changes | None = None
    spent: Spent = A_TURN
    attempts: int = 1
    is_held: bool = False
    """As of `TurnTaken`."""


@_event
class TurnTakenBack(RunEvent):
    """What was shown of a turn does not stand."""

    turn: int
    text: str = ""
    by: str = ""
    """The callback, `output_type`, `criteria` or `compaction`; empty if the model call failed."""
    attempt: int = 1


@_event
class TurnLost(RunEvent):
    """A model call was cut off; what came of it is paid for."""

    partial: ModelTurn | None = None
    spent: Spent = NOTHING


@_event
class Overflowed(RunEvent):
    """The model refused the request as longer than its context window."""

    tokens: int | None = None
    limit: int | None = None
    spent: Spent = NOTHING


@_event
class SummaryBegan(RunEvent):
    """The model is asked for a summary of the conversation."""


@_event
class SummaryCame(RunEvent):
    """The answer to a request for a summary of the conversation."""

    turn: ModelTurn
    spent: Spent = NOTHING


@_event
class SummaryFailed(RunEvent):
    """There is no summary, and the run goes on without it."""

    problem: str
    spent: Spent = NOTHING
    error: Raised | None = None
    """Of the model call."""


@_event
class ContextChanged(RunEvent):
    """Requests show less of the conversation from now on. The events before it decided that: this one tells it."""

    how: Literal["pruned", "summarized"]
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    pruned: int = 0
    usage: Usage = NO_USAGE


# --- tool calls


@_event
class RoundBegan(RunEvent):
    """The round of calls counts: limits and budgets allowed it."""

    spent: Spent = A_CALL


@_event
class CallsGuarded(RunEvent):
    """Callbacks decided about calls that are to run; calls without a ruling run as they are."""

    rulings: Mapping[str, Ruling]
    approvals: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    changes: Changes | None = None


@_event
class CallBegan(RunEvent):
    """A call is under way: after a takeover it is in doubt, unless its result follows."""

    call_id: str


@_event
class CallNamed(RunEvent):
    """A call is told that has its result without having run: `CallSettled` follows."""

    call: ToolCall


@_event
class CallSettled(RunEvent):
    """The result of such a call. The events before it decided the result: this one tells it."""

    call: ToolCall
    result: ToolResult


@_event
class CallRetried(RunEvent):
    """An attempt failed or took too long, and the call is due again."""

    call_id: str


@_event
class ResultCame(RunEvent):
    """A call has its result. The results of a round are taken together, in call order, when all of its calls have one."""

    result: ToolResult
    changes: Changes | None = None
    spent: Spent = NOTHING
    """What the run of a sub-agent spent, which the call is, and runs that the tool began."""
    duration: float = 0.0
    """Seconds since the first attempt began."""
    attempts: int = 1
    """0 for a call that never began."""
    error: Raised | None = None
    """What the tool raised."""


@_event
class ResultsTaken(RunEvent):
    """The results that have come are taken together, although calls of the round have none yet."""


@_event
class CallsCut(RunEvent):
    """The run was ended while these calls were under way: they are not made again."""

    call_ids: tuple[str, ...]
    spent: Spent = NOTHING


@_event
class ResultsReviewed(RunEvent):
    """Callbacks have seen the results of the round."""

    rulings: Mapping[str, Ruling]
    changes: Changes | None = None


@_event
class CallsDoubted(RunEvent):
    """Another process has the run, and nobody knows what these calls did."""

    call_ids: tuple[str, ...]


@_event
class CallsReconciled(RunEvent):
    """What `reconcile` functions found of calls in doubt: the result, or None for a call that did not happen."""

    found: Mapping[str, ToolResult | None]


# --- runs inside


@_event
class ChildBegan(RunEvent):
    """A run inside of this one begins, or goes on."""

    place: str
    """The position of a child, or the id of a call."""
    run: str
    """Its line; empty if it cannot begin."""
    runner: str = ""
    task: str = ""


@_event
class ChildDone(RunEvent):
    """A run inside is complete."""

    place: str
    text: str = ""
    combined_text: str | None = None
    iterations: int = 0
    usage: Usage = NO_USAGE
    """Of all of its stays, as `turns` is."""
    turns: int = 0
    again: bool = False
    """Whether the task's `until` function wants another repetition."""
    changes: Changes | None = None
    spent: Spent = NOTHING


@_event
class ChildFailed(RunEvent):
    """A run inside ended with an error."""

    place: str
    kind: str
    message: str
    may_retry: bool = False
    changes: Changes | None = None
    spent: Spent = NOTHING


@_event
class ChildPaused(RunEvent):
    """A run inside waits for a person."""

    place: str
    run: str
    pauses: tuple[Pause, ...]
    changes: Changes | None = None
    spent: Spent = NOTHING


@_event
class ChildLimited(RunEvent):
    """A run inside stands at a limit, or stopped short of its end: it goes on when the limit is raised."""

    place: str
    run: str
    kind: str = ""
    message: str = ""
    changes: Changes | None = None
    spent: Spent = NOTHING


@_event
class ChildStopped(RunEvent):
    """The run of a sub-agent ended with an error that ends this run too, and goes on with it."""

    place: str
    run: str
    spent: Spent = NOTHING


@_event
class ChildKept(RunEvent):
    """A run inside that failed, or was under way when this run ended, goes on when this run does."""

    place: str
    run: str
    error: Raised | None = None
    """How readers are told that it is over; None if they were told before."""
    spent: Spent = NOTHING


@_event
class ChildRefused(RunEvent):
    """The run inside that is told to have failed just now could not begin or go on: it does so when this run goes on."""

    place: str


@_event
class ChildSkipped(RunEvent):
    """The `when` function of a task returned False."""

    place: str


@_event
class InputsEnded(RunEvent):
    """A map has taken all of its inputs."""


@_event
class HandedOut(RunEvent):
    """The caller of a map has the next answer."""


@_event
class KeysConflicted(RunEvent):
    """Runs or calls that were under way together changed the same keys in different ways; the last one wins."""

    keys: tuple[str, ...]


@_event
class KeysOverwritten(RunEvent):
    """The run stored values in place of values that another run had stored, which this one has not seen."""

    keys: tuple[str, ...]
    other_run: str


@_event
class KeysUnsaved(RunEvent):
    """Values of the session could not be stored."""

    keys: tuple[str, ...]
    kind: str
    message: str
    values: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """As of `Raised`."""


@_event
class Diverged(RunEvent):
    """The conversation went on while the run was paused: so many messages of others come before its turn."""

    messages: int


# --- people, limits, the end


@_event
class Asked(RunEvent):
    """Nothing is left to do before a person answers."""

    number: int = 1
    """Which question of the run it is, from 1: the run's token names it."""


@_event
class Answered(RunEvent):
    """A person's answers, by pause."""

    answers: Mapping[str, Answer]
    of: int = 0
    """Which question of the run around it they are for, so that none is fed twice."""


@_event
class Extended(RunEvent):
    """Limits were raised, or the run goes on after an error."""

    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    budget: Budget | None = None
    places: tuple[str, ...] = ()
    """Of a group: the children at a limit that go on; without any, what failed is done again."""


@_event
class TakenOver(RunEvent):
    """Another process, or another stay in this one, goes on with the run."""

    owner: str = ""
    seconds: float = 0.0
    """How long the stay before was active."""
    definition: str = ""
    """The digest of the definition from here on; empty if it stays the same."""
    session: Changes | None = None
    """How the values that the run sees differ from those that it had: its caller or runs around it changed them."""


@_event
class Migrated(RunEvent):
    """The state was given as text, by a run of an older form or by a `migrate` function: replay begins here."""

    state: str
    """The machine's, as its `to_json` writes it."""
    definition: str
    in_stay: Spent = NOTHING
    """What the run has spent since its stay began: the figures of the state have it."""


@_event
class Crashed(RunEvent):
    """Code of the agent failed in a work, which is due again."""

    work: str
    kind: str
    message: str


@_event
class Charged(RunEvent):
    """What was spent beside the other events: by code of users, or by runs inside that are over."""

    spent: Spent


@_event
class SessionChanged(RunEvent):
    """What is not as the events before it say: what code of users changed in the session since, or undid."""

    changes: Changes = Changes()
    as_begun: tuple[str, ...] = ()
    """Keys that are as the stay began with them after all."""


@_event
class RunRuled(RunEvent):
    """A callback gave the text, or the error, with which the run ends."""

    moment: Literal["before_model_call", "on_error"]
    """When it was asked. Before a model call, the request was made already."""
    ruling: Ruling
    changes: Changes | None = None


@_event
class Closed(RunEvent):
    """Callbacks have heard of the outcome, and the memory has the turn."""

    changes: Changes | None = None
    spent: Spent = NOTHING


@_event
class Ended(RunEvent):
    """The run ended with an outcome, or a stay for one turn ended with its turn."""

    status: Literal["complete", "incomplete", "more_turns"] = "complete"
    spent: Spent = NOTHING
    output: JsonValue = None
    """The checked answer of a typed agent as plain data; None for the text."""


@_event
class Failed(RunEvent):
    """The run ended with an error."""

    kind: str
    message: str
    by: Literal["failed", "cancelled", "timed_out"] = "failed"
    spent: Spent = NOTHING
    values: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """As of `Raised`."""
