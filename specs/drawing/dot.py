"""Writes a picture in DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .layout import Arrow, Box, Node, Part, Picture

FONT = 'fontname="Helvetica,Arial,sans-serif"'
GRAPH = f'graph [compound=true {FONT} fontsize=13 rankdir=TB nodesep=0.35 ranksep=0.45 style="rounded,filled"]'
NODE = (
    f'node [{FONT} fontsize=13 shape=box style="rounded,filled" fillcolor="#ffffff" color="#57606a" margin="0.15,0.08"]'
)
EDGE = f'edge [{FONT} fontsize=10 color="#57606a" arrowsize=0.8]'
BOXES = {
    "sequence": 'fillcolor="#ddf4ff" color="#54aeff"',
    "parallel": 'fillcolor="#dafbe1" color="#4ac26b"',
    "workflow": 'fillcolor="#fff8c5" color="#d4a72c"',
    "task": 'fillcolor="#f6f8fa" color="#8c959f"',
}


def to_dot(picture: Picture) -> str:
    """Return a directed graph, for a `.dot` file."""
    lines = ["digraph {", f"  {GRAPH}", f"  {NODE}", f"  {EDGE}"]
    for part in picture.parts:
        lines += _part(part, "  ")
    lines += [f"  {_arrow(arrow)}" for arrow in picture.arrows]
    return "\n".join([*lines, "}"]) + "\n"


def _part(part: Part, indent: str) -> Iterator[str]:
    match part:
        case Box():
            yield f"{indent}subgraph cluster_{part.key} {{"
            yield f"{indent}  graph [label={_label(part)} {BOXES[part.kind]}]"
            for inner in part.parts:
                yield from _part(inner, indent + "  ")
            yield f"{indent}}}"
        case Node(kind="agent"):
            yield f"{indent}{part.key} [label={_label(part)}]"
        case Node(title=""):
            yield f'{indent}{part.key} [label="" shape=point width=0.1 style=filled fillcolor="#57606a"]'
        case Node():
            yield f'{indent}{part.key} [label={_label(part)} fontsize=10 height=0.25 fillcolor="#eaeef2"]'


def _label(part: Part) -> str:
    """Return an HTML-like label, the only kind that can have small print."""
    title = _escaped(part.title)
    lines = [title if part.kind == "join" else f"<B>{title}</B>"]
    lines += [f'<FONT POINT-SIZE="10">{_escaped(note)}</FONT>' for note in part.notes]
    return f"<{'<BR/>'.join(lines)}>"


def _escaped(text: str) -> str:
    """Return a text without markup, and without backslashes, which begin Graphviz's own names, such as `\\N`.

    `]` is escaped too: it could begin the end of a CDATA section, and Graphviz's XML parser emits it after the next tag.
    """
    return escape(text).replace("\\", "\\\\").replace("]", "&#93;")


def _arrow(arrow: Arrow) -> str:
    # An arrow connects nodes; with `compound` it is cut at the frame of a box.
    options = [
        f"ltail=cluster_{arrow.tail.key}" if isinstance(arrow.tail, Box) else "",
        f"lhead=cluster_{arrow.head.key}" if isinstance(arrow.head, Box) else "",
        "style=dashed" if arrow.hands_over else "weight=4",  # keeps a run's path straight, with sub-agents beside it
        f"label=<&#160; {_escaped(arrow.label)}&#160; >" if arrow.label else "",
    ]
    said = " ".join([option for option in options if option])
    return f"{arrow.tail.exit.key} -> {arrow.head.entry.key}" + (f" [{said}]" if said else "")
