"""Writes the reference page of specs from the grammar.

`python -m understudy.specs.grammar.reference_page > docs/spec-reference.md`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from .grammar import Grammar, Key, alternatives, choices, is_grammar, keys_of
from .spec import SpecGrammar

WORDS: dict[object, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}
INTRODUCTION = """\
# Spec reference

Every key that a spec may have, written from the grammar that loads it. [specs.md](specs.md) explains what they are for.
A key without a default must be given.
"""


def reference_page() -> str:
    """Return the page, in Markdown."""
    parts = [INTRODUCTION]
    for grammar in every_grammar():
        rows = [_row(key) for key in keys_of(grammar)]
        head = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
        about = (grammar.__doc__ or "").strip()
        parts.append("\n".join([f"## {_title(grammar)}", "", about, "", *head, *rows, ""]))
    return "\n".join(parts)


def every_grammar() -> list[type[Grammar]]:
    """Return the grammars of all mappings, in the order in which a reader from the top meets them."""
    found: dict[type[Grammar], None] = {}
    waiting: list[type[Grammar]] = [SpecGrammar]
    while waiting:
        grammar = waiting.pop(0)
        if grammar not in found:
            found[grammar] = None
            waiting += [each for _, field in keys_of(grammar) for each in _grammars_in(field.annotation)]
    return list(found)


def _grammars_in(annotation: Any) -> Iterator[type[Grammar]]:
    for kind in alternatives(annotation):
        if is_grammar(kind):
            yield kind
        for each in get_args(kind) if get_origin(kind) in (list, dict) else ():
            yield from _grammars_in(each)


def _title(grammar: type[Grammar]) -> str:
    name = grammar.called.strip("'")
    return name[:1].upper() + name[1:]


def _row(key: Key) -> str:
    default = "" if key.field.is_required() else f"`{json.dumps(key.field.default, ensure_ascii=False)}`"
    return f"| `{key.name}` | {_type(key.field.annotation)} | {default} | {key.field.description} |".replace("  ", " ")


def _type(annotation: Any) -> str:
    listed = [f"`{json.dumps(each)}`" if not isinstance(each, str) else f"`{each}`" for each in choices(annotation)]
    named = [
        _name(kind) for kind in alternatives(annotation) if get_origin(kind) is None or get_origin(kind) in (list, dict)
    ]
    return ", ".join(dict.fromkeys([*listed, *[name for name in named if name]]))


def _name(kind: Any) -> str:
    if is_grammar(kind):
        return f"[{_title(kind).lower()}](#{_title(kind).lower().replace(' ', '-')})"
    if get_origin(kind) is list:
        return f"list of {_type(get_args(kind)[0])}"
    if get_origin(kind) is dict:
        inner = _type(get_args(kind)[1])
        return f"mapping to {inner}" if inner else "mapping"
    return WORDS.get(kind, "")


if __name__ == "__main__":
    sys.stdout.write(reference_page())
