"""What the grammars of a spec have in common: what a mapping is, and how one of several forms is told from the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Discriminator, Tag
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from understudy.specs.reading.problems import nearest

TEXT = "<text>"
"""The form that is no mapping: a name, or another plain value."""
NO_FORM = "no_form"
"""What pydantic calls a value that has none of the forms."""


class Grammar(BaseModel):
    """The keys of one kind of mapping."""

    # Strict: "3" is no number and 1 is no text, so that what is loaded is what was written.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())
    called: ClassVar[str]
    """What errors call such a mapping: 'an agent'."""


def form(name: str) -> Tag:
    """Return the tag of a form; in brackets, so that it is no key of a document."""
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
    """Return what tells the forms of a value apart.

    Args:
        expected: what is told of a value that has none of the forms: 'must be …'.
        types: forms that a mapping names in its key `type`.
        text: whether text is a form.
        plain: whether whatever is no mapping is a form.
        keys: forms that a mapping has if it has this key.
        other: the form of a mapping with none of these keys.
        marks: keys of which that other form has one; a mapping without them is taken for the first form of `keys`.
        type_first: whether a known `type` tells more than one of these keys.
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
    """As it stands in a spec."""
    field: FieldInfo


def exact(value: object, *, of: tuple[object, ...]) -> object:
    """Refuse what equals one of the values and is of another type: 1 is not `true`."""
    if any(type(value) is type(one) and value == one for one in of):
        return value
    words = ", ".join(f"'{one}'" for one in of)
    raise PydanticCustomError("literal_error", "must be one of {expected}", {"expected": words})


def keys_of(grammar: type[Grammar]) -> Iterator[Key]:
    """Iterate over the keys of a grammar, in the order in which they are explained."""
    for name, field in grammar.model_fields.items():
        yield Key(field.alias or name, field)


def is_meant(given: str, key: str, grammar: type[Grammar]) -> bool:
    """Whether an unknown key was probably meant to be this one: then that one is not missing, too."""
    known = [name for name, _ in keys_of(grammar)]
    return given not in known and nearest(given, known) == key


def grammar_at(top: type[Grammar], way: tuple[str | int, ...]) -> type[Grammar] | None:
    """Return the grammar of the mapping that keys, positions and forms lead to from `top`; None if it is no mapping."""
    kinds = [kind for kind in alternatives(annotation_at(top, way)) if is_grammar(kind)]
    return cast("type[Grammar]", kinds[0]) if kinds else None


def annotation_at(top: type[Grammar], way: tuple[str | int, ...]) -> Any:
    """Return the annotation of the value that keys, positions and forms lead to from `top`; None if there is no such value."""
    current: Any = top
    for step in way:
        current = _inside(current, step)
    return current


def types_of(annotation: Any) -> list[str]:
    """Return what the key `type` may say in the forms of a value."""
    grammars = [kind for kind in alternatives(annotation) if is_grammar(kind)]
    kinds = [field.annotation for grammar in grammars for name, field in keys_of(grammar) if name == "type"]
    return [str(each) for kind in kinds for each in choices(kind)]


def is_grammar(kind: object) -> bool:
    """Whether a type is that of a mapping with known keys."""
    return isinstance(kind, type) and issubclass(kind, Grammar)


def alternatives(annotation: Any) -> Iterator[Any]:
    """Iterate over the forms that an annotation allows, without what pydantic is told of them."""
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
    """Return the values that an annotation lists; none if it lists none."""
    return tuple([each for kind in alternatives(annotation) if get_origin(kind) is Literal for each in get_args(kind)])
