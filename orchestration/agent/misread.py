"""What is wrong with a saved text, without quoting it: it holds what users said."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


def first_problem(error: ValidationError) -> str:
    """Return where the first problem is and what it is.

    Raise what says so outside of the `except` block: also as a context, pydantic's error would hold what was read.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(step) for step in first["loc"]) or "the text"
    return f"{where}: {first['msg']}"
