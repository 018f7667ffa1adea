"""Messages, requests and turns: everything that goes to a model and comes back, in a form of no provider's.

A `Message` has parts. Data that a provider must get back (signatures, parts of unknown types) is kept
on the parts. A message has the `dialect` of its provider; another provider does not get the data that only the first
one understands. Values here are shared between threads and turns, and never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, TypeAlias

from .citations import Citation
from .fast_init import fast_init
from .json_types import JsonObject as JsonObject  # noqa: PLC0414 (shared: most take it from here)
from .json_types import JsonValue as JsonValue  # noqa: PLC0414
from .settings import Settings as Settings  # noqa: PLC0414
from .settings import ToolChoice as ToolChoice  # noqa: PLC0414

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


@fast_init
@dataclass(frozen=True, slots=True)
class TextPart:
    """Words."""

    text: str
    signature: str | None = None
    """Opaque signature of the provider, sent back unchanged; such parts are never merged."""
    kind: Literal["text"] = "text"
    citations: tuple[Citation, ...] = ()
    """The sources of the words; their places are places in this part."""


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture: `data` in base64 with its `media_type`, or a `url`."""

    data: str = ""
    media_type: str = "image/png"
    url: str = ""
    kind: Literal["image"] = "image"

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str | None = None) -> ImagePart:
        """Make a picture of the bytes of an image file: `ImagePart.from_bytes(Path("a.png").read_bytes())`.

        Args:
            data: the file's content.
            media_type: such as `image/png`; without it the first bytes tell, for PNG, JPEG, GIF and WebP.

        Raises:
            TypeError: `data` is no bytes.
            ValueError: it is empty, of a type that the bytes do not tell, or `media_type` is none of an image.
        """
        from .media_types import encoded, image_type

        return cls(encoded(data), image_type(data) if media_type is None else image_type(data, media_type))


@dataclass(frozen=True, slots=True)
class FilePart:
    """A document: `data` in base64 with its `media_type`, or a `url`."""

    data: str = ""
    media_type: str = "application/octet-stream"
    url: str = ""
    name: str = ""
    kind: Literal["file"] = "file"

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str, *, name: str = "") -> FilePart:
        """Make a document of a file's bytes.

        Args:
            data: the file's content.
            media_type: such as `application/pdf`.
            name: what the model is told that it is called.

        Raises:
            TypeError: `data` is no bytes.
            ValueError: it is empty, or `media_type` is none.
        """
        from .media_types import checked_type, encoded

        return cls(encoded(data), checked_type(media_type), name=name)


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """The model's reasoning before its answer; not part of the answer."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    """Encrypted reasoning that only the provider can read; sent back unchanged."""
    kind: Literal["reasoning"] = "reasoning"


@fast_init
@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model's request for a tool."""

    id: str
    """Unique within its turn; the result repeats it."""
    name: str
    arguments: JsonObject = field(default_factory=dict[str, "JsonValue"])
    """Decoded arguments, as the model gave them."""
    bad_arguments: str | None = None
    """The model's own text if it is no JSON object; then `arguments` is empty."""
    made_up_id: bool = False
    """The provider sent no usable id and the machine made this one."""
    signature: str | None = None
    kind: Literal["tool_call"] = "tool_call"


ToolErrorKind: TypeAlias = Literal[
    "",
    "raised",
    "retry",
    "too_large",
    "timed_out",
    "unavailable",
    "unknown_tool",
    "bad_json",
    "bad_arguments",
    "rejected",
    "blocked",
    "skipped",
    "not_run",
]


@fast_init
@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one answer to a tool call, errors included."""

    call_id: str
    content: str
    """The text that the model reads."""
    is_error: bool = False
    error_kind: ToolErrorKind = ""
    """The kind of the error; empty if the result is no error, or was made by hand without a kind."""
    name: str = ""
    """The tool's name; the machine fills it in."""
    parts: tuple[ImagePart | FilePart, ...] = ()
    """Pictures and documents that the model gets after `content`; described in words if its API refuses them."""
    kind: Literal["tool_result"] = "tool_result"


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """A provider's part without a neutral form; kept and sent back to that provider unchanged."""

    data: JsonObject
    kind: Literal["opaque"] = "opaque"


