"""The parts of a run as a front end shows them: each begins, grows and ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from understudy.vocabulary.fast_init import fast_init
from understudy.vocabulary.messages import ToolCall
from understudy.vocabulary.runs.events import Event, ToolFinished

TextKind: TypeAlias = Literal["text", "reasoning"]


@dataclass(frozen=True, slots=True)
class StepBegan:
    """A turn begins: a model call, and the tool calls that it asks for."""

    turn: int


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The turn of the last `StepBegan` is over."""

    turn: int


@dataclass(frozen=True, slots=True)
class TextBegan:
    """A text or a reasoning begins."""

    kind: TextKind
    id: str


@fast_init
@dataclass(frozen=True, slots=True)
class TextGrew:
    """Words that follow those of the same text."""

    kind: TextKind
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class TextEnded:
    """The text or reasoning is whole."""

    kind: TextKind
    id: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """The model asks for a tool."""

    id: str
    """Unique in the front end, also where a provider gives calls of several turns one id."""
    name: str
    text_id: str
    """The id that the first text of the same turn has, or would have."""


@fast_init
@dataclass(frozen=True, slots=True)
class CallGrew:
    """A piece of the arguments' JSON."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class CallReady:
    """All arguments of a call are there."""

    id: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class CallDone:
    """A call has its result."""

    id: str
    event: ToolFinished


@dataclass(frozen=True, slots=True)
class CallVoid:
    """A call gets no result."""

    id: str
    name: str
    is_ready: bool
    """Whether its `CallReady` came before."""
    why: str


@dataclass(frozen=True, slots=True)
class TurnVoid:
    """What was shown of a turn does not stand. Its texts and calls have ended before."""

    event: Event
    ids: tuple[str, ...]
    """Of its texts, reasonings and calls."""
    in_step: bool
    """Whether they all were shown since the last `StepBegan`."""


@dataclass(frozen=True, slots=True)
class Other:
    """An event that begins and ends no part."""

    event: Event


Mark: TypeAlias = (
    StepBegan
    | StepEnded
    | TextBegan
    | TextGrew
    | TextEnded
    | CallBegan
    | CallGrew
    | CallReady
    | CallDone
    | CallVoid
    | TurnVoid
    | Other
)
