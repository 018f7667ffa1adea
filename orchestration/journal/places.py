"""The places of runs inside of a run, which its journal knows them by."""

from __future__ import annotations


def place_of_call(turn: int, call_id: str) -> str:
    """Return the place of the run that a call of a sub-agent is: no other call of the run around it has it."""
    return f"{turn}.{call_id.replace('%', '%25').replace('/', '%2F')}"


def key_of_call(run_id: str, turn: int, call_id: str) -> str:
    """Return what names a call for ever, in all processes that go on with its run: the `call_key` that its tool sees.

    Args:
        run_id: the run whose agent makes the call.
        turn: the turn of the model that asked for it.
        call_id: the id of the call, which another turn may have too.
    """
    return f"{run_id}/{place_of_call(turn, call_id)}"


def place_of_child(position: int) -> str:
    """Return the place of the child of a group, or of a task of a workflow."""
    return str(position)
