"""Outcomes of runs, pauses, and the decisions of people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, NoReturn, Self, TypeAlias, Union

from understudy.errors import RunError, UnfinishedRun
from understudy.vocabulary.checks import checked_json, checked_text
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.fast_init import fast_init
from understudy.vocabulary.messages import JsonObject, JsonValue, Message, ToolCall, Usage
from understudy.vocabulary.other_names import OF_OUTCOMES, explains_attributes
from understudy.vocabulary.tools.reconciling import Happened

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from understudy.vocabulary.context.artifacts import Artifact

    T_co = TypeVar("T_co", covariant=True, default=str)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


TaskStatus: TypeAlias = Literal["pending", "running", "paused", "done", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The result of one task of a workflow."""

    name: str
    status: TaskStatus
    text: str = ""
    """Its runner's text; of a task that ran for each item of a list, all texts as a JSON array."""
    reason: str = ""
    """Why it failed or was skipped."""
    attempts: int = 0
    """How many runs of the task started, retries and repetitions included."""
    error: BaseException | None = field(default=None, compare=False)
    """The error of a failed task; rebuilt from `reason`, without attributes, if the run was kept in a store since."""


LINE, PAGE = 80, 2_000  # Characters of a text that a line or a notebook shows.
_IDS = ("model", "response_id", "request_id")


