"""Options that tools and agents share, and their checks. `where` begins the messages."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

OnToolError: TypeAlias = Literal["result", "raise"]
"""A call that fails is an error result for the model; it ends the run."""
ON_TOOL_ERROR: tuple[str, ...] = get_args(OnToolError)

DEFAULT_MAX_RESULT = 50_000
"""Characters, some 12,000 tokens: a model that reads 200,000 has room for a dozen such results."""
DEFAULT_MAX_PARALLEL_CALLS = 64
"""Calls of one turn that run at once: enough for tools that wait for a network, and few enough for threads to be cheap."""
MAX_RESULT = 8 * 2**20
"""Characters, at most 32 MiB in UTF-8: the most that is sent between processes; larger data belongs in a file."""


def checked_on_error(where: str, given: OnToolError) -> OnToolError:
    """Return an `on_error` option.

    Raises:
        ValueError: it is neither word.
    """
    if given not in ON_TOOL_ERROR:
        raise ValueError(f"{where} must be 'result' or 'raise', got {given!r}")
    return given


def checked_parallel(where: str, given: int | None) -> int | None:
    """Return how many calls may run at once.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is below 1.
    """
    return None if given is None else _whole_number(where, given)


def checked_max_result(where: str, given: int | None) -> int | None:
    """Return how many characters of a result the model gets.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is below 1, or more than any result may have.
    """
    if given is not None and _whole_number(where, given) > MAX_RESULT:
        raise ValueError(f"{where} must be at most {MAX_RESULT:,}, got {given:,}")
    return given


def _whole_number(where: str, given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{where} must be a whole number or None, got {given!r}")
    if given < 1:
        raise ValueError(f"{where} must be at least 1, got {given}")
    return given
