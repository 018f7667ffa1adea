"""The port through which definitions reach the runtime, and the options of runs."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

from understudy.vocabulary.context.budget import Budget
from understudy.vocabulary.messages import JsonValue, Message, Part, ToolCall, ToolResult
from understudy.vocabulary.models import Model, ModelName
from understudy.vocabulary.runs.handles import RunHandle
from understudy.vocabulary.runs.outcomes import Decision, MapAnswer, MapFailure, Outcome, PauseAnswer, TurnOutcome


@dataclass(slots=True, kw_only=True)  # a frozen class would take three times as long to make, and every run makes one
class RunOptions:
    """The options of one run; never changed after it is made."""

    session: Mapping[str, JsonValue] | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    deps: object = None
    timeout: float | None = None
    system: object = None
    history: Sequence[Message] | None = None
    parameters: Mapping[str, JsonValue] | None = None
    """Of a workflow's run: the values of the names in its prompts."""
    budget: Budget | None = None
    of_map: bool = False
    """Whether a map with a name keeps the result in the store."""
    stream: bool = False
    """Whether models that can show their turns in pieces, because somebody may read its events."""


DEFAULT_MAP_PARALLEL = 16  # Runs: a key with the lowest limits bears them, and a batch is some ten times as fast.


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOptions:
    """The options of the runs of a `map`."""

    max_parallel: int = DEFAULT_MAP_PARALLEL
    budget: Budget | None = None
    """The most that all runs may spend together."""
    keep_errors: bool = False
    ordered: bool = False
    session: Mapping[str, JsonValue] | None = None
    user_id: str | None = None
    deps: object = None
    timeout: float | None = None
    """Seconds of each run."""
    system: object = None
    name: str | None = None
    """The name under which the store keeps the results; None to keep none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    """The options of a resumed run."""

    deps: object = None
    timeout: float | None = None
    system: object = None
    max_iterations: int | None = None
    max_turns: int | None = None
    max_continues: int | None = None
    adopt: bool = False
    budget: Budget | None = None
    max_output_retries: int | None = None
    session: Mapping[str, JsonValue] | None = None
    stream: bool = False
    """As of a new run."""


class RunKeywords(TypedDict, total=False):
    """What a caller says about one run where the system is known."""

    session: Mapping[str, JsonValue] | None
    conversation_id: str | None
    user_id: str | None
    deps: object
    timeout: float | None
    history: Sequence[Message] | None
    budget: Budget | None


class MapKeywords(TypedDict, total=False):
    """What a caller says about the runs of a `map` where the system is known."""

    max_parallel: int
    budget: Budget | None
    ordered: bool
    session: Mapping[str, JsonValue] | None
    user_id: str | None
    deps: object
    timeout: float | None
    name: str | None


class MapSystemKeywords(MapKeywords, total=False):
    """What a caller says about the runs of a `map`."""

    system: object


class ResumeKeywords(TypedDict, total=False):
    """What a caller says when a run goes on where the system is known."""

    deps: object
    timeout: float | None
    max_iterations: int | None
    max_turns: int | None
    max_continues: int | None
    adopt: bool
    budget: Budget | None
    max_output_retries: int | None
    session: Mapping[str, JsonValue] | None


Answer = str | Decision | Mapping[str, PauseAnswer] | None
"""Text for the one open question; a decision for all waiting calls; or answers by the ids of calls or pauses."""


class Runtime(Protocol):
    """Carries out runs; `understudy.actors` implements it."""

    def submit(self, runner: object, input: str | Sequence[Part], options: RunOptions) -> RunHandle[object]:
        """Begin a run and return its handle at once."""
        ...

    def run(self, runner: object, input: str | Sequence[Part], options: RunOptions) -> Outcome[object]:
        """Carry a run to its outcome, blocking; an interrupt cancels it."""
        ...

    def resume(self, runner: object, token: str, answer: Answer, options: ResumeOptions) -> Outcome[object]:
        """Resume a paused run and return its next outcome, blocking."""
        ...

    def submit_resume(self, runner: object, token: str, answer: Answer, options: ResumeOptions) -> RunHandle[object]:
        """Use up a token and return the handle of the resumed run."""
        ...

    def run_turn(self, runner: object, input: str | Sequence[Part], options: RunOptions) -> TurnOutcome[object]:
        """Begin a run and carry out its first turn, blocking."""
        ...

    def execute(self, agent: object, call: ToolCall, options: RunOptions) -> ToolResult:
        """Make one call of a tool of an agent's and return its result, blocking."""
        ...

    def go_on_turn(
        self, runner: object, token: str, answer: Answer, options: ResumeOptions, lease: float
    ) -> TurnOutcome[object]:
        """Carry out the next turn of a paused run, blocking; the token stands under a lease meanwhile."""
        ...

    def map(
        self, runner: object, inputs: Iterable[object], options: MapOptions
    ) -> Generator[MapAnswer[object] | MapFailure]:
        """Return a generator that carries out a run of each input, several at once."""
        ...


_runtime: Runtime | None = None


def runtime() -> Runtime:
    """Return the runtime; the first run loads it."""
    global _runtime
    if _runtime is None:
        from understudy.actors import runtime as found

        _runtime = found
    return _runtime


def client_of(name: ModelName) -> Model:
    """Return the model that a model string stands for. This loads no HTTP library and needs no key."""
    from understudy.providers import resolve

    return resolve(name)
