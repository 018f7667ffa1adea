"""Checks a document against the grammar: a problem for each value that does not fit, with its place and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from understudy.specs.reading.document import Document, Path
from understudy.specs.reading.located import owner, owner_length
from understudy.specs.reading.problems import MAX_PROBLEMS, Place, Problem, did_you_mean, listed, nearest, short
from understudy.vocabulary.models import PROVIDERS

from .grammar import NO_FORM, Grammar, alternatives, annotation_at, grammar_at, is_grammar, keys_of, types_of
from .spec import SpecGrammar

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
"""Pydantic's error type -> what was expected."""
PATTERNS = {
    r"\S": "must not be empty",
    r"^[^/]+$": "must not be empty or hold a '/'",
    r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$": (
        "must be letters, digits, '_', '-' and '.', at most 128, and begin with a letter or '_'"
    ),
    r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$": "must be letters, digits, '_' and '-', at most 64, and begin with a letter or '_'",
}
"""A pattern of the grammar -> its demand in words."""
NUMBER = re.compile(r"[-+]?[0-9]{1,40}(\.[0-9]{0,40})?([eE][-+]?[0-9]{1,4})?")
"""Texts that look like a number to a reader, also where YAML reads them as text."""
SECRETS = re.compile(r"(api_?key|access_token|token|secret|password|credentials?)$", re.IGNORECASE)


def check_shape(document: Document) -> tuple[SpecGrammar | None, list[Problem]]:
    """Return the document as an instance of the grammar, or the problems of its shape."""
    if document.value is None:
        found = "there is no spec here; expected 'agents:' and a list of agents"
        return None, [document.problem(document.place(()), found)]
    try:
        return SpecGrammar.model_validate(document.value), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        meant = {(each["loc"][:-1], near) for each in islice(_unknown(details), MAX_PROBLEMS) if (near := _meant(each))}
        told = (
            each for each in details if each["type"] != "missing" or (each["loc"][:-1], each["loc"][-1]) not in meant
        )
        return None, [_problem(document, detail) for detail in islice(told, MAX_PROBLEMS + 1)]


def _unknown(details: Iterable[ErrorDetails]) -> Iterable[ErrorDetails]:
    return (detail for detail in details if detail["type"] == "extra_forbidden")


def _meant(detail: ErrorDetails) -> str:
    """Return the known key that the author of an unknown key probably meant."""
    grammar = grammar_at(SpecGrammar, detail["loc"][:-1])
    return "" if grammar is None else _near(grammar, str(detail["loc"][-1]))


def _near(grammar: type[Grammar], key: str) -> str:
    """Return the key that an unknown one means elsewhere, or else the most like it; empty if there is none."""
    return grammar.elsewhere.get(key) or nearest(key, [known for known, _ in keys_of(grammar)])


def _problem(document: Document, detail: ErrorDetails) -> Problem:
    path = _path(detail)
    if detail["type"] == NO_FORM and "type" in _keys_in(detail):
        path = (*path, "type")
    explain = _KINDS.get(detail["type"], _other)
    place = document.key_place(path) if detail["type"] == "extra_forbidden" else document.place(path)
    return document.problem(Place(*place), owner(document, path) + explain(document, path, detail))


def _path(detail: ErrorDetails) -> Path:
    """Return the path of a misfit in the document: pydantic's path without the names of forms."""
    return tuple([step for step in detail["loc"] if not (isinstance(step, str) and step.startswith("<"))])


def _keys_in(detail: ErrorDetails) -> dict[str, object]:
    given: object = detail["input"]
    return cast("dict[str, object]", given) if isinstance(given, dict) else {}


def _unknown_key(document: Document, path: Path, detail: ErrorDetails) -> str:
    grammar = grammar_at(SpecGrammar, detail["loc"][:-1])
    assert grammar is not None  # only a mapping with a grammar can have an unknown key
    known = [key for key, _ in keys_of(grammar)]
    key = str(path[-1])
    if SECRETS.search(key) and f"{key}s" not in known:
        names = listed([f"{provider.upper()}_API_KEY" for provider in PROVIDERS if provider in ("openai", "anthropic")])
        return f"{grammar.called} has no key {key!r}: keys never stand in a spec; they come from the environment ({names}, …)"
    inside = [name for name, field in keys_of(grammar) if key in _keys_under(field.annotation)]
    if inside and key not in grammar.elsewhere:
        return f"{grammar.called} has no key {key!r}; it stands under {inside[0]!r}"
    near = _near(grammar, key)
    if near:  # one suggestion instead of the list of keys: an agent has more than thirty
        return f"{grammar.called} has no key {key!r}. Did you mean {near!r}? The keys are {listed(known)}"
    return f"{grammar.called} has no key {key!r}; expected {listed(known)}"


def _keys_under(annotation: object) -> list[str]:
    """Return the keys of the only mapping that a value may be; none if several mappings are possible."""
    kinds = [kind for kind in alternatives(annotation) if is_grammar(kind)]
    return [name for name, _ in keys_of(cast("type[Grammar]", kinds[0]))] if len(kinds) == 1 else []


