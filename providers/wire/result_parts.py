"""Pictures and documents in the results of tools: an API gets the accepted parts unchanged, and the others as words."""

from __future__ import annotations

from collections.abc import Callable

from understudy.vocabulary.media import Media, described, text_of
from understudy.vocabulary.messages import ToolResult

NO_PLACE = "which cannot be shown to you here"


def split(result: ToolResult, takes: Callable[[Media], bool]) -> tuple[str, tuple[Media, ...]]:
    """Return the text of a result, with words for the parts that the API does not accept, and the accepted parts."""
    if not result.parts:
        return result.content, ()
    taken = tuple([part for part in result.parts if takes(part)])
    told = [_told(part) for part in result.parts if not takes(part)]
    return "\n".join([result.content, *told] if result.content else told), taken


def _told(part: Media) -> str:
    text = text_of(part)  # a text document becomes part of the text
    return f"[{described(part)}, {NO_PLACE}]" if text is None else f"[{described(part)}:]\n{text}"


def introduced(result: ToolResult) -> str:
    """Return the words before a result's parts, for an API that takes them outside the result."""
    return f"Returned by {result.name or 'the tool'}, call {result.call_id}:"
