"""Metadata of messages from OpenAI and compatible servers: annotations, log probabilities, filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.providers.wire.json_values import beside, count, inner, is_array, is_object, objects, text
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.messages import JsonObject, JsonValue, MetadataPart

PAGE = "url_citation"
FILTERS = "content_filter_results"


def annotations_in(message: JsonObject) -> list[JsonObject]:
    """Return the annotations of a message, or of a piece of one."""
    return objects(message, "annotations")


def pages_in(body: JsonObject) -> list[JsonObject]:
    """Return the pages that a whole answer names, in the form of annotations.

    Perplexity API, Chat completions: `search_results`, and their addresses alone in `citations`; xAI API, Search: `citations`.
    The marks [1], [2] … in the text count them from 1.
    """
    urls = body.get("citations")
    alone: list[JsonObject] = [{"url": each} for each in (urls if is_array(urls) else ()) if isinstance(each, str)]
    found = [each for each in objects(body, "search_results") if text(each, "url")]
    return [{**each, "type": PAGE} for each in found or alone]


def citations_of(annotations: Iterable[JsonObject]) -> tuple[Citation, ...]:
    """Return the pages that a message names (OpenAI API, Web search, Citations)."""
    return tuple(_citation(each) for each in annotations if each.get("type") == PAGE)


def _citation(given: JsonObject) -> Citation:
    page = inner(given, PAGE) or given
    start, end = place_in(page)
    return Citation(
        title=text(page, "title"),
        url=text(page, "url"),
        quote=text(page, "content") or text(page, "snippet"),  # OpenRouter API, Web search; Perplexity
        start=start,
        end=end,
        raw=beside(given),
    )


def place_in(annotation: JsonObject) -> tuple[int | None, int | None]:
    """Return where the words of an annotation begin and end in the text; (None, None) if it does not say."""
    start, end = count(annotation, "start_index"), count(annotation, "end_index")
    if start is None or end is None or end <= start:  # OpenRouter says 0 and 0 where it does not know the place
        return None, None
    return start, end


def others_in(annotations: Iterable[JsonObject]) -> dict[str, JsonValue]:
    """Return the field with the annotations that are no citations.

    OpenRouter API, PDF inputs: `file` annotations go back as they came, so that a document is not read again.
    """
    found: list[JsonValue] = [each for each in annotations if each.get("type") != PAGE and beside(each)]
    return {"annotations": found} if found else {}


class MetadataCollector:
    """Collects the metadata of one choice, from a whole answer or from the chunks of a stream."""

    def __init__(self) -> None:
        self._logprobs: dict[str, list[JsonValue]] = {}
        self._filters: dict[str, JsonValue] = {}

    def take(self, choice: JsonObject) -> None:
        """Take the metadata of a choice, or of its next chunk.

        OpenAI API, Chat completions: `logprobs` has a list for the text and one for the refusal; Azure OpenAI, Content
        filtering: each filter says whether it has `filtered`.
        """
        for name, tokens in inner(choice, "logprobs").items():
            if is_array(tokens) and tokens:
                self._logprobs.setdefault(name, []).extend(tokens)
        filters = inner(choice, FILTERS)
        self._filters.update({name: each for name, each in filters.items() if is_object(each) and each.get("filtered")})

    def parts(self) -> tuple[MetadataPart, ...]:
        """Return the part with all of it; none for nothing."""
        told: Mapping[str, JsonValue] = {"logprobs": self._logprobs, FILTERS: self._filters}
        data = beside({name: value for name, value in told.items() if value})
        return (MetadataPart(data),) if data else ()
