"""A paused run as text: its machine and the data of its record. Loads pydantic: import it when needed.

The text of a run that waits inside of another one stands in the machine of that one. If it stood there as JSON text, each level
would escape the quotes of those below once more. So a text has the runs inside of it side by side: in `inside`, each before those
inside of it, and the machine has null in their places.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter

from understudy.orchestration.agent.saved_text import dumped, read_version, written
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
        text = written(_adapter(), self)
        return _side_by_side(text) if '"saved":' in self.machine else text

    @classmethod
    def from_json(cls, text: str) -> SavedRun:
        """Read what `to_json` wrote.

        Raises:
            ValueError: the text is no saved run, or of a format that this version does not know.
        """
        return read_version(_adapter(), _inside_again(text) if '"inside":' in text else text, "saved run", FORMAT)


@cache
def _adapter() -> TypeAdapter[SavedRun]:
    return TypeAdapter(SavedRun)


def _side_by_side(text: str) -> str:
    """Take the runs inside out of the machine of a run, into one list; `below` says how many of the next ones are inside of each."""
    data: dict[str, Any] = json.loads(text)
    inside = list[dict[str, Any]]()
    machine = _object(data["machine"])
    for child in _children(machine):
        run = _object(child["saved"])
        if "machine" in run:
            below = run.pop("inside", [])
            inside += [{"run": run, "below": len(below)}, *below]
            child["saved"] = None
    return dumped({**data, "machine": machine, "inside": inside}) if inside else text


def _inside_again(text: str) -> str:
    """Undo `_side_by_side` for one level: each run inside has its text back, in which those inside of it stand side by side."""
    data = _object(text)
    if type(data.get("inside")) is not list or type(data.get("machine")) is not dict:
        return text
    inside = deque(cast("list[dict[str, Any]]", data.pop("inside")))
    machine = cast("dict[str, Any]", data["machine"])
    try:
        for child in _children(machine):
            if child["saved"] is None:
                run, count = inside[0]["run"], inside.popleft()["below"]
                below = [inside.popleft() for _ in range(count)]
                child["saved"] = dumped({**run, "inside": below} if below else run)
    except (IndexError, KeyError, TypeError):
        return text  # it is refused as no saved run
    return dumped({**data, "machine": dumped(machine)})


def _object(text: str) -> dict[str, Any]:
    """Return a text as JSON; nothing if it is another text."""
    try:
        data: object = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _children(machine: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the runs that wait inside of a machine, of an agent or of a group."""
    state: dict[str, Any] = machine.get("state") or {}
    round_: dict[str, Any] = state.get("round") or {}
    of_calls: dict[str, dict[str, Any]] = round_.get("children") or {}
    of_group: list[dict[str, Any]] = state.get("children") or []
    yield from of_calls.values()
    yield from [child["paused"] for child in of_group if child.get("paused") is not None]
