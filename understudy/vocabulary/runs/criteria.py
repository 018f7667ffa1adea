"""Completion criteria: rules about the text that ends a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias

from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.json_text import fenced
from understudy.vocabulary.messages import JsonObject, JsonValue
from understudy.vocabulary.other_names import OF_CRITERIA, explains_arguments

Criterion: TypeAlias = Callable[[RunContext, str], "bool | str | None"]
"""Whether a text ends the run: True, or the reason in words, if so; False or None if not."""


@explains_arguments("KeywordCriteria", OF_CRITERIA)
class KeywordCriteria:
    """Met by a text with `keyword` in it, letter case included."""

    def __init__(self, keyword: str) -> None:
        if not isinstance(keyword, str) or not keyword:
            raise ValueError(f"a keyword must be a string that is not empty, got {keyword!r}")
        self.keyword = keyword

    def __call__(self, ctx: RunContext, text: str) -> bool | str:
        return f"keyword {self.keyword!r} found in response" if self.keyword in text else False

    def __repr__(self) -> str:
        return f"KeywordCriteria({self.keyword!r})"


@explains_arguments("MaxIterationsCriteria", OF_CRITERIA)
class MaxIterationsCriteria:
    """Met when rounds of tool calls and continue messages together reach `limit`.

    The limit is the agent's `max_iterations` too. Alone it is no rule for when a run is complete: the first text ends
    it, as without criteria.
    """

    def __init__(self, limit: int) -> None:
        if not isinstance(limit, int) or isinstance(limit, bool):
            raise TypeError(f"MaxIterationsCriteria takes a whole number, got {limit!r}")
        if limit < 1:
            raise ValueError(f"MaxIterationsCriteria takes a number of at least 1, got {limit}")
        self.limit = limit

    def __call__(self, ctx: RunContext, text: str) -> bool | str:
        return f"max iterations ({self.limit}) reached" if ctx.iterations + ctx.continues >= self.limit else False

    def __repr__(self) -> str:
        return f"MaxIterationsCriteria({self.limit})"


@explains_arguments("StructuredOutputCriteria", OF_CRITERIA)
class StructuredOutputCriteria:
    """Met by a text that is JSON, or has JSON in a ```json fence, and that fits `schema` if there is one.

    Args:
        schema: a JSON Schema, of the draft that its `$schema` names, else the newest. Nothing is fetched for a `$ref`.

    Raises:
        ValueError: the schema is no valid JSON Schema, or a reference leads outside of it.
    """

    def __init__(self, schema: JsonObject | None = None) -> None:
        if schema is not None and not isinstance(schema, Mapping):
            raise TypeError(f"StructuredOutputCriteria takes a JSON Schema as a mapping, got {schema!r}")
        self.schema = schema
        self._fits: Callable[[JsonValue], bool] = _anything
        if schema is not None:
            from understudy.vocabulary.answers.json_schema import fits  # loads the library that reads schemas

            try:
                self._fits = fits(schema)
            except ValueError as error:
                raise ValueError(f"StructuredOutputCriteria: {error}") from None

    def __call__(self, ctx: RunContext, text: str) -> bool | str:
        for candidate in (text, *fenced(text)):
            try:
                value = json.loads(candidate, parse_constant=_refuse)
            except (ValueError, RecursionError):
                continue
            if self._fits(value):
                return "structured output received"
        return False

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.schema,))  # a validator holds functions of its class

    def __repr__(self) -> str:
        return f"StructuredOutputCriteria({'' if self.schema is None else '…'})"


def _anything(value: JsonValue) -> bool:
    return True


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")  # RFC 8259, 6: NaN and Infinity are not permitted