@dataclass(frozen=True, slots=True)
class MetadataPart:
    """What a provider tells about its turn beside what the model wrote, such as log probabilities; kept and never sent."""

    data: JsonObject
    """The provider's own fields, by their own names."""
    kind: Literal["metadata"] = "metadata"


Part: TypeAlias = TextPart | ImagePart | FilePart | ReasoningPart | ToolCall | ToolResult | OpaquePart | MetadataPart


@fast_init
@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a history: from a user or tools (`user`), or from the model (`assistant`)."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...] = field(metadata={"takes_list": True})
    """Given as a list or as a tuple."""
    dialect: str = ""
    """The API that the assistant's parts came from: `openai`, `openai-responses`, `anthropic`, `google`, or empty.

    Compatible servers have one each, such as `openai/mistral`, or `openai/127.0.0.1:8000` for one without a preset.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[Message], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic write any message as JSON, such as that of a memory of your own.

        Half a surrogate pair, which pydantic refuses in a text and damages in a key, is written as U+FFFD.
        """
        from .message_json import with_json_of_messages

        return with_json_of_messages(handler(source))

    @property
    def text(self) -> str:
        """All text parts, joined without a separator."""
        return join_text(self.parts)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(p for p in self.parts if type(p) is ToolCall)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(p for p in self.parts if type(p) is ToolResult)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources of `text`, with their places in it."""
        return citations_in(self.parts)

    @property
    def metadata(self) -> JsonObject:
        """What the provider told beside the model's words, by the provider's own names."""
        return metadata_in(self.parts)


def user_message(content: str | Sequence[Part]) -> Message:
    """Make a user's message from text or from parts."""
    parts: tuple[Part, ...] = (TextPart(content),) if isinstance(content, str) else tuple(content)
    return Message("user", parts)


def join_text(parts: Iterable[Part]) -> str:
    """Return the text parts of `parts` joined without a separator; reasoning is not text."""
    return "".join([p.text for p in parts if type(p) is TextPart])


def citations_in(parts: Iterable[Part]) -> tuple[Citation, ...]:
    """Return the citations of all text parts, with their places in the joined text.

    Of a place beyond the text, which a server may tell, nothing is known: the citation means its whole part.
    """
    texts = [part for part in parts if type(part) is TextPart]
    found: list[Citation] = []
    begin, whole = 0, sum([len(part.text) for part in texts])
    for part in texts:
        for each in part.citations:
            is_inside = begin + (each.end or 0) <= whole
            found.append((each if is_inside else each.unplaced()).moved(begin, len(part.text)))
        begin += len(part.text)
    return tuple(found)


def metadata_in(parts: Iterable[Part]) -> JsonObject:
    """Return the fields of all metadata parts; of two with one name the later one."""
    return {key: value for part in parts if type(part) is MetadataPart for key, value in part.data.items()}


@fast_init
@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of tokens. None means that the provider did not report the number.

    Neutral over providers: `input_tokens` is the whole prompt, cached part included; `output_tokens` is all that the
    model produced, reasoning included.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the input: read from a prompt cache."""
    cache_write_tokens: int | None = None
    """Of the input: written to a prompt cache."""
    reasoning_tokens: int | None = None
    """Of the output: spent on reasoning."""
    raw: JsonObject = field(default_factory=dict[str, "JsonValue"], compare=False)
    """The provider's own counts of one model call; empty on a sum."""
    estimated: bool = False
    """Whether some numbers are estimates from the length of the text, made because a budget needs them."""
    cache_write_1h_tokens: int | None = None
    """Of `cache_write_tokens`: written to be kept for an hour, which costs more."""

    @property
    def total_tokens(self) -> int | None:
        """Input and output together, or None when neither was reported."""
        return _plus(self.input_tokens, self.output_tokens)

    def __add__(self, other: Usage) -> Usage:
        pairs = zip(_counts_of(self), _counts_of(other), strict=True)
        # Not by `_plus`: six calls take three times as long.
        given, said, cached, written, reasoned, hour = [b if a is None else a if b is None else a + b for a, b in pairs]
        estimated = self.estimated or other.estimated
        return Usage(given, said, cached, written, reasoned, estimated=estimated, cache_write_1h_tokens=hour)


COUNTS = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cache_write_1h_tokens",
)
"""The fields of `Usage` that are counts."""

