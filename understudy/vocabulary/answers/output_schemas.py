"""JSON Schemas and validators of output types. Loads pydantic: import it when an output type is first used."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import from_json

from understudy.vocabulary.json_text import behind_thoughts, json_in
from understudy.vocabulary.messages import JsonObject, JsonValue, OutputSpec
from understudy.vocabulary.tools.schemas import shorten, with_json_read, without_titles

from .forms import JsonSchema, Unfit

WRAPPED = "answer"
"""The property for an answer that is no JSON object, because providers require an object at the root."""
AT_ROOT = ("$schema", "$defs", "definitions", "title")
"""Keywords that stay at the root when a schema is wrapped, because references lead there."""
AT_END: Literal["trailing-strings"] = "trailing-strings"
"""How much of a text that is cut off is shown: also the last string."""
MOST_PROBLEMS = 20  # Problems that a model reads at once; an answer with more is better written anew.


class Form:
    """An output type that pydantic reads."""

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
            Unfit: the answer does not fit. Other errors of a validator are raised unchanged.
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

    def partial(self, text: str) -> object:
        """Return what the beginning of an answer shows of it already: pydantic's partial validation.

        Raises:
            Unfit: it shows nothing that fits.
        """
        found = _opening(text)
        try:
            value = self._adapter.validate_json(found, experimental_allow_partial=AT_END)
            return getattr(value, WRAPPED) if self._wrapped else value
        except ValidationError:
            pass
        try:
            return self._bare.validate_json(found, experimental_allow_partial=AT_END)
        except ValidationError as error:
            raise Unfit(_explain(error)) from None

    def dump(self, value: object) -> str:
        """Return a value of the type as JSON; one that is text in JSON as it is."""
        text = self._bare.dump_json(value, warnings=False).decode()
        return cast(str, json.loads(text)) if text.startswith('"') else text

    def _validated(self, found: str) -> object:
        try:
            value = self._adapter.validate_json(found)
        except ValidationError as error:
            given: object = json.loads(found)
            if not self._wrapped or (isinstance(given, dict) and WRAPPED in given):
                read = with_json_read(cast("JsonObject", given), error) if isinstance(given, dict) else None
                if read is None:
                    raise
                return self._validated(json.dumps(read))
            return self._bare.validate_json(found)  # a model may omit the wrapping
        return getattr(value, WRAPPED) if self._wrapped else value


class SchemaForm:
    """A JSON Schema that answers must fit."""

    def __init__(self, form: JsonSchema) -> None:
        self._misfits = form.misfits
        schema = _at_root(form.schema)
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:
            parts = {key: value for key, value in schema.items() if key in AT_ROOT}
            bare = {key: value for key, value in schema.items() if key not in AT_ROOT}
            closed: JsonObject = {"required": [WRAPPED], "additionalProperties": False}
            schema = {"type": "object", "properties": {WRAPPED: bare}, **closed, **parts}
        title = schema.get("title", "")
        name = re.sub(r"[^A-Za-z0-9_-]", "_", title)[:64] if isinstance(title, str) else ""
        self.spec = OutputSpec(name or WRAPPED, {"properties": {}, **schema})

    def read(self, text: str) -> object:
        """Return the answer as JSON.

        Raises:
            Unfit: it does not fit.
        """
        try:
            found = json_in(text)
        except ValueError as error:
            raise Unfit(str(error)) from None
        value: JsonValue = json.loads(found)
        if self._wrapped and isinstance(value, dict) and value.keys() == {WRAPPED}:
            value = value[WRAPPED]
        try:
            problems = self._misfits(value)
        except RecursionError:
            raise Unfit("it is nested too deeply") from None
        if problems:
            more = len(problems) - MOST_PROBLEMS
            raise Unfit("; ".join(problems[:MOST_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])))
        return value

    def partial(self, text: str) -> object:
        """Return what the beginning of an answer shows of it already.

        Raises:
            Unfit: it shows nothing that fits.
        """
        try:
            value: JsonValue = from_json(_opening(text), allow_partial=AT_END)
        except ValueError as error:
            raise Unfit(str(error)) from None
        if self._wrapped and isinstance(value, dict) and value.keys() == {WRAPPED}:
            value = value[WRAPPED]
        if self._misfits(value):
            raise Unfit("it does not fit yet")
        return value

    def dump(self, value: object) -> str:
        """Return a value as JSON; one that is text as it is."""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _opening(text: str) -> str:
    """Return the beginning of an answer from its first bracket on, as far as nothing but a fence stands before it."""
    begun = re.sub(r"^\s*(```\w*\s*)?", "", text if text.lstrip().startswith(("{", "[")) else behind_thoughts(text))
    if not begun.startswith(("{", "[")):
        raise Unfit("no JSON has begun")
    return begun


def _at_root(schema: JsonObject) -> JsonObject:
    """Return the schema without a reference at its root; recursive types have one."""
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
