"""The grammar of memories: the kinds that a spec can describe, in `memories` and in an agent."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, Tag

from understudy.vocabulary.runs.memory import DEFAULT_CONVERSATIONS

from .grammar import TEXT, Grammar, form, forms
from .named import NAME_FORM, NamedGrammar


class InMemoryGrammar(Grammar):
    """Conversations in this process, whole."""

    called: ClassVar[str] = "a memory of type in_memory"

    type: Literal["in_memory"] = Field(description="this kind of memory")
    max_conversations: int | None = Field(
        default=DEFAULT_CONVERSATIONS, ge=1, description="how many are kept, of those used last; null for any number"
    )


class WindowedGrammar(Grammar):
    """The last turns of each conversation, in this process."""

    called: ClassVar[str] = "a memory of type windowed"

    type: Literal["windowed"] = Field(description="this kind of memory")
    window_size: int = Field(ge=1, description="how many whole turns are kept")
    tokens: int | None = Field(
        default=None, ge=1, description="how many tokens these turns have at most, by an estimate; null for any number"
    )
    max_conversations: int | None = Field(
        default=DEFAULT_CONVERSATIONS, ge=1, description="how many are kept, of those used last; null for any number"
    )


class PersistentGrammar(Grammar):
    """Conversations in the store that `--store` or the program names, so that they outlive the process."""

    called: ClassVar[str] = "a memory of type persistent"

    type: Literal["persistent"] = Field(description="this kind of memory")
    window_size: int | None = Field(
        default=None,
        ge=1,
        description="how many whole turns a run begins with: 20 if neither limit is given; null for any number",
    )
    tokens: int | None = Field(
        default=None, ge=1, description="how many tokens these turns have at most, by an estimate; null for any number"
    )
    keep: float | None = Field(
        default=None, gt=0, description="seconds after which turns are forgotten; null for never"
    )


_Described = (
    Annotated[InMemoryGrammar, form("in_memory")]
    | Annotated[WindowedGrammar, form("windowed")]
    | Annotated[PersistentGrammar, form("persistent")]
    | Annotated[NamedGrammar, NAME_FORM]
)
_TYPES = ("in_memory", "windowed", "persistent")

NewMemory = Annotated[
    _Described,
    forms("must be a mapping with 'type', or with 'name' of a registered memory", types=_TYPES, keys=("name",)),
]
DescribedMemory: TypeAlias = InMemoryGrammar | WindowedGrammar | PersistentGrammar | NamedGrammar
MemoryEntry = Annotated[
    Annotated[str, Tag(TEXT)] | _Described,
    forms(
        "must be a mapping with 'type', or with 'name' of a registered memory, or a name out of 'memories'",
        types=_TYPES,
        text=True,
        keys=("name",),
    ),
]
