"""What JSON can carry, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = "None | bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue]"
else:
    # Loaders read these annotations at run time, and the recursive alias sends them round for ever.
    JsonValue = object

JsonObject: TypeAlias = Mapping[str, JsonValue]
