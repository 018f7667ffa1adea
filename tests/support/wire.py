"""Recorded exchanges of model APIs: where they are, what they ask in neutral words, and what we must make of them.

The recordings are not part of the project. `UNDERSTUDY_WIRE` names their folder; without it, it is looked for beside the
checkout.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast
from urllib.request import urlopen

from understudy.providers.wire.json_values import is_array, is_object
from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    JsonObject,
    JsonValue,
    Message,
    ModelRequest,
    ModelTurn,
    OpaquePart,
    Part,
    ReasoningPart,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
)

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("UNDERSTUDY_WIRE") or ROOT.parent / "shared" / "wire")
MISSING = f"no recordings at {FOLDER}: set UNDERSTUDY_WIRE to the folder that holds them"
MADE_UP = "made-up-"
APIS = ("chat_completions", "responses", "messages", "generateContent")


class Server(Protocol):
    """What is used of the replay server."""

    server_address: tuple[str, int]

    def serve_forever(self) -> None: ...

    def shutdown(self) -> None: ...

    def server_close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded exchange."""

    name: str
    provider: str
    path: str
    request: JsonObject
    status: int
    expected: JsonObject
    """What the provider's own library made of the response."""
    request_id: str
    """The provider's id of the request, from the recorded headers; empty if there is none."""

    @property
    def model(self) -> str:
        """The model that was asked."""
        named = self.request.get("model")
        return named if isinstance(named, str) else self.path.split("/models/")[1].split(":")[0]

    @property
    def api(self) -> str:
        """The provider, or `openai-responses`, which is the other API of one."""
        return "openai-responses" if self.path.endswith("/responses") else self.provider

    @property
    def wants(self) -> ModelRequest:
        """What was asked, in neutral words, without what the client asks for by itself."""
        asked = reader_of(self.api)(self.request)
        extra = {key: value for key, value in asked.settings.extra.items() if key not in ("include", "store")}
        return replace(asked, settings=replace(asked.settings, extra=extra))


def reader_of(api: str) -> Callable[[JsonObject], ModelRequest]:
    """Return the reader of the requests of an API."""
    known = {
        "anthropic": from_anthropic,
        "gemini": from_google,
        "vertex": from_google,
        "openai-responses": from_responses,
    }
    return known.get(api, from_openai)


def cases(folder: Path = FOLDER) -> list[Case]:
    """Return the exchanges that `complete` can have: not streamed, and of an API that we speak; none without a folder."""
    expected = {line["case"]: line for line in _lines(folder / "expected.jsonl")}
    found: list[Case] = []
    for path in sorted(folder.glob("*.json")):
        doc = json.loads(path.read_text(encoding="utf-8"))
        if not doc["stream"] and doc["api"] in APIS:
            name = path.name.removesuffix(".json")
            request, status = doc["request"], doc["response"]["status"]
            asked = (doc["provider"], request["path"], request["body"])
            found.append(Case(name, *asked, status, expected[name], recorded_id(doc["response"]["headers"])))
    return found


def recorded_id(headers: Mapping[str, str]) -> str:
    """Return the id of a request: OpenAI and Azure write `x-request-id`, Anthropic `request-id`."""
    return headers.get("x-request-id") or headers.get("request-id") or ""


