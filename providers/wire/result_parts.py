"""Pictures and documents in the results of tools: what an API takes goes as it is, the rest is said in words."""

from __future__ import annotations

from collections.abc import Callable

from understudy.vocabulary.media import Media, described, text_of
from understudy.vocabulary.messages import ToolResult

NO_PLACE = "which cannot be shown to you here"


def split(result: ToolResult, takes: Callable[[Media], bool]) -> tuple[str, tuple[Media, ...]]:
    """Return the text of a result, what the API does not take included in words, and the parts that it takes."""
    if not result.parts:
        return result.content, ()
    taken = tuple([part for part in result.parts if takes(part)])
    told = [_told(part) for part in result.parts if not takes(part)]
    return "\n".join([result.content, *told] if result.content else told), taken


def _told(part: Media) -> str:
    text = text_of(part)  # a document that is text needs no place of its own
    return f"[{described(part)}, {NO_PLACE}]" if text is None else f"[{described(part)}:]\n{text}"


def introduced(result: ToolResult) -> str:
    """Return what stands before the parts of a result, where the API has no place for them in the result itself."""
    return f"Returned by {result.name or 'the tool'}, call {result.call_id}:"
