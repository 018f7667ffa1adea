"""Writes a picture in Mermaid's language, which GitHub, GitLab and many editors draw."""

from __future__ import annotations

from collections.abc import Iterator

from .layout import Arrow, Box, Node, Part, Picture

STYLES = {
    "agent": "fill:#ffffff,stroke:#57606a,color:#1f2328",
    "fork": "fill:#57606a,stroke:#57606a",
    "join": "fill:#eaeef2,stroke:#57606a,color:#1f2328",
    "sequence": "fill:#ddf4ff,stroke:#54aeff,color:#1f2328",
    "parallel": "fill:#dafbe1,stroke:#4ac26b,color:#1f2328",
    "workflow": "fill:#fff8c5,stroke:#d4a72c,color:#1f2328",
    "task": "fill:#f6f8fa,stroke:#8c959f,color:#1f2328",
}
HARMLESS = " -,:()?"  # The dot is left out: Mermaid reads labels as Markdown, where dots make lists and links.


CONFIG = """\
---
config:
  flowchart:
    wrappingWidth: 500
    subGraphTitleMargin: {{top: 4, bottom: {bottom}}}
---
flowchart TD
"""
"""Mermaid needs the height of a frame's title in pixels, or the title overlaps the frame's contents."""
LINE, ROOM = 25, 20  # The height of a line of notes, and the room that Mermaid leaves by default.


def to_mermaid(picture: Picture) -> str:
    """Return a flowchart, for a `.mmd` file or a fenced block of Markdown."""
    notes = max([len(part.notes) for part in _all(picture.parts) if isinstance(part, Box)], default=0)
    lines: list[str] = []
    for part in picture.parts:
        lines += _part(part, "  ")
    lines += [f"  {_arrow(arrow)}" for arrow in picture.arrows]
    kinds = dict.fromkeys([part.kind for part in _all(picture.parts)])
    lines += [f"  classDef {kind} {STYLES[kind]}" for kind in kinds]
    lines += [f"  class {','.join([p.key for p in _all(picture.parts) if p.kind == kind])} {kind}" for kind in kinds]
    return CONFIG.format(bottom=max(0, LINE * notes - ROOM)) + "\n".join(lines) + "\n"


def _all(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Box):
            yield from _all(part.parts)


def _part(part: Part, indent: str) -> Iterator[str]:
    match part:
        case Box():
            yield f"{indent}subgraph {part.key}[{_label(part)}]"
            yield f"{indent}  direction TB"  # by default a frame's direction differs from the one around it
            for inner in part.parts:
                yield from _part(inner, indent + "  ")
            yield f"{indent}end"
        case Node(kind="agent"):
            yield f"{indent}{part.key}({_label(part)})"
        case Node(title=""):
            yield f'{indent}{part.key}((" "))'
        case Node():
            yield f"{indent}{part.key}([{_label(part)}])"


def _label(part: Part) -> str:
    lines = [f"<b>{_escaped(part.title)}</b>" if part.kind != "join" else _escaped(part.title)]
    lines += [f"<small>{_escaped(note)}</small>" for note in part.notes]
    return f'"{"<br/>".join(lines)}"'


def _arrow(arrow: Arrow) -> str:
    line = "-.->" if arrow.hands_over else "-->"
    label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
    return f"{arrow.tail.key} {line}{label} {arrow.head.key}"


def _escaped(text: str) -> str:
    """Return a text with every character of syntax, HTML or Markdown written as a number, in Mermaid's notation."""
    return "".join([c if c.isalnum() or c in HARMLESS else f"#{ord(c)};" for c in text])
