"""What the decoders of streamed turns have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from understudy.vocabulary.messages import JsonObject, Part
from understudy.vocabulary.pieces import Piece, TurnEnd


class StreamDecoder(Protocol):
    """Reads the events of one streamed turn: JSON in, pieces out. Pure; each API has its own."""

    dialect: str
    """The dialect of the turn."""

    @property
    def is_over(self) -> bool:
        """Whether nothing that follows counts."""
        ...

    @property
    def has_turn(self) -> bool:
        """Whether the turn is complete, and only counts of tokens may follow. Google can go on behind a finish reason."""
        ...

    def take(self, event: JsonObject, name: str) -> Sequence[Piece]:
        """Return the pieces of the next event.

        Args:
            event: its data.
            name: its field `event`; empty if it has none.

        Raises:
            WrongShape: it is no event of the API.
        """
        ...

    def done(self) -> None:
        """Note the event `[DONE]`, which is not JSON."""
        ...

    def rest(self) -> Sequence[Piece]:
        """Return the pieces that are whole only at the end of the turn; called once, before `end`."""
        ...

    def end(self, parts: tuple[Part, ...]) -> TurnEnd | None:
        """Return the end of the turn; None if the event that ends it has not come.

        Args:
            parts: all parts of the turn.
        """
        ...
