"""`Citation`: a source of the model's words, in a form of no provider's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .json_types import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that the provider names for words of the model: a page, or a document of the request."""

    title: str = ""
    url: str = ""
    """Of a page; empty for a document."""
    quote: str = ""
    """Words of the source, if the provider tells them."""
    start: int | None = None
    """Where the supported words begin in the model's text, in characters; None if the provider means the whole part."""
    end: int | None = None
    """The position behind the last supported character."""
    raw: JsonObject = field(default_factory=dict[str, "JsonValue"], repr=False)
    """The provider's own form; sent back to that provider where it takes citations."""

    def unplaced(self) -> Citation:
        """Return the citation as one of its whole part."""
        return replace(self, start=None, end=None)

    def moved(self, begin: int, length: int) -> Citation:
        """Return the citation with its place in a text in which its part begins at `begin` and has this `length`."""
        start = 0 if self.start is None else self.start
        end = length if self.end is None else self.end
        return replace(self, start=begin + start, end=begin + end)
