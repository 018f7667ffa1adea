"""JSON Schemas and validators of output types, built with pydantic. Imported when an output type is first used."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation, PydanticUserError

from understudy.json_text import json_in
from understudy.messages import JsonObject, OutputSpec
from understudy.outputs import Unfit
from understudy.schemas import shorten, without_titles

WRAPPED = "answer"
"""The property that holds an answer which is no JSON object: providers want an object at the root."""
MOST_PROBLEMS = 20  # What a model is told at once; an answer with more of them is best written anew.


class Form:
    """A type as pydantic reads it."""

    def __init__(self, form: object, where: str) -> None:
        try:
            self._bare = TypeAdapter[object](cast(Any, form))
            schema = _at_root(self._bare.json_schema())
            self._wrapped = schema.get("type") != "object"
            self._adapter = self._bare
            if self._wrapped:
                fields: dict[str, Any] = {WRAPPED: (form, ...)}
                self._adapter = TypeAdapter[object](
                    create_model(WRAPPED, __config__=ConfigDict(extra="forbid"), **fields)
                )
                schema = self._adapter.json_schema()
        except (PydanticUserError, PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation) as error:
            raise TypeError(f"{where}: output_type {form!r} has no JSON Schema: {error}") from error
        name = form.__name__ if isinstance(form, type) and not self._wrapped else WRAPPED
        self.spec = OutputSpec(re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64], {"properties": {}, **without_titles(schema)})

    def read(self, text: str) -> object:
        """Return the answer in the type.

        Raises:
            Unfit: it does not fit. What else a validator raises is raised.
        """
        try:
            found = json_in(text)
        except ValueError as error:
            raise Unfit(str(error)) from None
        try:
            return self._validated(found)
        except ValidationError as error:
            raise Unfit(_explain(error)) from None
        except UnicodeEncodeError as error:
            raise Unfit(f"the answer is no text that UTF-8 can carry: {error}") from None

    def dump(self, value: object) -> str:
        """Return a value of the type as JSON; one that is text in JSON as it is."""
        text = self._bare.dump_json(value, warnings=False).decode()
        return cast(str, json.loads(text)) if text.startswith('"') else text

    def _validated(self, found: str) -> object:
        try:
            value = self._adapter.validate_json(found)
        except ValidationError:
            if not self._wrapped or _is_wrapped(found):
                raise
            return self._bare.validate_json(found)  # a model that is not held to the schema may leave the wrapping out
        return getattr(value, WRAPPED) if self._wrapped else value


def _is_wrapped(found: str) -> bool:
    value: object = json.loads(found)
    return isinstance(value, dict) and WRAPPED in value


def _at_root(schema: JsonObject) -> JsonObject:
    """Return the schema without a reference at its root, as recursive types have one."""
    reference, definitions = schema.get("$ref"), schema.get("$defs")
    if not isinstance(reference, str) or not isinstance(definitions, dict):
        return schema
    root = definitions.get(reference.removeprefix("#/$defs/"))
    return {**root, "$defs": definitions} if isinstance(root, dict) else schema


def _explain(error: ValidationError) -> str:
    lines: list[str] = []
    for item in error.errors(include_url=False)[:MOST_PROBLEMS]:
        where = ".".join(str(step) for step in item["loc"])
        got = "" if item["type"] == "missing" else f", got {shorten(item['input'])}"
        about = f"{where!r}: " if where else ""
        lines.append(f"{about}{item['msg'][:1].lower()}{item['msg'][1:]}{got}")
    if error.error_count() > MOST_PROBLEMS:
        lines.append(f"and {error.error_count() - MOST_PROBLEMS} more")
    return "; ".join(lines)
