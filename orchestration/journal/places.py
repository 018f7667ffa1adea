"""The names that calls, and the runs inside of a run, have in its journal."""

from __future__ import annotations

from hashlib import sha256

LONGEST_NAME = 200
"""Bytes of an id that stands in a name as it is; PostgreSQL keeps some 2,600 bytes of path and name together."""
_DIGEST = "sha256:"


def name_of(id: str) -> str:
    """Return the name of an id that a model chose: the id itself, or a digest if it is long or not every database can keep it.

    The names of two ids are never equal.
    """
    if id.isprintable() and len(id.encode()) <= LONGEST_NAME and not id.startswith(_DIGEST):
        return id
    return _DIGEST + sha256(id.encode(errors="surrogatepass")).hexdigest()


def place_of_call(turn: int, call_id: str) -> str:
    """Return the place of the run that a call of a sub-agent is: no other call of the run around it has it."""
    return f"{turn}.{name_of(call_id).replace('%', '%25').replace('/', '%2F')}"


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
