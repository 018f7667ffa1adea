"""`LocatedValue`: a value of a document and where it stands. Reads what is there, whatever it is, so that nothing must be checked before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.vocabulary.messages import JsonValue

from .document import Document, Path
from .problems import Place, Problem


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value of a document and where it stands; None where nothing stands."""

    document: Document
    path: Path
    value: JsonValue

    @classmethod
    def top(cls, document: Document) -> LocatedValue:
        """Return the spot of the whole document."""
        return cls(document, (), document.value)

    def at(self, key: str) -> LocatedValue:
        """Return the spot of an entry, which may be missing."""
        value = self.value.get(key) if isinstance(self.value, Mapping) else None
        return LocatedValue(self.document, (*self.path, key), value)

    def below(self, way: Path) -> LocatedValue:
        """Return the spot that keys and positions lead to from here, whatever stands there."""
        return LocatedValue(self.document, (*self.path, *way), None)

    def items(self) -> list[LocatedValue]:
        """Return the spots of a list's values; none if it is no list."""
        if not isinstance(self.value, list):
            return []
        return [LocatedValue(self.document, (*self.path, position), value) for position, value in enumerate(self.value)]

    def entries(self) -> list[tuple[str, LocatedValue]]:
        """Return the keys of a mapping with their spots; none if it is no mapping."""
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
        """Where it starts, or what is around it if there is nothing."""
        return self.document.place(self.path)

    def problem(self, message: str) -> Problem:
        """Make a problem of what stands here, with whose it is."""
        return self._problem(self.place, message)

    def key_problem(self, message: str) -> Problem:
        """Make a problem of the key that this is the value of."""
        return self._problem(self.document.key_place(self.path), message)

    def _problem(self, place: Place, message: str) -> Problem:
        whose = owner(self.document, self.path)
        return Problem(self.document.source, place, message if whose and message.startswith(whose) else whose + message)


KINDS = {"agents": "agent", "workflows": "workflow", "supervisors": "supervisor"}
PARTS = {"steps": "step", "tasks": "task"}


def owner(document: Document, path: Path) -> str:
    """Return whose a path is, for the beginning of an error: `agent 'clerk': `, `workflow 'pipeline', step 2: `, or nothing."""
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
    """Return how much of a path leads to the innermost thing that an error names."""
    length = 0
    while path[length + 1 : length + 2] and isinstance(path[length + 1], int):
        if path[length] not in (PARTS if length else KINDS):
            break
        length += 2
    return length
