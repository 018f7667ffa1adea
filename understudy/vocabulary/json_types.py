"""The types of JSON values, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = "None | bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue]"
else:
    # pydantic and others read these annotations at run time; a recursive alias would make them recurse for ever.
    JsonValue = object

JsonObject: TypeAlias = Mapping[str, JsonValue]
