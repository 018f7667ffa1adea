"""Reads the answers of OpenAI's Responses API into neutral turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.providers.openai.annotations import MetadataCollector, annotations_in, citations_of, place_in
from understudy.providers.openai.stream_calls import StreamedCalls, beyond
from understudy.providers.wire.endings import neutral
from understudy.providers.wire.json_values import (
    WrongShape,
    as_object,
    as_text,
    beside,
    count,
    inner,
    is_array,
    is_object,
    items,
    kept,
    text,
    text_in,
    type_in,
)
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.json_reading import arguments_text
from understudy.vocabulary.messages import (
    FinishReason,
    JsonObject,
    ModelTurn,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    Usage,
)

from .input_items import DIALECT

REASONS: dict[str, FinishReason] = {
    "completed": "stop",
    "max_output_tokens": "length",
    "content_filter": "blocked",
}
"""OpenAI API, Responses: `status`, or the reason of one that is `incomplete`."""
FOR_THE_CLIENT = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "local_shell_call",
        "mcp_approval_request",
        "shell_call",
    }
)
"""Items that wait for an answer of the client, and have no neutral form. No agent can answer them."""
CALL = frozenset(("type", "id", "call_id", "name", "arguments", "status"))
"""Fields of a call. Its others go back to a compatible server as they came; OpenAI itself refuses fields that it does not know."""
FILES = ("file_citation", "container_file_citation")
BETWEEN = "\n\n"  # The paragraphs of a summary come as texts of their own.


def decode(body: JsonObject) -> ModelTurn:
    """Return the turn in a response body.

    Raises:
        WrongShape: the body is not a response.
    """
    if not is_array(body.get("output")) and text(body, "status") in ("", "completed"):
        raise WrongShape(f"output must be an array, got a body with {', '.join(sorted(body)[:8]) or 'nothing'}")
    output = [as_object(item, "output[]") for item in items(body, "output", "output")]
    metadata = MetadataCollector()
    for item in output:
        collect(metadata, item)
    calls = _calls(output)
    said = [part for position, item in enumerate(output) for part in _parts(item, calls.get(position))]
    parts = (*said, *metadata.parts())
    refused = "".join([text_in(block, "refusal", "refusal.refusal") for item in output for block in blocks_of(item)])
    raw = raw_reason(body, output)
    return ModelTurn(
        parts,
        usage_in(body),
        neutral(raw, REASONS, parts),
        raw or None,
        refusal=refused,
        dialect=DIALECT,
        model=text(body, "model"),
        response_id=text(body, "id"),
    )


def _calls(output: Sequence[JsonObject]) -> Mapping[int, ToolCall]:
    """Return the calls by the positions of their items; a call that came twice stands where it came first."""
    calls = StreamedCalls()
    for position, item in enumerate(output):
        if item.get("type") == "function_call":
            given, name = arguments_text(item.get("arguments")), as_text(item.get("name"), "function_call.name")
            calls.add(position, given, call_id(item), name, beyond(item, CALL))
    return calls.whole()


def _parts(item: JsonObject, call: ToolCall | None) -> list[Part]:
    match type_in(item, "output[].type"):
        case "message":
            texts = [block for block in blocks_of(item) if block.get("type") == "output_text"]
            phase = text(item, "phase") or None
            return [TextPart(words_of(block), phase, citations=sources_in(block)) for block in texts]
        case "function_call":
            return [] if call is None else [call]
        case "reasoning":
            thoughts = [ReasoningPart(words) for words in thoughts_in(item) if words]
            return [*thoughts, OpaquePart(kept(item, "output[]"))]
        case _:
            return [OpaquePart(kept(item, "output[]"))]


def blocks_of(item: JsonObject) -> list[JsonObject]:
    """Return the contents of a message; none of another item."""
    if item.get("type") != "message":
        return []
    return [as_object(block, "message.content[]") for block in items(item, "content", "message.content")]


def words_of(block: JsonObject) -> str:
    """Return the words of a content of a message that is a text."""
    return text_in(block, "text", "output_text.text")


def sources_in(block: JsonObject) -> tuple[Citation, ...]:
    """Return the pages and files that a text names (OpenAI API, Web search and File search, Citations)."""
    annotations = annotations_in(block)
    files = [each for each in annotations if each.get("type") in FILES]
    return (*citations_of(annotations), *[_file(each) for each in files])


def _file(given: JsonObject) -> Citation:
    start, end = place_in(given)
    return Citation(title=text(given, "filename"), start=start, end=end, raw=beside(given))


def collect(metadata: MetadataCollector, item: JsonObject) -> None:
    """Take the log probabilities of a message, in the form that chat completions have."""
    for block in blocks_of(item):
        metadata.take({"logprobs": {"content": block.get("logprobs")}})


def thoughts_in(item: JsonObject) -> tuple[str, str]:
    """Return the summary of a reasoning item, and its text, which only open models show."""
    summary, content = item.get("summary"), item.get("content")
    return _joined(summary, BETWEEN), _joined(content, "")


def _joined(blocks: object, between: str) -> str:
    if not is_array(blocks):
        return ""
    return between.join([text(block, "text") for block in blocks if is_object(block) and text(block, "text")])


def call_id(item: JsonObject) -> str:
    """Return the id that the result of a call repeats."""
    return text(item, "call_id") or text(item, "id")


def raw_reason(body: JsonObject, output: Sequence[JsonObject]) -> str:
    """Return the API's own word for the end of a response.

    That is its status, the reason why it is incomplete, or the type of an item that no agent can answer. It is also
    `incomplete` if a call is marked so, except the last call of an incomplete response, in which it was cut off.
    """
    answered = {(text(item, "type"), call_id(item)) for item in output}
    for item in output:
        kind = text(item, "type")
        if kind in FOR_THE_CLIENT and (f"{kind}_output", call_id(item)) not in answered:
            return kind
    status = text(body, "status")
    calls = [item for item in output if item.get("type") == "function_call"]
    if any(item.get("status") == "incomplete" for item in (calls[:-1] if status == "incomplete" else calls)):
        return "incomplete"
    if status != "incomplete":
        return status
    return text(inner(body, "incomplete_details"), "reason") or status


def usage_in(body: JsonObject) -> Usage:
    """Return the tokens that a response counts."""
    usage = inner(body, "usage")
    read = inner(usage, "input_tokens_details")
    return Usage(
        input_tokens=count(usage, "input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cached_tokens=count(read, "cached_tokens"),
        cache_write_tokens=count(read, "cache_write_tokens"),
        reasoning_tokens=count(inner(usage, "output_tokens_details"), "reasoning_tokens"),
        raw=kept(usage, "usage"),
    )
