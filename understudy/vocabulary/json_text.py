"""Finds the JSON value in a model's text: the whole text, a fenced block, or one value with words around it.

Thoughts before it do not count.
"""

from __future__ import annotations

import json
import re

# A line that begins with a fence cannot be part of JSON, whose strings have no line breaks.
FENCED = re.compile(r"^[ \t]*```([^\n`]*)\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
OPENING = re.compile(r"[{\[]")


def fenced(text: str) -> list[str]:
    """Return the contents of a text's fenced blocks that are labelled as JSON or have no label."""
    found: list[tuple[str, str]] = FENCED.findall(text)
    return [inside.strip() for label, inside in found if label.strip().lower() in ("", "json")]


def behind_thoughts(text: str) -> str:
    """Return a text without the thoughts at its beginning.

    A server without a reasoning parser leaves them there, up to `</think>`. `<think>` may be missing, because templates end with it.
    """
    thoughts, end, rest = text.partition("</think>")
    return rest if end else thoughts


def json_in(text: str) -> str:
    """Return the source of the one JSON value in `text`.

    With words around it, the value must begin at the first bracket, and no bracket may open after it: a piece of a
    longer answer that was cut off is never taken for the answer.

    Raises:
        ValueError: there is no value, or it is unclear which value is meant.
    """
    whole = text.strip()
    if "</think>" in whole and _fault(whole):
        whole = behind_thoughts(whole).strip()
    if not whole:
        raise ValueError("the answer is empty")
    fault = _fault(whole)
    if not fault:
        return whole
    if whole.startswith("<think>"):
        raise ValueError("the answer ends within its thoughts: </think> is missing")
    found = [block for block in fenced(whole) if not _fault(block)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"the answer holds {len(found)} blocks of JSON; exactly one was expected")
    return _among_words(whole, fault)


def _fault(text: str) -> str:
    """Say why a text is no JSON value; empty if it is one."""
    try:
        json.loads(text)
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return str(error)
    return ""


def _among_words(text: str, fault: str) -> str:
    opening = OPENING.search(text)
    if opening is not None:
        try:
            _, end = json.JSONDecoder().raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            end = None
        if end is not None and OPENING.search(text, end) is None:
            return text[opening.start() : end]
        if end is not None:
            raise ValueError("the answer holds more than one JSON value; exactly one was expected")
    raise ValueError(f"the answer is not JSON: {fault}")