@explains_attributes(OF_OUTCOMES)
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ending:
    """The attributes of every outcome."""

    run_id: str = ""
    agent_id: str = ""
    completion_reason: str = ""
    """Why the run ended or stopped here, in words."""
    iterations: int = 0
    """Rounds of tool calls so far."""
    turns: int = 0
    """Model calls so far, transport retries not counted."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of all model calls so far, inner runs included."""
    cost_usd: float | None = None
    """The cost of these calls; None if a model has no known price or reported no tokens."""
    messages: tuple[Message, ...] = ()
    """The messages that this run added to the history: the input, the model's turns, the tools' results."""
    session: Mapping[str, JsonValue] = field(default_factory=dict[str, "JsonValue"])
    """The session's values at the end of the run."""
    model: str = ""
    """Of an agent: the model of the last turn, as it calls itself. The runs inside of a group have their own."""
    response_id: str = ""
    """The provider's id of that turn; empty if it sent none."""
    request_id: str = ""
    """The provider's id of the request for that turn, which its support asks for; empty if it sent none."""
    tasks: Mapping[str, TaskResult] = field(default_factory=dict[str, "TaskResult"])
    """Of a workflow: the result of each task, by name."""
    artifacts: Mapping[str, Artifact] = field(default_factory=dict[str, "Artifact"])
    """Full texts of results that were too long for the model, by id; the oldest are dropped if they are too many."""
    children: tuple[Outcome[object] | BaseException, ...] = field(default=(), compare=False)
    """Of a group or a workflow: the outcomes and errors of its children, in the order of its children or tasks.

    A run that was cancelled, or never began because another one decided, stands there as a `RunCancelled`. Of one that
    ended before the run was kept in a store, there is only text, usage, counts and an error's class and words.
    """

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources of the last message, with their places in its text; empty if the model did not write that message."""
        last = self.messages[-1] if self.messages else None
        return () if last is None or last.role != "assistant" else last.citations

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the outcome as plain data for JSON: status, text, output, usage, cost, citations, tasks, children, pauses, token.

        Messages, session and artifacts are left out. A run that waits for a person has the arguments of its tool calls, and
        the `token`, with which anybody can go on with the run: leave it out of logs. An `output` that is no JSON is dumped by
        pydantic; what that does not know either stands there as text.
        """
        from .outcome_data import plain_citation, plain_ending, plain_usage

        told: dict[str, JsonValue] = {
            "status": "",  # filled in below, like `text`; named here for their order
            "agent_id": self.agent_id,
            "run_id": self.run_id,
            "text": None,
            "completion_reason": self.completion_reason,
            "iterations": self.iterations,
            "turns": self.turns,
            "usage": plain_usage(self.usage),
            "cost_usd": self.cost_usd,
        }
        told |= {name: value for name in _IDS if (value := getattr(self, name))}
        if self.citations:
            told["citations"] = [plain_citation(each) for each in self.citations]
        if self.tasks:
            told["tasks"] = {name: _task_data(task) for name, task in self.tasks.items()}
        if self.children:
            told["children"] = [plain_ending(child) for child in self.children]
        return told | self._own_data()

    def _own_data(self) -> dict[str, JsonValue]:
        """Return the data that only this kind of outcome has."""
        return {}

    def _words(self) -> tuple[str, object]:
        """Return the name and the value of the attribute that is shown first."""
        return "completion_reason", self.completion_reason

    def __repr__(self) -> str:
        name, value = self._words()
        words = _cut(repr(value[:PAGE] if isinstance(value, str) else value), LINE)
        ids = f"agent_id={self.agent_id!r}, run_id={self.run_id!r}, turns={self.turns}"
        return f"{type(self).__name__}({name}={words}, {ids})"  # no token: it stands in logs

    def _repr_html_(self) -> str:
        """Return the outcome as HTML, for notebooks."""
        from html import escape  # it has a large table

        name, value = self._words()
        facts = [self.agent_id, self.run_id, f"turns: {self.turns}", f"tokens: {self.usage.total_tokens or 0}"]
        words = _cut(value if isinstance(value, str) else repr(value), PAGE)
        head = f"<b>{type(self).__name__}</b> {escape(' · '.join(facts))}"
        return f'<div>{head}<pre style="white-space: pre-wrap">{name}: {escape(words)}</pre></div>'


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Complete(Ending, Generic[T_co]):
    """The run is done."""

    text: str
    """The model's last text."""
    output: T_co
    """The answer in the agent's output type; the text, unless it has one."""
    finish_reason: str | None = None
    """The provider's own word for why its last turn ended."""
    combined_text: str | None = None
    """The texts of all children of a parallel group as a JSON array, in their order; None of other runners."""
    status: Literal["complete"] = "complete"

    def unwrap(self) -> Self:
        """Return the outcome itself: the run is complete."""
        return self

    def _own_data(self) -> dict[str, JsonValue]:
        from .outcome_data import plain_value

        told: dict[str, JsonValue] = {"status": self.status, "text": self.text, "output": plain_value(self.output)}
        told["finish_reason"] = self.finish_reason
        return told if self.combined_text is None else {**told, "combined_text": self.combined_text}

    def _words(self) -> tuple[str, object]:
        return ("text", self.text) if isinstance(self.output, str) or self.output is None else ("output", self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One reason why a run waits for a person: an open question, or tool calls that need decisions."""

    id: str
    """Unique among the pauses of an outcome; `resume(token, {pause.id: answer})` answers this one."""
    path: tuple[str, ...] = ()
    """Ids of the runners, from the one that was called to the one that waits."""
    question: str | None = None
    calls: tuple[ToolCall, ...] = ()
    """In call order; empty for a question."""
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    """Call id -> why a person is asked: a callback's reason, or that the call is in doubt."""
    in_doubt: tuple[str, ...] = ()
    """Ids of the calls that were under way when their process died: `Approve` makes such a call again, `Happened` has its result."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Unfinished(Ending):
    token: str = ""
    """Resumes the run, once. Empty if nothing can resume it, as in a machine driven by hand."""
    pauses: tuple[Pause, ...] = ()
    """All open pauses: the run's own first, then those of inner runs, in order."""

    @property
    def text(self) -> NoReturn:
        raise UnfinishedRun(self._why(), run_id=self.run_id, token=self.token)

    @property
    def output(self) -> NoReturn:
        raise UnfinishedRun(self._why(), run_id=self.run_id, token=self.token)

    @property
    def combined_text(self) -> NoReturn:
        raise UnfinishedRun(self._why(), run_id=self.run_id, token=self.token)

    def unwrap(self) -> NoReturn:
        """Raise the error that tells why there is no answer.

        Raises:
            Exception: the error of the first failed task of a workflow.
            UnfinishedRun: no task failed: the run waits, or its model stopped before its answer. It has the token.
        """
        for task in self.tasks.values():
            if task.status == "failed":
                raise task.error or RunError(f"task {task.name!r} failed: {task.reason}", run_id=self.run_id)
        raise UnfinishedRun(self._why(), run_id=self.run_id, token=self.token)

    def _why(self) -> str:
        return f"run {self.run_id or 'by hand'} is not finished: {self.completion_reason}"

    def _data_with(self, status: str, key: str, value: JsonValue) -> dict[str, JsonValue]:
        told: dict[str, JsonValue] = {"status": status}
        if self.token:
            told["token"] = self.token
        if self.pauses:
            told["pauses"] = [_pause_data(pause) for pause in self.pauses]
        return {**told, key: value}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NeedsInput(_Unfinished):
    """The model asked a person something; `resume(token, answer)` goes on."""

    question: str
    """The first open question; `pauses` has all."""
    status: Literal["needs_input"] = "needs_input"

    def _own_data(self) -> dict[str, JsonValue]:
        return self._data_with(self.status, "question", self.question)

    def _words(self) -> tuple[str, object]:
        return "question", self.question


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NeedsApproval(_Unfinished):
    """Tool calls wait for a person; `resume(token, Approve())` goes on."""

    calls: tuple[ToolCall, ...]
    """All waiting calls, also those of inner runs; `pauses` has their places."""
    status: Literal["needs_approval"] = "needs_approval"

    def _own_data(self) -> dict[str, JsonValue]:
        from .outcome_data import plain_call

        return self._data_with(self.status, "calls", [plain_call(call) for call in self.calls])

    def _words(self) -> tuple[str, object]:
        return "calls", ", ".join([call.name for call in self.calls])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Incomplete(_Unfinished):
    """The model stopped before its answer met any criterion.

    Attributes:
        last_text: the model's last text.
    """

    last_text: str = ""
    status: Literal["incomplete"] = "incomplete"

    def _own_data(self) -> dict[str, JsonValue]:
        return self._data_with(self.status, "last_text", self.last_text)

    def _words(self) -> tuple[str, object]:
        return ("last_text", self.last_text) if self.last_text else ("completion_reason", self.completion_reason)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MoreTurns(_Unfinished):
    """One turn of a run is done, and the next one is due; `agent.run_turn(token=…)` does it. Only `run_turn` returns this."""

    status: Literal["more_turns"] = "more_turns"

    def _own_data(self) -> dict[str, JsonValue]:
        return {"status": self.status, "token": self.token}


def _task_data(task: TaskResult) -> dict[str, JsonValue]:
    return {"status": task.status, "text": task.text, "reason": task.reason, "attempts": task.attempts}


def _pause_data(pause: Pause) -> dict[str, JsonValue]:
    from .outcome_data import plain_call

    told: dict[str, JsonValue] = {"id": pause.id, "path": list(pause.path)}
    if pause.question is not None:
        return {**told, "question": pause.question}
    calls: list[JsonValue] = []
    for call in pause.calls:
        why = {"reason": pause.reasons[call.id]} if call.id in pause.reasons else {}
        calls.append({**plain_call(call), **why})
    doubted: dict[str, JsonValue] = {"in_doubt": list(pause.in_doubt)} if pause.in_doubt else {}
    return {**told, "calls": calls, **doubted}


def stamp(
    outcome: Complete[T_co] | Incomplete,
    run_id: str,
    session: Mapping[str, JsonValue],
    artifacts: Mapping[str, Artifact],
) -> None:
    """Fill in the fields that only the runtime knows, in a new outcome that no other code has.

    The alternative is a copy, which costs up to a tenth of a short run.
    """
    object.__setattr__(outcome, "run_id", run_id)
    object.__setattr__(outcome, "session", session)
    if artifacts:
        object.__setattr__(outcome, "artifacts", artifacts)


# `Union`, because an alias that is subscripted must keep its parameter at run time too.
Outcome: TypeAlias = Union[Complete[T_co], NeedsInput, NeedsApproval, Incomplete]  # noqa: UP007

TurnOutcome: TypeAlias = Union[Complete[T_co], NeedsInput, NeedsApproval, Incomplete, MoreTurns]  # noqa: UP007
"""What `run_turn` returns: an outcome, or `MoreTurns`."""


@dataclass(frozen=True, slots=True)
class MapAnswer(Generic[T_co]):
    """The run of one input of a `map` ended or paused with an outcome."""

    index: int
    """Position of the input, from 0."""
    outcome: Outcome[T_co]


@dataclass(frozen=True, slots=True)
class MapFailure:
    """The run of one input of a `map` failed, or could not begin."""

    index: int
    """Position of the input, from 0."""
    error: BaseException


@dataclass(frozen=True, slots=True)
class Approve:
    """Let the call run, with `arguments` in place of the model's if given; then the result that the model reads says so."""

    arguments: JsonObject | None = None
    kind: Literal["approve"] = "approve"

    def __post_init__(self) -> None:
        if self.arguments is not None:
            checked_json("Approve: arguments", self.arguments)


@dataclass(frozen=True, slots=True)
class Reject:
    """Do not let the call run; the model reads the reason."""

    reason: str = ""
    kind: Literal["reject"] = "reject"

    def __post_init__(self) -> None:
        checked_text("Reject: reason", self.reason)


Decision: TypeAlias = Approve | Reject | Happened
"""`Happened` answers only to a call in doubt, which was under way when its process died: it has the call's result."""

PauseAnswer: TypeAlias = "str | Decision | Mapping[str, Decision]"
"""The answer to one pause: text for a question; a decision for all of its calls, or decisions by call id for some."""