def _lines(path: Path) -> list[dict[str, JsonValue]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@contextmanager
def replaying(folder: Path = FOLDER) -> Generator[str]:
    """Serve the recordings on a free port of this host until the block ends; gives the address."""
    source = folder.parent / "tools" / "replay_server.py"
    spec = importlib.util.spec_from_file_location("replay_server", source)
    assert spec is not None and spec.loader is not None, source
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    make_server = cast(Callable[[list[str]], Server], module.make_server)
    server = make_server([str(folder)])
    thread = threading.Thread(target=server.serve_forever, name="replay-server", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def log_of(address: str) -> list[dict[str, JsonValue]]:
    """Return the requests that the replay server got so far."""
    with urlopen(f"{address}/_log", timeout=10) as answer:
        return cast(list[dict[str, JsonValue]], json.loads(answer.read()))


# What follows reads recorded requests; the projects that recorded them write one thing in several ways.


def obj(value: JsonValue) -> Mapping[str, JsonValue]:
    """Return a JSON object, or an empty one for anything else."""
    return value if is_object(value) else {}


def objs(value: JsonValue) -> list[Mapping[str, JsonValue]]:
    """Return the objects of a JSON array; a string stands for one part of text."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [obj(v) for v in value] if is_array(value) else []


def word(value: JsonValue) -> str:
    """Return a JSON string, or an empty one for anything else."""
    return value if isinstance(value, str) else ""


def from_openai(body: JsonObject) -> ModelRequest:
    """Read a chat completions request."""
    messages: list[Message] = []
    system = ""
    for entry in objs(body["messages"]):
        content = objs(entry.get("content"))
        match entry["role"]:
            case "system":
                system = "".join(word(p["text"]) for p in content)
            case "tool":
                result = ToolResult(word(entry["tool_call_id"]), word(entry["content"]))
                messages.append(Message("user", (result,)))
            case "assistant":
                # Beside calls null and an empty text are the same: the API takes both.
                texts = tuple(TextPart(word(p["text"])) for p in content if p["text"])
                messages.append(Message("assistant", (*texts, *_openai_calls(entry)), "openai"))
            case _:
                messages.append(Message("user", tuple(_openai_part(p) for p in content)))
    tools = [obj(t["function"]) for t in objs(body.get("tools"))]
    specs = tuple(ToolSpec(word(t["name"]), word(t.get("description")), obj(t.get("parameters"))) for t in tools)
    rest = _rest(body, "messages", "model", "tools", "tool_choice", "stream")
    return ModelRequest(messages, system, specs, Settings(extra=rest))


def _openai_calls(entry: JsonObject) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for call in objs(entry.get("tool_calls")):
        function = obj(call["function"])
        arguments = json.loads(word(function["arguments"]))
        calls.append(ToolCall(word(call["id"]), word(function["name"]), arguments))
    return calls


def _openai_part(part: JsonObject) -> Part:
    if part["type"] == "text":
        return TextPart(word(part["text"]))
    url = word(obj(part["image_url"])["url"])
    if not url.startswith("data:"):
        return ImagePart(url=url)
    head, _, data = url.partition(",")
    return ImagePart(data, head.removeprefix("data:").removesuffix(";base64"))


def from_responses(body: JsonObject) -> ModelRequest:
    """Read a Responses request. Items of the model in a row are one message, results in a row another."""
    messages: list[Message] = []
    for item in objs(body["input"]):
        parts = _responses_parts(item)
        role = "user" if item.get("role") == "user" or item.get("type") == "function_call_output" else "assistant"
        dialect = "openai-responses" if role == "assistant" else ""
        if messages and messages[-1].role == role and item.get("role") != "user":
            messages[-1] = replace(messages[-1], parts=(*messages[-1].parts, *parts))
        else:
            messages.append(Message("user" if role == "user" else "assistant", parts, dialect))
    functions = [tool for tool in objs(body.get("tools")) if tool["type"] == "function"]
    specs = tuple(ToolSpec(word(t["name"]), word(t.get("description")), obj(t["parameters"])) for t in functions)
    rest = _rest(body, "input", "model", "tools", "tool_choice", "stream", "instructions")
    hosted: list[JsonValue] = [tool for tool in objs(body.get("tools")) if tool["type"] != "function"]
    extra = {**rest, **({"tools": hosted} if hosted else {})}
    return ModelRequest(messages, word(body.get("instructions")), specs, Settings(extra=extra))


def _responses_parts(item: JsonObject) -> tuple[Part, ...]:
    match item.get("type", "message"):
        case "message":
            return tuple(TextPart(word(part["text"])) for part in objs(item["content"]))
        case "function_call":
            arguments = json.loads(word(item["arguments"]))
            return (ToolCall(word(item["call_id"]), word(item["name"]), arguments),)
        case "function_call_output":
            return (ToolResult(word(item["call_id"]), word(item["output"])),)
        case _:
            return (OpaquePart(item),)


def from_anthropic(body: JsonObject) -> ModelRequest:
    """Read a Messages request."""
    messages: list[Message] = []
    for entry in objs(body["messages"]):
        parts = tuple(_anthropic_part(p) for p in objs(entry["content"]))
        messages.append(
            Message("assistant", parts, "anthropic") if entry["role"] == "assistant" else Message("user", parts)
        )
    tools = tuple(
        ToolSpec(word(t["name"]), word(t.get("description")), obj(t["input_schema"])) for t in objs(body.get("tools"))
    )
    budget = obj(body.get("thinking")).get("budget_tokens")
    settings = Settings(
        max_tokens=cast(int, body["max_tokens"]),
        thinking_tokens=cast("int | None", budget),
        extra=_rest(body, "messages", "model", "tools", "tool_choice", "stream", "system", "thinking", "max_tokens"),
    )
    return ModelRequest(messages, word(body.get("system")), tools, settings)


def _anthropic_part(part: JsonObject) -> Part:
    match part["type"]:
        case "text":
            return TextPart(word(part["text"]))
        case "thinking":
            return ReasoningPart(word(part["thinking"]), word(part["signature"]))
        case "tool_use":
            return ToolCall(word(part["id"]), word(part["name"]), obj(part["input"]))
        case "tool_result":
            content = "".join(word(p["text"]) for p in objs(part["content"]))
            return ToolResult(word(part["tool_use_id"]), content, bool(part.get("is_error")))
        case _:
            return OpaquePart(part)


def from_google(body: JsonObject) -> ModelRequest:
    """Read a generateContent request. Ids that are not there are made up, as a run would."""
    messages: list[Message] = []
    waiting: list[ToolCall] = []
    for number, entry in enumerate(objs(body["contents"])):
        parts: list[Part] = []
        for index, part in enumerate(objs(entry["parts"])):
            read = _google_part(part, f"{MADE_UP}{number}-{index}", waiting)
            parts.append(read)
            if isinstance(read, ToolCall):
                waiting.append(read)
        is_model = entry.get("role") == "model"
        messages.append(Message("assistant", tuple(parts), "google") if is_model else Message("user", tuple(parts)))
    system = "".join(word(p["text"]) for p in objs(obj(body.get("systemInstruction")).get("parts")))
    declared = [d for t in objs(body.get("tools")) for d in objs(t["functionDeclarations"])]
    tools = tuple(ToolSpec(word(d["name"]), word(d.get("description")), google_schema(d)) for d in declared)
    settings = Settings(extra=_rest(body, "contents", "systemInstruction", "tools"))
    return ModelRequest(messages, system, tools, settings)


def _google_part(part: JsonObject, made_up: str, waiting: list[ToolCall]) -> Part:
    signature = word(part.get("thoughtSignature")) or None
    call, answer, data = obj(part.get("functionCall")), obj(part.get("functionResponse")), obj(part.get("inlineData"))
    if call:
        given = word(call.get("id"))
        return ToolCall(given or made_up, word(call["name"]), obj(call["args"]), None, not given, signature)
    if answer:
        response = obj(answer["response"])
        content = _answer_text(response)
        call_id = word(answer.get("id")) or waiting[0].id
        waiting.pop(0)
        return ToolResult(call_id, content, "error" in response, name=word(answer["name"]))
    if data:
        return FilePart(word(data["data"]), word(data["mimeType"]))
    if part.get("thought"):
        return ReasoningPart(word(part["text"]), signature)
    return TextPart(word(part["text"]), signature)


def _answer_text(response: JsonObject) -> str:
    """Return the words of a function's response, which each project wraps in an object of its own."""
    for key in ("error", "result", "return_value"):
        if key in response:
            return word(response[key])
    return "".join(word(part["text"]) for part in objs(response["content"]))


def google_schema(declaration: JsonObject) -> JsonObject:
    """Return a declaration's JSON Schema, whichever of the fields it stands in."""
    for key in ("parametersJsonSchema", "parameters_json_schema"):
        if key in declaration:
            return obj(declaration[key])
    return obj(lowered(obj(declaration.get("parameters"))))


def _rest(body: JsonObject, *known: str) -> dict[str, JsonValue]:
    return {k: v for k, v in body.items() if k not in known}


def as_history(turn: ModelTurn, like: Message) -> Message:
    """Return a turn as it stands in a history, with the call ids of `like` where the provider sent none."""
    ids = [call.id for call in like.tool_calls]
    parts = [
        replace(part, id=ids[turn.tool_calls.index(part)], made_up_id=True)
        if isinstance(part, ToolCall) and not part.id
        else part
        for part in turn.parts
    ]
    return Message("assistant", tuple(parts), turn.dialect)


# What follows compares a request that we sent with the recorded one.


def meaning(tool: ToolSpec) -> tuple[str, str, JsonValue]:
    """Return a tool as it can be compared across ways to write a schema."""
    return tool.name, tool.description, _without_noise(lowered(tool.schema))


def outline(tool: ToolSpec) -> JsonValue:
    """Return the names and types of a tool's arguments, which is all that two makers of schemas agree on."""
    properties = obj(tool.schema.get("properties"))
    types = {name: obj(lowered(about)).get("type") for name, about in properties.items()}
    return [tool.name, types, tool.schema.get("required", [])]


def same_request(
    api: str, sent: JsonObject, recorded: JsonObject, *, tools: Callable[[ToolSpec], object] = meaning
) -> None:
    """Assert that two request bodies of one API say the same; `tools` says what of a tool is compared."""
    read = reader_of(api)
    ours, theirs = read(sent), read(recorded)
    assert sent.get("model") == recorded.get("model")
    assert ours.system == theirs.system
    assert [m.role for m in ours.messages] == [m.role for m in theirs.messages]
    for mine, other in zip(ours.messages, theirs.messages, strict=True):
        same_message(mine, other)
    assert [tools(t) for t in ours.tools] == [tools(t) for t in theirs.tools]
    assert ours.settings == theirs.settings


def same_message(mine: Message, other: Message) -> None:
    """Assert that two messages hold the same parts; results need only contain the recorded words."""
    assert [type(p) for p in mine.parts] == [type(p) for p in other.parts]
    for left, right in zip(mine.parts, other.parts, strict=True):
        if isinstance(left, ToolResult) and isinstance(right, ToolResult):
            assert left.call_id.startswith(MADE_UP) or left.call_id == right.call_id
            assert left.is_error == right.is_error
            assert right.content
            assert right.content in left.content
        elif isinstance(left, ToolCall) and isinstance(right, ToolCall):
            assert (left.name, left.arguments) == (right.name, right.arguments)
            assert left.made_up_id or left.id == right.id
            assert signature_bytes(left.signature) == signature_bytes(right.signature)
        elif isinstance(left, TextPart | ReasoningPart) and isinstance(right, TextPart | ReasoningPart):
            assert left.text == right.text
            assert signature_bytes(left.signature) == signature_bytes(right.signature)
        else:
            assert left == right


def lowered(schema: JsonValue) -> JsonValue:
    """Turn the upper-case types of Google's OpenAPI style into JSON Schema's."""
    if is_object(schema):
        return {k: v.lower() if k == "type" and isinstance(v, str) else lowered(v) for k, v in schema.items()}
    if is_array(schema):
        return [lowered(v) for v in schema]
    return schema


def _without_noise(schema: JsonValue) -> JsonValue:
    return {k: v for k, v in obj(schema).items() if not (k == "required" and v == [])}


def signature_bytes(signature: str | None) -> bytes | None:
    """Decode a signature written in either alphabet of base64."""
    if signature is None:
        return None
    plain = signature.replace("-", "+").replace("_", "/").rstrip("=")
    return base64.b64decode(plain + "=" * (-len(plain) % 4))
