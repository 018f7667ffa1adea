"""Metadata of Google's candidates: sources, log probabilities, and why a candidate was blocked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from understudy.providers.wire.json_values import beside, count, inner, is_array, is_object, objects, text
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.messages import JsonObject, JsonValue, MetadataPart

ALWAYS = ("groundingMetadata", "citationMetadata", "urlContextMetadata", "logprobsResult")
WITH_LOGPROBS = ("avgLogprobs",)  # Vertex AI sends the average unasked in every answer.
IF_BLOCKED = ("finishMessage", "safetyRatings")


class MetadataCollector:
    """Collects the metadata of one candidate, from a whole answer or from the chunks of a stream."""

    def __init__(self) -> None:
        self._fields: dict[str, JsonValue] = {}
        self._feedback: JsonObject = {}

    def take_feedback(self, body: JsonObject) -> None:
        """Take the feedback about the prompt from an answer or a chunk."""
        self._feedback = inner(body, "promptFeedback") or self._feedback

    def take(self, candidate: JsonObject) -> None:
        """Take the metadata of a candidate, or of its next chunk.

        Log probabilities, and the sources of recited words, are added to those of earlier chunks; all other fields replace
        earlier ones.
        """
        for name in (*ALWAYS, *WITH_LOGPROBS, *IF_BLOCKED):
            value = candidate.get(name)
            if not value:
                continue
            before = self._fields.get(name)
            grows = name in ("logprobsResult", "citationMetadata") and is_object(before) and is_object(value)
            self._fields[name] = _joined(before, value) if grows else value

    def parts(self, *, blocked: bool) -> tuple[MetadataPart, ...]:
        """Return the part with all of it; none for nothing."""
        names = [
            *ALWAYS,
            *(WITH_LOGPROBS if "logprobsResult" in self._fields else ()),
            *(IF_BLOCKED if blocked else ()),
        ]
        told = {name: self._fields[name] for name in names if name in self._fields}
        if blocked and self._feedback:
            told["promptFeedback"] = self._feedback
        data = beside(told)
        return (MetadataPart(data),) if data else ()

    def citations(self, texts: Sequence[str]) -> Mapping[int, tuple[Citation, ...]]:
        """Return the citations by the position of their text among `texts`, with their places in it."""
        found: dict[int, list[Citation]] = {}
        whole = "".join(texts)
        for citation in (*_of_grounding(inner(self._fields, "groundingMetadata"), whole), *self._recited(whole)):
            position, placed = _in_part(citation, texts)
            found.setdefault(position, []).append(placed)
        return {position: tuple(each) for position, each in found.items()} if texts else {}

    def _recited(self, whole: str) -> Iterator[Citation]:
        """Gemini API, CitationMetadata, and Vertex AI, Citation: they differ in the name of the list."""
        metadata = inner(self._fields, "citationMetadata")
        for source in [*objects(metadata, "citationSources"), *objects(metadata, "citations")]:
            start, end = _place(source, whole)
            yield Citation(text(source, "title"), text(source, "uri"), "", start, end, beside(source))


def _joined(before: JsonValue, more: JsonValue) -> JsonValue:
    made: dict[str, JsonValue] = dict(before) if is_object(before) else {}
    added: JsonObject = more if is_object(more) else {}
    for name, value in added.items():
        old = made.get(name)
        made[name] = [*old, *value] if is_array(old) and is_array(value) else value
    return made


def _of_grounding(metadata: JsonObject, whole: str) -> Iterator[Citation]:
    """Gemini API, GroundingMetadata: each segment of the answer names its sources by their positions."""
    chunks = objects(metadata, "groundingChunks")
    for support in objects(metadata, "groundingSupports"):
        start, end = _place(inner(support, "segment"), whole)
        indices = support.get("groundingChunkIndices")
        for index in indices if is_array(indices) else ():
            if isinstance(index, int) and 0 <= index < len(chunks):
                chunk = chunks[index]
                source = inner(chunk, "web") or inner(chunk, "retrievedContext") or inner(chunk, "maps")
                words = text(source, "text")
                yield Citation(text(source, "title"), text(source, "uri"), words, start, end, beside(chunk))


def _place(segment: JsonObject, whole: str) -> tuple[int | None, int | None]:
    """Return the place of a segment in characters. Gemini API, Segment: the API counts bytes of UTF-8."""
    data, words = whole.encode("utf-8", "surrogatepass"), text(segment, "text")
    start, end = count(segment, "startIndex") or 0, count(segment, "endIndex")
    if end is not None and start < end <= len(data):
        found = data[start:end].decode("utf-8", "ignore")
        if not words or found == words:
            begin = len(data[:start].decode("utf-8", "ignore"))
            return begin, begin + len(found)
    at = whole.find(words) if words else -1  # the places in some answers do not fit the text
    return (None, None) if at < 0 else (at, at + len(words))


def _in_part(citation: Citation, texts: Sequence[str]) -> tuple[int, Citation]:
    """Return the text in which a citation begins, and the citation with its place there; the first text if the place is unknown."""
    begin = 0
    for position, words in enumerate(texts):
        if citation.start is not None and citation.end is not None and citation.start < begin + len(words):
            end = min(citation.end, begin + len(words))
            place = citation.start - begin, end - begin
            return position, Citation(citation.title, citation.url, citation.quote, *place, citation.raw)
        begin += len(words)
    return 0, citation
