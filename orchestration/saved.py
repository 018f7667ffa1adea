"""A paused run as text: its machine, and what its driver knows besides. Loads pydantic, so it is imported when used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from understudy.messages import JsonValue

FORMAT = 1


@dataclass(slots=True, kw_only=True)
class SavedRun:
    """What another process needs to go on with a run, besides the runner's definition and `deps`."""

    format: int = FORMAT
    run_id: str
    runner_id: str
    input: str
    """What the user said, as text."""
    machine: str
    """The machine, as its `to_json` gives it."""
    session: Mapping[str, JsonValue] = field(default_factory=dict[str, "JsonValue"])
    """All its values; of a run inside of another one only those that it changed."""
    removed: tuple[str, ...] = ()
    """Keys that a run inside of another one removed from the session."""
    user_id: str = "default"
    conversation_id: str | None = None

    def to_json(self) -> str:
        """Return the run as text.

        Raises:
            TypeError: a value of the session is none that JSON can carry.
        """
        try:
            return _adapter().dump_json(self, warnings=False).decode()
        except PydanticSerializationError as error:
            raise TypeError(f"run {self.run_id}: its session cannot be saved: {error}") from error

    @classmethod
    def from_json(cls, text: str) -> SavedRun:
        """Read what `to_json` wrote.

        Raises:
            ValueError: the text is no saved run, or of a format that this version does not know.
        """
        try:
            saved = _adapter().validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(step) for step in first["loc"]) or "the text"
            raise ValueError(f"not a saved run: {where}: {first['msg']}") from None
        if saved.format != FORMAT:
            raise ValueError(f"a saved run of format {saved.format}; this version reads format {FORMAT}")
        return saved


@cache
def _adapter() -> TypeAdapter[SavedRun]:
    return TypeAdapter(SavedRun)