def _missing(document: Document, path: Path, detail: ErrorDetails) -> str:
    grammar = grammar_at(SpecGrammar, detail["loc"][:-1])
    meaning = [field.description for key, field in keys_of(grammar) if key == path[-1]] if grammar else []
    return f"{_name(path)} is missing: {meaning[0]}" if meaning else f"{_name(path)} is missing"


def _meaning(document: Document, path: Path, detail: ErrorDetails) -> str:
    return (
        f"{_name(path)} {detail['msg'].removeprefix('Value error, ')}{_got(document, path, detail, only_scalars=True)}"
    )


def _bound(document: Document, path: Path, detail: ErrorDetails) -> str:
    words = detail["msg"].removeprefix("Input should be ").replace("greater than or equal to", "at least")
    words = words.replace("less than or equal to", "at most").replace("greater than", "above")
    return f"{_name(path)} must be {words}{_got(document, path, detail)}"


def _one_of(document: Document, path: Path, detail: ErrorDetails) -> str:
    words = str(detail.get("ctx", {}).get("expected", "")).replace("'", "").replace(" or ", ", ")
    known = [{"False": "false", "True": "true"}.get(word, word) for word in words.split(", ")]
    return _must_be(document, path, detail["input"], known, _got(document, path, detail))


def _must_be(document: Document, path: Path, given: object, known: list[str], got: str) -> str:
    hint = did_you_mean(given, known) if isinstance(given, str) else ""
    if given in known:
        hint = "; leave the quotes out"
    return f"{_name(path)} must be {'one of ' if len(known) > 1 else ''}{listed(known)}{got}{hint}"


def _no_form(document: Document, path: Path, detail: ErrorDetails) -> str:
    keys = _keys_in(detail)
    types = types_of(annotation_at(SpecGrammar, detail["loc"]))
    if "type" in keys:
        given = keys["type"]
        return _must_be(document, path, given, types, f", got {short(given) if isinstance(given, str) else 'no text'}")
    kinds = f" ({', '.join(types)})" if types else ""
    with_keys = f" with {listed([repr(key) for key in islice(keys, 3)])}" if keys else ""
    return f"{_name(path)} {detail['msg']}{kinds}{_got(document, path, detail)}{with_keys}"


def _pattern(document: Document, path: Path, detail: ErrorDetails) -> str:
    return f"{_name(path)} {PATTERNS[detail.get('ctx', {})['pattern']]}{_got(document, path, detail)}"


def _length(document: Document, path: Path, detail: ErrorDetails) -> str:
    least = detail.get("ctx", {}).get("min_length", 0)
    if least == 1:
        return f"{_name(path)} must hold at least one {str(path[-1]).removesuffix('ren').removesuffix('s')}"
    return f"{_name(path)} must hold two numbers, the first and the most"


def _empty(document: Document, path: Path, detail: ErrorDetails) -> str:
    return f"{_name(path)} must not be empty"


def _other(document: Document, path: Path, detail: ErrorDetails) -> str:
    expected = EXPECTED.get(detail["type"])
    wanted = f"must be {expected}" if expected else detail["msg"][:1].lower() + detail["msg"][1:]
    return f"{_name(path)} {wanted}{_got(document, path, detail)}{_hint(path, detail)}"


def _hint(path: Path, detail: ErrorDetails) -> str:
    """Return how to mend a value of the wrong type, if that is clear."""
    given: object = detail["input"]
    if not path:
        return "; expected 'agents:' and a list of agents"
    if detail["type"] == "list_type" and isinstance(given, dict):
        return "; begin each entry with '- '"
    if detail["type"] == "bool_type" and given in ("true", "false", "yes", "no", "on", "off"):
        return "; leave the quotes out"
    if detail["type"] in ("int_type", "float_type") and isinstance(given, str) and NUMBER.fullmatch(given):
        return "; write a plain number, without quotes and without 'e'"
    return ""


_KINDS: dict[str, Callable[[Document, Path, ErrorDetails], str]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
    "value_error": _meaning,
    "too_short": _length,
    "too_long": _length,
    "string_too_short": _empty,
    "string_pattern_mismatch": _pattern,
    "literal_error": _one_of,
    NO_FORM: _no_form,
    "greater_than": _bound,
    "greater_than_equal": _bound,
    "less_than_equal": _bound,
}


def _name(path: Path) -> str:
    """Return the name of the value at `path` in messages: 'tools[2]', 'settings.seed', 'the spec'."""
    steps = path[owner_length(path) :] or path[-2:]
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
            return f", got the text {short(given)}"
        case bool():
            kind = "true or false"
        case _:
            kind = "a number"
    hint = f", which YAML reads as {kind}; put it in quotes" if detail["type"] == "string_type" else ""
    return f", got {short(str(given)) if written is None else written}{hint}"
