"""`read_artifact`: the tool by which a model reads the rest of a result that was cut."""

from __future__ import annotations

from understudy.errors import Retry
from understudy.vocabulary.context.session import ToolContext

from .decorator import tool

MAX_READ = 20_000  # Characters that `read_artifact` gives at once: a piece to think about, not the flood again.


@tool
def read_artifact(ctx: ToolContext, id: str, offset: int = 0, limit: int = 10_000) -> str:
    """Read a piece of a tool's result that was too long to be shown whole.

    Args:
        id: what the mark in the cut result calls it
        offset: the first character to read, from 0
        limit: how many characters to read, at most 20,000
    """
    artifact = ctx.artifacts.get(id)
    if artifact is None:
        kept = ", ".join(ctx.artifacts) or "none"
        raise Retry(f"there is no artifact {id!r}, or it is not kept any more; there are: {kept}")
    size = len(artifact.text)
    if not 0 <= offset < size or not 1 <= limit <= MAX_READ:
        raise Retry(
            f"offset must be from 0 to {size - 1:,} and limit from 1 to {MAX_READ:,}, got {offset:,} and {limit:,}"
        )
    end = min(size, offset + limit)
    return f"[characters {offset:,} to {end - 1:,} of {size:,}]\n{artifact.text[offset:end]}"
