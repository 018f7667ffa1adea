"""Explains errors of PyYAML to authors of specs, and finds the place that they must mend."""

from __future__ import annotations

import re

import yaml
from yaml.error import Mark
from yaml.reader import ReaderError

from .problems import Place

LINE_END = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
"""Line ends as PyYAML counts them in its marks."""
OPENS = {"while parsing a flow sequence": ("[", "]"), "while parsing a flow mapping": ("{", "}")}
BLOCK_STARTS = ("'<block mapping start>'", "'<block sequence start>'", "'-'", "'?'")
QUOTE = "put text with such a sign in quotes"


class Refused(yaml.MarkedYAMLError):
    """Valid YAML that a spec may not have; its message is shown unchanged."""


def explain(error: yaml.YAMLError, text: str) -> tuple[Place, str]:
    """Return the place where a text is not YAML, and the reason."""
    if isinstance(error, ReaderError):
        found = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
        return place_of_offset(text, error.position), found
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return Place(1, 1), f"this is not YAML: {error}"
    if isinstance(error, Refused):
        return place_of_mark(error.problem_mark), str(error.problem)
    problem, context = str(error.problem), error.context or ""
    begun = error.context_mark or error.problem_mark
    if _is_told_where_it_begins(problem, context):
        return place_of_mark(begun), _beginning(problem, context)
    return place_of_mark(error.problem_mark), _in_words(problem, context, begun.line + 1)


def place_of_mark(mark: Mark) -> Place:
    """Return the place that a mark of PyYAML points to."""
    return Place(mark.line + 1, mark.column + 1)


def place_of_offset(text: str, offset: int) -> Place:
    """Return the place of a character."""
    ends = [found.end() for found in LINE_END.finditer(text[:offset])]
    return Place(len(ends) + 1, offset - (ends[-1] if ends else 0) + 1)


def _is_told_where_it_begins(problem: str, context: str) -> bool:
    """Whether the error belongs at the start of a construct, such as an open quote, and not where the parser stopped."""
    if context in OPENS:
        return "'<stream end>'" in problem
    if context == "while scanning a quoted scalar":
        return problem in ("found unexpected end of stream", "found unexpected document separator")
    return problem == "could not find expected ':'"


def _beginning(problem: str, context: str) -> str:
    if context in OPENS:
        return f"this {OPENS[context][0]!r} is never closed; expected {OPENS[context][1]!r} before the text ends"
    if context == "while scanning a quoted scalar":
        return "this quote is never closed"
    return "this is neither 'key: value' nor the rest of what stands above; add ': ', or check indentation and quotes"


def _in_words(problem: str, context: str, begun: int) -> str:
    anchor = re.search(r"'(.*)'", context if "duplicate anchor" in context else problem)
    name = anchor.group(1) if anchor else ""
    if "duplicate anchor" in context:
        return f"the anchor '&{name}' stands twice, first in line {begun}"
    if problem.startswith("found undefined alias"):
        return f"no anchor '&{name}' stands before this; put text that begins with '*' in quotes"
    if problem.startswith("expected alphabetic or numeric character"):
        return "this is no name of an anchor or an alias; put text that begins with '*' or '&' in quotes"
    if problem == "but found another document":
        return "a second document begins here, and a spec is one; write several files, and name them under 'include:'"
    if "that cannot start any token" in problem:
        tab = "a tab cannot indent YAML; use spaces"
        return tab if "\\t" in problem else f"text cannot begin with {name!r}; put it in quotes"
    if problem == "mapping values are not allowed here":
        return "a ': ' begins a value where none can stand; put text with ': ' in quotes, and check the indentation"
    if context in OPENS:
        opened, closes = OPENS[context]
        return f"expected ',' or {closes!r} here, for the {opened!r} of line {begun} is still open; {QUOTE}"
    if problem == "expected the node content, but found '<stream end>'":
        return "the text ends here inside of a '[' or a '{'; close it"
    if problem.startswith("expected the node content"):
        return f"expected a value here, got {problem.rpartition(' found ')[2]}; {QUOTE}"
    if problem.startswith("expected <block end>"):
        if problem.endswith(BLOCK_STARTS):
            return f"indentation does not match the block that starts on line {begun}"
        return f"the value before this has ended, and nothing can follow it in this line; {QUOTE}"
    return f"this is not YAML: {problem}" + (f" ({context})" if context else "")
