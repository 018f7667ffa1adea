"""Validates against JSON Schemas that users give as data. Loads jsonschema: import it when needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, Schema

from understudy.vocabulary.messages import JsonObject, JsonValue

DATA = ("const", "enum", "default", "examples")  # The values of these keywords are data, not schemas.


class BadSchema(ValueError):
    """The argument is no valid JSON Schema.

    Attributes:
        path: keys and positions from the root to the fault.
    """

    def __init__(self, message: str, path: Iterable[str | int] = ()) -> None:
        super().__init__(message)
        self.path = tuple(path)


def fits(schema: JsonObject) -> Callable[[JsonValue], bool]:
    """Return a function that tells whether a value fits the schema; it is thread-safe and fetches nothing.

    Args:
        schema: of the draft that its `$schema` names, else 2020-12; copied.

    Raises:
        ValueError: it is no valid JSON Schema, or refers to what is not in it.
    """
    validator = _validator(schema)
    return lambda value: bool(validator.is_valid(value))


def misfits(schema: JsonObject) -> Callable[[JsonValue], list[str]]:
    """Return a function that tells why a value does not fit, one sentence for each reason; otherwise like `fits`.

    Raises:
        ValueError: it is no valid JSON Schema, or refers to what is not in it.
    """
    validator = _validator(schema)
    return lambda value: [_words(error) for error in validator.iter_errors(value)]


def _words(error: ValidationError) -> str:
    where = ".".join([str(step) for step in error.absolute_path])
    return f"{where!r}: {error.message}" if where else str(error.message)


def _validator(schema: JsonObject) -> Validator:
    try:
        plain = json.loads(json.dumps(schema, default=dict))  # jsonschema knows objects as dicts, and arrays as lists
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the schema is no JSON: {error}") from None
    kind = validator_for(plain, default=Draft202012Validator)
    try:
        kind.check_schema(plain)
    except RecursionError:
        raise BadSchema("the schema has a pattern that is nested too deeply") from None
    except SchemaError as error:
        where = "".join([f"[{step!r}]" for step in error.absolute_path])
        reasons = " and ".join([each.message for each in error.context or ()]) or error.message
        raise BadSchema(f"the schema{where} is invalid: {reasons}", error.absolute_path) from None
    _check_references(plain)
    return kind(plain, registry=Registry())  # the library's own registry would fetch a $ref


def _check_references(schema: JsonObject) -> None:
    """Raise for references that lead nowhere; otherwise they would fail in the middle of a run."""
    root = Resource[Schema].from_contents(schema, default_specification=DRAFT202012)
    resolver = Registry[Schema]().resolver_with_root(root)
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ValueError(f"the schema has nothing at $ref {reference!r}") from None


def _references(schema: JsonValue) -> Iterator[str]:
    """Yield the references of a schema, except in a part with an `$id`, which has a root of its own."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            elif key not in DATA and not (isinstance(value, Mapping) and "$id" in value):
                yield from _references(value)
    elif isinstance(schema, Sequence) and not isinstance(schema, str):
        for value in schema:
            yield from _references(value)
