"""A picture in Mermaid's language, which GitHub, GitLab and many editors draw."""

from __future__ import annotations

from collections.abc import Iterator

from .picture import Arrow, Box, Node, Part, Picture

STYLES = {
    "agent": "fill:#ffffff,stroke:#57606a,color:#1f2328",
    "fork": "fill:#57606a,stroke:#57606a",
    "join": "fill:#eaeef2,stroke:#57606a,color:#1f2328",
    "sequence": "fill:#ddf4ff,stroke:#54aeff,color:#1f2328",
    "parallel": "fill:#dafbe1,stroke:#4ac26b,color:#1f2328",
    "workflow": "fill:#fff8c5,stroke:#d4a72c,color:#1f2328",
    "task": "fill:#f6f8fa,stroke:#8c959f,color:#1f2328",
}
HARMLESS = " -,:()?"  # Not the dot: Mermaid reads labels as Markdown, where it makes lists and links.


def to_mermaid(picture: Picture) -> str:
    """Return a flowchart, for a file `.mmd` or a fenced block of Markdown."""
    lines = ["flowchart TD"]
    for part in picture.parts:
        lines += _part(part, "  ")
    lines += [f"  {_arrow(arrow)}" for arrow in picture.arrows]
    kinds = dict.fromkeys([part.kind for part in _all(picture.parts)])
    lines += [f"  classDef {kind} {STYLES[kind]}" for kind in kinds]
    lines += [f"  class {','.join([p.key for p in _all(picture.parts) if p.kind == kind])} {kind}" for kind in kinds]
    return "\n".join(lines) + "\n"


def _all(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Box):
            yield from _all(part.parts)


def _part(part: Part, indent: str) -> Iterator[str]:
    match part:
        case Box():
            yield f"{indent}subgraph {part.key}[{_label(part)}]"
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
    # Between nodes, never boxes: the layout of arrows that end at nested subgraphs is faulty.
    line = "-.->" if arrow.hands_over else "-->"
    label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
    return f"{arrow.tail.exit.key} {line}{label} {arrow.head.entry.key}"


def _escaped(text: str) -> str:
    """Return a text in which nothing is syntax, HTML or Markdown: each such character by its number, as Mermaid has it."""
    return "".join([c if c.isalnum() or c in HARMLESS else f"#{ord(c)};" for c in text])
