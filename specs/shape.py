"""Check a document against the grammar, and say of each misfit where it is and what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from .document import Document, Path
from .grammar import LATER, AgentGrammar, SettingsGrammar, SpecGrammar
from .problems import Problem, did_you_mean, listed

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
"""What pydantic calls a misfit -> what should have stood there."""

LEVELS: dict[tuple[str, ...], tuple[type[BaseModel], str]] = {
    (): (SpecGrammar, "a spec"),
    ("agents",): (AgentGrammar, "an agent"),
    ("agents", "settings"): (SettingsGrammar, "'settings'"),
}
"""Keys that lead to a mapping -> its grammar, and what it is called."""


def check_shape(document: Document) -> tuple[SpecGrammar | None, list[Problem]]:
    """Return the document as the grammar sees it, or what does not fit."""
    if document.value is None:
        return None, [Problem(document.place(()), "there is no spec here; expected 'agents:' and a list of agents")]
    try:
        return SpecGrammar.model_validate(document.value), []
    except ValidationError as error:
        return None, [_problem(document, detail) for detail in error.errors(include_url=False)]


def owner(document: Document, path: Path) -> str:
    """Return `agent 'clerk': ` for a path inside of that agent, `agents[1]: ` if it has no id, else an empty text."""
    match path:
        case ("agents", int(position), *_):
            id = document.scalars.get(("agents", position, "id"))
            return f"agent {id!r}: " if id else f"agents[{position}]: "
        case _:
            return ""


def _problem(document: Document, detail: ErrorDetails) -> Problem:
    path: Path = detail["loc"]
    explain = _KINDS.get(detail["type"], _other)
    at_key = detail["type"] in ("extra_forbidden", "value_error")
    place = document.key_place(path) if at_key else document.place(path)
    return Problem(place, owner(document, path) + explain(document, path, detail))


def _unknown_key(document: Document, path: Path, detail: ErrorDetails) -> str:
    grammar, name = LEVELS[tuple([step for step in path[:-1] if isinstance(step, str)])]
    known = [key for key in grammar.model_fields if key not in LATER]
    key = str(path[-1])
    return f"{name} has no key {key!r}; expected {listed(known)}{did_you_mean(key, known)}"


def _missing(document: Document, path: Path, detail: ErrorDetails) -> str:
    return f"{str(path[-1])!r} is missing"


def _meaning(document: Document, path: Path, detail: ErrorDetails) -> str:
    return (
        f"{_name(path)} {detail['msg'].removeprefix('Value error, ')}{_got(document, path, detail, only_scalars=True)}"
    )


def _bound(document: Document, path: Path, detail: ErrorDetails) -> str:
    words = detail["msg"].removeprefix("Input should be ").replace("greater than or equal to", "at least")
    return f"{_name(path)} must be {words.replace('less than or equal to', 'at most')}, got {detail['input']}"


def _other(document: Document, path: Path, detail: ErrorDetails) -> str:
    expected = EXPECTED.get(detail["type"])
    wanted = f"must be {expected}" if expected else detail["msg"][:1].lower() + detail["msg"][1:]
    return f"{_name(path)} {wanted}{_got(document, path, detail)}"


def _too_short(document: Document, path: Path, detail: ErrorDetails) -> str:
    return f"{_name(path)} must hold at least one agent"


_KINDS: dict[str, Callable[[Document, Path, ErrorDetails], str]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
    "value_error": _meaning,
    "too_short": _too_short,
    "greater_than_equal": _bound,
    "less_than_equal": _bound,
}


def _name(path: Path) -> str:
    """Return how people call what stands at `path`: 'tools[2]', 'settings.seed', 'the spec'."""
    steps = path[2:] if path[:1] == ("agents",) and len(path) > 2 else path
    text = "".join([f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps]).removeprefix(".")
    return repr(text) if text else "a spec"


def _got(document: Document, path: Path, detail: ErrorDetails, *, only_scalars: bool = False) -> str:
    given: object = detail["input"]
    written = document.scalars.get(path)
    match given:
        case dict() | list() if only_scalars:
            return ""
        case None:
            return ", got nothing"
        case dict():
            return ", got a mapping"
        case list():
            return ", got a list"
        case str():
            return f", got the text {_short(given)}"
        case bool():
            kind = "true or false"
        case _:
            kind = "a number"
    hint = f", which YAML reads as {kind}; put it in quotes" if detail["type"] == "string_type" else ""
    return f", got {_short(str(given)) if written is None else written}{hint}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
