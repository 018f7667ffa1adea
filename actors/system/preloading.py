"""Loading ahead of the first run what runs load when they first need it."""

from __future__ import annotations

from importlib import import_module

from understudy.vocabulary.tools.definition import Tool

LATER = (
    "understudy.vocabulary.answers.output_schemas",
    "understudy.providers",
    "pydantic.dataclasses",
    "httpx",
    "httpcore",
)
"""What a run loads that has typed answers, or a model behind an API. The runtime itself is loaded with this module."""


def preload() -> None:
    """Load the code that a first run would load: the runtime, pydantic, httpx.

    Blocks for up to a second at the first call, and does nothing at later ones. Without it the first run of a process loads
    what it needs on the thread of its caller, which takes some tenths of a second, and a deadline that is shorter than
    that is answered late. Call it as the process starts, in a server before it forks: no thread is started, nothing
    is opened, and no default system is made.
    """
    for name in LATER:
        import_module(name)
    _ = Tool(_probe, name="probe").spec  # pydantic loads more of itself at the first schema


def _probe(number: int = 0) -> int:
    """Stand in for a tool; only its schema is made."""
    return number
