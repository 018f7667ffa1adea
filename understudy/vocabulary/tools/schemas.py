"""Builds the JSON Schemas and validators of tools with pydantic and docstring-parser: import it when needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, get_type_hints

import docstring_parser
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.fields import FieldInfo

from understudy.vocabulary.checks import not_json
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonObject, JsonValue

from .parameters import BadArguments, Described, Documentation, module_names, without_partial

OF_TEXTS = ("string_", "value_error", "assertion_error")
"""What errors of pydantic begin with that find fault with a text, and not with its type."""
PREFIX = "arg_"  # Parameters may be called `copy` or `_x`; fields of a pydantic model may not.


PLAIN = (str, int, float, bool)


def arguments_model(signature: Described, name: str) -> tuple[type[BaseModel], JsonObject, bool]:
    """Build the model that checks a tool's arguments, its JSON Schema, and whether the model runs no code of users.

    Raises:
        TypeError: a parameter's annotation cannot be resolved, or has no JSON Schema.
    """
    documented = signature.documentation.parameters
    hints = _hints(signature, name)
    fields: dict[str, Any] = {}
    for parameter in signature.parameters:
        default: object = ... if parameter.default is parameter.empty else parameter.default
        info = FieldInfo.from_annotated_attribute(hints[parameter.name], default)
        if info.description is None:
            info.description = documented.get(parameter.name)
        fields[PREFIX + parameter.name] = (info.annotation, info)
    config = ConfigDict(extra="forbid", alias_generator=lambda field: field.removeprefix(PREFIX))
    try:
        model: type[BaseModel] = create_model(name, __config__=config, **fields)
        schema: JsonObject = model.model_json_schema()
    except (PydanticUserError, PydanticInvalidForJsonSchema) as error:
        raise TypeError(_blame(signature, name, hints, error)) from error
    cleaned = {k: v for k, v in without_titles(schema).items() if k != "description"}
    return (
        model,
        {"type": "object", "properties": {}, **cleaned},
        all(map(_is_plain, signature.parameters, hints.values())),
    )


def _is_plain(parameter: inspect.Parameter, hint: object) -> bool:
    """Whether an argument is checked without code of users: neither its type nor its default has any."""
    default: object = parameter.default
    is_default_plain = default is parameter.empty or default is None or type(default) in PLAIN
    return is_default_plain and any(hint is plain for plain in PLAIN)


def _blame(signature: Described, name: str, hints: Mapping[str, Any], error: Exception) -> str:
    """Name the parameter that has no JSON Schema."""
    for parameter in signature.parameters:
        try:
            TypeAdapter(hints[parameter.name]).json_schema()
        except (PydanticUserError, PydanticInvalidForJsonSchema) as found:
            kind = inspect.formatannotation(hints[parameter.name])
            if found.code == "typed-dict-version":
                return f"tool {name!r}: parameter {parameter.name!r} is of type {kind}: {found.message}"
            return (
                f"tool {name!r}: parameter {parameter.name!r} is of type {kind}, which has no JSON Schema; "
                "expected a type that JSON can carry, such as str, int, list[str], a dataclass or a pydantic model"
            )
    return f"tool {name!r}: its parameters have no JSON Schema: {error}"


def _hints(signature: Described, name: str) -> dict[str, Any]:
    """Return the parameters' types. The others' stay unread: they are often imported for type checkers only."""
    scope = module_names(signature.function)
    hints: dict[str, Any] = {}
    for parameter in signature.parameters:
        holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        try:
            hints |= get_type_hints(holder, scope, include_extras=True)
        except NameError as error:
            raise TypeError(
                f"tool {name!r}: parameter {parameter.name!r} is annotated {parameter.annotation!r}, but {error}; "
                "its types must be defined at the module's top level when the tool is first used"
            ) from error
    return hints


def documentation_of(function: Callable[..., object]) -> Documentation:
    """Parse the function's docstring, in whichever of the usual styles it is written."""
    parsed = docstring_parser.parse(inspect.getdoc(without_partial(function)) or "")
    paragraphs = (parsed.short_description, parsed.long_description)
    described = {p.arg_name: " ".join(p.description.split()) for p in parsed.params if p.description}
    return Documentation("\n\n".join([p.strip() for p in paragraphs if p]), described)


def without_titles(schema: JsonObject) -> dict[str, JsonValue]:
    """Drop the titles that pydantic derives from names: they cost tokens and say nothing new.

    A keyword whose value is no JSON is dropped too, such as a default of `math.inf`: the function still has it.
    """
    cleaned: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "patternProperties", "$defs") and isinstance(value, Mapping):
            # Below these stand names of the user's, one of which may be `title`.
            cleaned[key] = {k: without_titles(v) if isinstance(v, Mapping) else v for k, v in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            cleaned[key] = without_titles(value)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, (list, tuple)):
            cleaned[key] = [without_titles(v) if isinstance(v, Mapping) else v for v in value]
        elif not not_json(value, key):
            cleaned[key] = value
    return cleaned


def check_arguments(signature: Described, name: str, arguments: JsonObject) -> dict[str, object]:
    """Return the arguments as the tool's function takes them: validated, converted, defaults filled in.

    Raises:
        BadArguments: some do not fit.
    """
    model, given = signature.arguments_model(name), dict(arguments)
    first: ValidationError | None = None
    while True:
        try:
            checked = model.model_validate(given, by_alias=True)
            break
        except ValidationError as error:
            first = first or error
            read = with_json_read(given, error)
            if read is None:
                raise BadArguments(_explain(name, error)) from error
            given = dict(read)
        except Exception:  # a validator of the user's, which takes the text that the model wrote
            if first is None:
                raise
            raise BadArguments(_explain(name, first)) from first
    return {field.removeprefix(PREFIX): value for field, value in vars(checked).items()}


def with_json_read(given: JsonObject, error: ValidationError) -> JsonObject | None:
    """Return what did not fit with the objects, arrays and nulls that stood as JSON in texts; None if there were none.

    Models write a nested value so now and then. Where the type takes text there is no error, and the text stays.
    """
    read: JsonValue = given
    for item in error.errors(include_url=False):
        if isinstance(item["input"], str) and not item["type"].startswith(OF_TEXTS):
            read = _read_at(read, item["loc"], item["input"])
    return read if isinstance(read, Mapping) and read != given else None


def _read_at(value: JsonValue, steps: tuple[int | str, ...], text: str) -> JsonValue:
    if value == text:
        try:
            found = parse(text)
        except ValueError:
            return value
        return found if found is None or isinstance(found, (Mapping, list)) else value
    for at, step in enumerate(steps):  # a step may also name a type of a union
        if isinstance(value, Mapping) and isinstance(step, str) and step in value:
            return {**value, step: _read_at(value[step], steps[at + 1 :], text)}
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            return [*value[:step], _read_at(value[step], steps[at + 1 :], text), *value[step + 1 :]]
    return value


def _explain(name: str, error: ValidationError) -> str:
    lines: list[str] = []
    for item in error.errors(include_url=False):
        where = ".".join(str(step) for step in item["loc"])
        got = "" if item["type"] == "missing" else f", got {shorten(item['input'])}"
        lines.append(f"argument {where!r}: {item['msg'][:1].lower()}{item['msg'][1:]}{got}")
    return f"tool {name!r}: " + "; ".join(lines)


def shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
