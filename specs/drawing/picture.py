"""`Picture`: runners as nodes, nested boxes and arrows, independent of the language they are written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

NodeKind: TypeAlias = Literal["agent", "fork", "join"]
BoxKind: TypeAlias = Literal["sequence", "parallel", "workflow", "task"]


@dataclass(frozen=True, slots=True)
class Node:
    """One thing to draw.

    Attributes:
        key: letters and digits, unique in its picture.
        kind: an agent, or the point where branches part (fork) or meet (join).
        title: one line of printable text, like each note. A fork and some joins have none.
        notes: lines in small print below the title.
    """

    key: str
    kind: NodeKind
    title: str = ""
    notes: tuple[str, ...] = ()

    @property
    def entry(self) -> Node:
        """The node where an arrow to this part ends."""
        return self

    @property
    def exit(self) -> Node:
        """The node where an arrow from this part begins."""
        return self


@dataclass(frozen=True, slots=True)
class Box:
    """Parts drawn inside a frame.

    Attributes:
        key: unique among the boxes and nodes of the picture.
        kind: the kind of runner or task.
        title: one line of printable text, like each note.
        notes: lines in small print below the title.
        parts: the parts inside, in the order of the definition.
        entry: the inner node where an arrow to the box ends.
        exit: the inner node where an arrow from the box begins.
    """

    key: str
    kind: BoxKind
    title: str
    notes: tuple[str, ...]
    parts: tuple[Part, ...]
    entry: Node
    exit: Node


Part: TypeAlias = "Node | Box"


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one part to another.

    Attributes:
        tail: the part it begins at.
        head: the part it points to.
        label: one line of printable text, or empty.
        hands_over: whether it leads to a sub-agent, which returns, and not to the next step.
    """

    tail: Part
    head: Part
    label: str = ""
    hands_over: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """All parts and arrows of a drawing.

    Attributes:
        parts: the outermost boxes and nodes.
        arrows: all arrows, also those inside boxes.
    """

    parts: tuple[Part, ...]
    arrows: tuple[Arrow, ...]
