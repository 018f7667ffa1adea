"""`run_values`: which run, tool call and actor the present code is part of, as values for log lines."""

from __future__ import annotations

from .ancestry import ActorLink, Link
from .scope import Origin, present_origin

VALUES = ("run_id", "agent", "conversation_id", "tool", "call_id", "actor")
"""The names of all values."""


def run_values() -> dict[str, str]:
    """Return the values of the present code; those that do not apply are left out, and outside of runs and actors all.

    A tool that was given up has the values of its run still.
    """
    origin = present_origin()
    return values_of(origin) if origin.chain else {}


def values_of(origin: Origin) -> dict[str, str]:
    """Return the values of code with this origin."""
    values: dict[str, str] = {}
    for link in origin.chain:  # outermost first: the innermost one counts
        if isinstance(link, ActorLink):
            values["actor"] = link.run_id
            continue
        values.update(run_id=link.run_id, agent=link.runner.id)
        values.pop("conversation_id", None)
        if link.conversation_id is not None:
            values["conversation_id"] = link.conversation_id
    if origin.call is not None:
        values.update(tool=origin.call.name, call_id=origin.call.id)
    return values


def values_of_run(link: Link) -> dict[str, object]:
    """Return the values of a run."""
    return dict(values_of(Origin((link,), None)))
