"""The base of all grammars: a mapping's keys, and how a value's form is chosen where several are allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Discriminator, Tag
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from understudy.specs.reading.problems import nearest

TEXT = "<text>"
"""The form of a value that is not a mapping: a name, or another plain value."""
NO_FORM = "no_form"
"""Pydantic's error type for a value that has none of the forms."""


class Grammar(BaseModel):
    """The keys of one kind of mapping."""

    # Strict: "3" is not read as a number, nor 1 as text, so that a loaded value is the written value.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())
    called: ClassVar[str]
    """The name of such a mapping in errors: 'an agent'."""
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Name of a key in other libraries -> the key here."""


def form(name: str) -> Tag:
    """Return the tag of a form; in brackets, so that it cannot be confused with a key of a document."""
    return Tag(f"<{name}>")


def forms(
    expected: str,
    *,
    types: tuple[str, ...] = (),
    text: bool = False,
    plain: bool = False,
    keys: tuple[str, ...] = (),
    other: str = "",
    marks: tuple[str, ...] = (),
    type_first: bool = False,
) -> Discriminator:
    """Return the discriminator that chooses the form of a value.

    Args:
        expected: the message for a value that has none of the forms: 'must be …'.
        types: forms named by a mapping's key `type`.
        text: whether text is a form.
        plain: whether any value that is not a mapping is a form.
        keys: forms recognised by a key with the same name.
        other: the form of a mapping with none of these keys.
        marks: keys of the form `other`; a mapping with none of them gets the first form of `keys`.
        type_first: whether a known `type` decides before `keys`.
    """

    def form_of(value: object) -> str | None:
        if not isinstance(value, Mapping):
            return TEXT if plain or (text and isinstance(value, str)) else None
        given = cast("Mapping[str, object]", value)
        if type_first and given.get("type") in types:
            return f"<{given['type']}>"
        found = next((key for key in keys if key in given), "")
        if found:
            return f"<{found}>"
        if "type" not in given or not types:
            if marks and not any(mark in given for mark in marks):
                return f"<{keys[0]}>"
            return f"<{other}>" if other else None
        return f"<{given['type']}>" if given["type"] in types else None

    return Discriminator(
        form_of,
        custom_error_type=NO_FORM,
        custom_error_message=expected,
    )


class Key(NamedTuple):
    """One key of a grammar."""

    name: str
    """The key as a spec writes it."""
    field: FieldInfo


def exact(value: object, *, of: tuple[object, ...]) -> object:
    """Refuse a value that equals an allowed one but has another type: 1 is not `true`."""
    if any(type(value) is type(one) and value == one for one in of):
        return value
    words = ", ".join(f"'{one}'" for one in of)
    raise PydanticCustomError("literal_error", "must be one of {expected}", {"expected": words})


def keys_of(grammar: type[Grammar]) -> Iterator[Key]:
    """Iterate over the keys of a grammar, in the order of the reference page."""
    for name, field in grammar.model_fields.items():
        yield Key(field.alias or name, field)


def is_meant(given: str, key: str, grammar: type[Grammar]) -> bool:
    """Whether the unknown key `given` is probably a misspelt `key`; then `key` is not reported as missing as well."""
    known = [name for name, _ in keys_of(grammar)]
    return given not in known and nearest(given, known) == key


def grammar_at(top: type[Grammar], way: tuple[str | int, ...]) -> type[Grammar] | None:
    """Return the grammar at a path of keys, positions and forms from `top`; None if there is no mapping."""
    kinds = [kind for kind in alternatives(annotation_at(top, way)) if is_grammar(kind)]
    return cast("type[Grammar]", kinds[0]) if kinds else None


def annotation_at(top: type[Grammar], way: tuple[str | int, ...]) -> Any:
    """Return the annotation at a path of keys, positions and forms from `top`; None if there is no such value."""
    current: Any = top
    for step in way:
        current = _inside(current, step)
    return current


def types_of(annotation: Any) -> list[str]:
    """Return the allowed values of the key `type` in the forms of a value."""
    grammars = [kind for kind in alternatives(annotation) if is_grammar(kind)]
    kinds = [field.annotation for grammar in grammars for name, field in keys_of(grammar) if name == "type"]
    return [str(each) for kind in kinds for each in choices(kind)]


def is_grammar(kind: object) -> bool:
    """Whether a type is a grammar: a mapping with known keys."""
    return isinstance(kind, type) and issubclass(kind, Grammar)


def alternatives(annotation: Any) -> Iterator[Any]:
    """Iterate over the forms that an annotation allows, without pydantic's metadata."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for one in get_args(annotation):
            yield from alternatives(one)
    else:
        yield annotation


def _inside(annotation: Any, step: str | int) -> Any:
    if isinstance(step, str) and step.startswith("<"):
        return _tagged(annotation, step)
    for kind in alternatives(annotation):
        if is_grammar(kind):
            found = [field.annotation for name, field in keys_of(kind) if name == step]
            if found:
                return found[0]
        elif get_origin(kind) in (list, dict):
            return get_args(kind)[-1]
    return None


def _tagged(annotation: Any, tag: str) -> Any:
    """Return the form with this tag."""
    if get_origin(annotation) is Annotated:
        if any(isinstance(each, Tag) and each.tag == tag for each in get_args(annotation)[1:]):
            return get_args(annotation)[0]
        return _tagged(get_args(annotation)[0], tag)
    if get_origin(annotation) in (Union, UnionType):
        return next((found for one in get_args(annotation) if (found := _tagged(one, tag)) is not None), None)
    return None


def choices(annotation: Any) -> tuple[object, ...]:
    """Return the literal values of an annotation; none if it has none."""
    return tuple([each for kind in alternatives(annotation) if get_origin(kind) is Literal for each in get_args(kind)])