_counts_of: Callable[[Usage], tuple[int | None, ...]] = attrgetter(*COUNTS)


def _plus(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


NO_USAGE = Usage()
"""The usage without any count: that of a new run, and of turns made by hand."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: JsonObject
    """JSON Schema of the arguments, always of type `object`."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """The form that the answer of a run must have."""

    name: str
    """Letters, digits, `_` and `-`, at most 64."""
    schema: JsonObject
    """JSON Schema of the answer, always of type `object`."""
    tool: str = ""
    """The tool with which the model gives its answer; empty if the provider enforces the schema."""


@fast_init
@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything one model call needs."""

    messages: Sequence[Message]
    """The history so far, oldest first. The last one is a user's, or the model's own if its turn was `paused`."""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    settings: Settings = field(default_factory=Settings)
    turn: int = 1
    """Number of this model call in the run, from 1."""
    output: OutputSpec | None = None
    """The type of the answer; None for any text."""

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results that are new in this request, in call order."""
        return self.messages[-1].tool_results if self.messages else ()

    @property
    def text(self) -> str:
        """The text of the last message."""
        return self.messages[-1].text if self.messages else ""


FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "blocked", "paused", "other"]


@fast_init
@dataclass(frozen=True, slots=True)
class ModelTurn:
    """The model's answer to one call."""

    parts: tuple[Part, ...] = field(metadata={"takes_list": True})
    """Given as a list or as a tuple."""
    usage: Usage = NO_USAGE
    finish_reason: FinishReason = "stop"
    """Why the turn ended, in neutral words. Tools run if there are calls and the reason is not `blocked`.

    Of a turn that was cut off (`length`, or such a `raw_finish_reason`) the last call does not run, nor one without arguments.

    After a turn that is `paused` the model is asked again, to go on with it: the turn is the last message of that request.
    The text of a turn that ended for an unknown reason (`other`) is no answer, and ends the run with `BadReply`.
    """
    raw_finish_reason: str | None = None
    """The provider's own word; `blocked:REASON` where Google refused the prompt."""
    refusal: str = ""
    """The model's refusal, if the provider reports refusals separately."""
    dialect: str = ""
    model: str = ""
    """The model that answered, as it calls itself."""
    response_id: str = ""
    """The provider's id of the answer, from its body."""
    request_id: str = ""
    """The provider's id of the request, from the headers of the answer; its support asks for it."""

    if TYPE_CHECKING:

        def __init__(
            self,
            parts: Sequence[Part],
            usage: Usage = NO_USAGE,
            finish_reason: FinishReason = "stop",
            raw_finish_reason: str | None = None,
            refusal: str = "",
            dialect: str = "",
            model: str = "",
            response_id: str = "",
            request_id: str = "",
        ) -> None: ...

    @property
    def text(self) -> str:
        """All text parts, joined without a separator."""
        return join_text(self.parts)

    @property
    def thinking(self) -> str:
        """All reasoning, joined without a separator."""
        return "".join([p.text for p in self.parts if type(p) is ReasoningPart])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(p for p in self.parts if type(p) is ToolCall)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources of `text`, with their places in it."""
        return citations_in(self.parts)

    @property
    def metadata(self) -> JsonObject:
        """What the provider told beside the model's words, by the provider's own names."""
        return metadata_in(self.parts)

    def __add__(self, other: ModelTurn) -> ModelTurn:
        """Join two turns into one: `says("Let me look. ") + calls("on_shelf", sku="A-113")`."""
        reason = "tool_calls" if self.tool_calls or other.tool_calls else other.finish_reason
        return replace(
            other,
            parts=self.parts + other.parts,
            usage=self.usage + other.usage,
            finish_reason=reason,
            raw_finish_reason=reason,
        )


def says(text: str, *, usage: Usage | None = None) -> ModelTurn:
    """Make a model turn that is text; for `FunctionModel`, `ScriptedModel` and machines driven by hand."""
    return ModelTurn((TextPart(text),), usage or NO_USAGE, "stop", "stop")


def calls(name: str, /, **arguments: JsonValue) -> ModelTurn:
    """Make a model turn that calls the tool `name`; add turns with `+` to call several at once.

    The call has no id: the machine gives it one.
    """
    return ModelTurn((ToolCall("", name, arguments),), NO_USAGE, "tool_calls", "tool_calls")
