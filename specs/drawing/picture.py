"""`Picture`: runners as nodes, nested boxes and arrows, before anyone says in which language they are drawn."""

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
        kind: an agent, or where branches part and meet.
        title: one line of printable text; so is each note. A fork and some joins have none.
        notes: what is to be read in small below.
    """

    key: str
    kind: NodeKind
    title: str = ""
    notes: tuple[str, ...] = ()

    @property
    def entry(self) -> Node:
        """Where an arrow to it ends."""
        return self

    @property
    def exit(self) -> Node:
        """Where an arrow from it begins."""
        return self


@dataclass(frozen=True, slots=True)
class Box:
    """Things drawn inside of a frame.

    Attributes:
        key: as a node's; boxes and nodes share their keys.
        kind: what the frame stands for.
        title: one line of printable text; so is each note.
        notes: what is to be read in small below.
        parts: what is inside, in the order of the definition.
        entry: the node inside where an arrow to the box leads.
        exit: the node inside where an arrow from the box begins.
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
    """From one part to another.

    Attributes:
        tail: where it begins.
        head: where its point is.
        label: one line of printable text, or nothing.
        hands_over: whether it leads to a sub-agent, which comes back, and not to what follows.
    """

    tail: Part
    head: Part
    label: str = ""
    hands_over: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """What is to be drawn.

    Attributes:
        parts: the outermost boxes and nodes.
        arrows: all, wherever their ends are.
    """

    parts: tuple[Part, ...]
    arrows: tuple[Arrow, ...]
