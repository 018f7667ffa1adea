"""What the specs of tests name: tools, and classes of a program."""

from __future__ import annotations

from understudy import tool


@tool
def web_search(query: str) -> str:
    """Search the web."""
    return query


@tool
def find(word: str) -> str:
    """Find a word."""
    return word


class ShopError(Exception):
    """An error of the program's own."""


class Verdict:
    """A type of the program's own."""
