"""The places of runs inside of a run, which its journal knows them by."""

from __future__ import annotations


def place_of_call(turn: int, call_id: str) -> str:
    """Return the place of the run that a call of a sub-agent is: no other call of the run around it has it."""
    return f"{turn}.{call_id.replace('%', '%25').replace('/', '%2F')}"


def place_of_child(position: int) -> str:
    """Return the place of the child of a group, or of a task of a workflow."""
    return str(position)
