"""A paused run as text: its machine and the data of its record. Loads pydantic: import it when needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from pydantic import TypeAdapter

from understudy.orchestration.agent.saved_text import read_version, written
from understudy.vocabulary.checks import not_json
from understudy.vocabulary.context.artifacts import Artifact
from understudy.vocabulary.messages import JsonValue, ModelTurn

FORMAT = 1


@dataclass(slots=True, kw_only=True)
class SavedRun:
    """All that another process needs to go on with a run, except the runner's definition and `deps`."""

    format: int = FORMAT
    run_id: str
    runner_id: str
    input: str
    """The user's message, as text."""
    machine: str
    """The machine, as its `to_json` gives it."""
    session: Mapping[str, JsonValue] = field(default_factory=dict[str, "JsonValue"])
    """The values of the session without `temp:` keys; for an inner run only the values that it changed."""
    removed: tuple[str, ...] = ()
    """Keys that an inner run removed from the session."""
    began_with: Mapping[str, tuple[JsonValue, ...]] = field(default_factory=dict[str, "tuple[JsonValue, ...]"])
    """Of an inner run: each key that it changed -> the value when it began, or nothing if there was none."""
    seen: Mapping[str, int] = field(default_factory=dict[str, int])
    """Keys of stored session values -> the version that the run knows; empty for an inner run."""
    unsaved: tuple[str, ...] = ()
    """Keys that the run changed, and that a store could not take."""
    user_id: str | None = None
    conversation_id: str | None = None
    own_history: bool = False
    """Whether the caller gave a history: then the agent's memory is not used."""
    artifacts: tuple[Artifact, ...] = ()
    """Results of tools that were too long for the model, at most `MAX_KEPT` characters together."""
    unfed: ModelTurn | None = None
    """A model's turn that is paid for and counted, and that the machine has not taken yet."""
    events: int = 0
    """The number of the next event. 0 in texts of versions that did not save it."""
    by_error: bool = False
    """Whether it was saved because of an error, so that nobody was told what it waits for."""
    under_way: bool = False
    """Whether it was under way when its process died: what failed inside of it is not done again."""
    revision: int = 0
    """Which pause it went on from, for a run that was under way."""
    of_map: bool = False
    """Whether a map with a name keeps its result."""
    keeps_events: bool = False
    """Whether the store keeps its events, because somebody may read them."""

    def to_json(self) -> str:
        """Return the run as text.

        Raises:
            TypeError: JSON cannot carry a value of the session.
            ValueError: JSON cannot carry a text exactly.
        """
        strange = not_json(self.session, "session")
        if strange:
            raise TypeError(f"run {self.run_id}: {strange}, which JSON cannot carry")
        return written(_adapter(), self)

    @classmethod
    def from_json(cls, text: str) -> SavedRun:
        """Read what `to_json` wrote.

        Raises:
            ValueError: the text is no saved run, or of a format that this version does not know.
        """
        return read_version(_adapter(), text, "saved run", FORMAT)


@cache
def _adapter() -> TypeAdapter[SavedRun]:
    return TypeAdapter(SavedRun)
