"""Messages as text in a store, and back. Loads pydantic: import it when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter

from understudy.errors import StoreError
from understudy.orchestration.agent.saved_text import read_version, written
from understudy.vocabulary.messages import Message

FORMAT = 1


@dataclass(slots=True)
class SavedMessages:
    """Messages in neutral form, which any provider's client can be given."""

    format: int
    messages: tuple[Message, ...]


def messages_as_text(messages: Sequence[Message], store: str) -> str:
    """Return messages as text.

    Raises:
        StoreError: JSON cannot carry a text exactly.
    """
    try:
        return written(_adapter(), SavedMessages(FORMAT, tuple(messages)))
    except ValueError as error:
        raise StoreError(f"store {store}: messages cannot be kept as JSON: {error}", store=store) from None


def messages_of_text(text: str, store: str) -> tuple[Message, ...]:
    """Read what `messages_as_text` wrote.

    Raises:
        StoreError: the text is something else, or of a format that this version does not know.
    """
    try:
        return read_version(_adapter(), text, "stored turn", FORMAT).messages
    except ValueError as error:
        raise StoreError(f"store {store}: {error}", store=store) from None


@cache
def _adapter() -> TypeAdapter[SavedMessages]:
    return TypeAdapter(SavedMessages)
