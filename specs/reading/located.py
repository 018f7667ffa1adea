"""`LocatedValue`: a value of a document with its place. It can be read before the document's shape is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.vocabulary.messages import JsonValue

from .document import Document, Path
from .problems import Place, Problem


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value of a document with its place; the value is None where the document has nothing."""

    document: Document
    path: Path
    value: JsonValue

    @classmethod
    def top(cls, document: Document) -> LocatedValue:
        """Return the whole document."""
        return cls(document, (), document.value)

    def at(self, key: str) -> LocatedValue:
        """Return an entry of this mapping, which may be missing."""
        value = self.value.get(key) if isinstance(self.value, Mapping) else None
        return LocatedValue(self.document, (*self.path, key), value)

    def below(self, way: Path) -> LocatedValue:
        """Return the value below this one at these keys and positions, which may be missing."""
        return LocatedValue(self.document, (*self.path, *way), None)

    def items(self) -> list[LocatedValue]:
        """Return the values of a list; none if this is not a list."""
        if not isinstance(self.value, list):
            return []
        return [LocatedValue(self.document, (*self.path, position), value) for position, value in enumerate(self.value)]

    def entries(self) -> list[tuple[str, LocatedValue]]:
        """Return the keys of a mapping with their values; none if this is not a mapping."""
        return [(key, self.at(key)) for key in self.value] if isinstance(self.value, Mapping) else []

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, Mapping)

    @property
    def text(self) -> str | None:
        """The value, if it is text."""
        return self.value if isinstance(self.value, str) else None

    @property
    def place(self) -> Place:
        """The start of the value, or of the value around it if it is missing."""
        return self.document.place(self.path)

    def problem(self, message: str) -> Problem:
        """Make a problem at this value; the message begins with the agent or workflow that owns it."""
        return self._problem(self.place, message)

    def key_problem(self, message: str) -> Problem:
        """Make a problem at the key of this value."""
        return self._problem(self.document.key_place(self.path), message)

    def _problem(self, place: Place, message: str) -> Problem:
        whose = owner(self.document, self.path)
        return Problem(self.document.source, place, message if whose and message.startswith(whose) else whose + message)


KINDS = {"agents": "agent", "workflows": "workflow", "supervisors": "supervisor"}
PARTS = {"steps": "step", "tasks": "task"}


def owner(document: Document, path: Path) -> str:
    """Return the owner of a path, to begin an error with: `agent 'clerk': `, `workflow 'pipeline', step 2: `, or nothing."""
    length = owner_length(path)
    if not length:
        return ""
    names: list[str] = []
    for start in range(0, length, 2):
        kind, position = path[start], path[start + 1]
        assert isinstance(kind, str) and isinstance(position, int)
        id = document.scalars.get((*path[: start + 2], "id"))
        if start == 0:
            names.append(f"{KINDS[kind]} {id!r}" if id else f"{kind}[{position}]")
        else:
            names.append(f"{PARTS[kind]} {id!r}" if kind == "tasks" and id else f"{PARTS[kind]} {position + 1}")
    return ", ".join(names) + ": "


def owner_length(path: Path) -> int:
    """Return the length of the part of a path that leads to its owner, the innermost thing an error names."""
    length = 0
    while path[length + 1 : length + 2] and isinstance(path[length + 1], int):
        if path[length] not in (PARTS if length else KINDS):
            break
        length += 2
    return length
