"""Clients of a server written by others, and the requests as that server understood them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import httpx

from understudy.providers import Anthropic, Gemini, OpenAI, Timing, Vertex
from understudy.providers.http.model_client import HttpModel
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelRequest, TextPart, ToolCall, ToolResult

from . import wire
from .aimock import told

KEY = "dummy-key-of-the-tests"

Said: TypeAlias = tuple[str, ...]
"""One thing in a conversation: (role, text), ("call", id, name, arguments) or ("result", id, text)."""


class Tagged(httpx.HTTPTransport):
    """Real connections that record requests and mark them with the test: aimock counts repeated requests per mark."""

    def __init__(self, test: str) -> None:
        super().__init__(trust_env=False, verify=False)  # aimock speaks plain HTTP: no certificate is read
        self.bodies: list[JsonObject] = []
        """What was sent, in the provider's own form."""
        self._test = test

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.read()))
        request.headers["x-test-id"] = self._test
        return super().handle_request(request)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request as aimock understood it, which writes all providers' in the form of OpenAI's."""

    path: str
    status: int
    """What it was answered with."""
    request: ModelRequest

    @property
    def conversation(self) -> list[Said]:
        """All that was said, the system prompt first."""
        google = self.path.endswith(":generateContent")
        return [_unwrapped(said) if google else said for said in conversation(self.request)]


def _unwrapped(said: Said) -> Said:
    """aimock shows Google's results as the JSON text of their `response`."""
    if said[0] != "result":
        return said
    response: dict[str, str] = json.loads(said[2])
    (content,) = response.values()
    return (*said[:2], content)


def conversation(request: ModelRequest) -> list[Said]:
    """Return all that was said up to a request, the system prompt first."""
    found: list[Said] = [("system", request.system)] if request.system else []
    for message in request.messages:
        for part in message.parts:
            match part:
                case TextPart(text=text):
                    found.append((message.role, text))
                case ToolCall(id=id, name=name, arguments=arguments):
                    found.append(("call", id, name, json.dumps(arguments, ensure_ascii=False, sort_keys=True)))
                case ToolResult(call_id=id, content=content):
                    found.append(("result", id, content))
                case _:
                    raise AssertionError(f"nobody said {part!r}")
    return found


@dataclass(frozen=True, slots=True)
class Peer:
    """A running aimock, and what has reached it since the test began."""

    address: str

    def forget(self) -> None:
        """Empty its journal."""
        told(self.address, "POST", "reset/journal")

    def teach(self, fixtures: Sequence[JsonObject]) -> None:
        """Add fixtures, after the fixtures of the file."""
        told(self.address, "POST", "fixtures", {"fixtures": fixtures})

    def arrivals(self) -> list[Arrival]:
        """Return the server's requests, in order of arrival."""
        return [_arrival(entry) for entry in wire.objs(told(self.address, "GET", "journal"))]


def _arrival(entry: JsonObject) -> Arrival:
    status = wire.obj(entry["response"])["status"]
    assert isinstance(status, int)
    return Arrival(wire.word(entry["path"]), status, wire.from_openai(wire.obj(entry["body"])))


def without_keys() -> dict[str, str]:
    """Return this process's environment without the variables that the clients read."""
    ours = ("OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "UNDERSTUDY_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def openai_result_ids(body: JsonObject) -> list[JsonValue]:
    return [m.get("tool_call_id") for m in wire.objs(body["messages"]) if m["role"] == "tool"]


def anthropic_result_ids(body: JsonObject) -> list[JsonValue]:
    blocks = [b for m in wire.objs(body["messages"]) for b in wire.objs(m["content"])]
    return [b.get("tool_use_id") for b in blocks if b["type"] == "tool_result"]


def google_result_ids(body: JsonObject) -> list[JsonValue]:
    parts = [p for c in wire.objs(body["contents"]) for p in wire.objs(c["parts"])]
    return [wire.obj(p["functionResponse"]).get("id") for p in parts if "functionResponse" in p]


@dataclass(frozen=True, slots=True)
class Provider:
    """One of the APIs that aimock speaks."""

    name: str
    path: str
    """Where its requests arrive."""
    roles: tuple[str, ...]
    """Whose messages a run of one tool call holds at its end, in the API's own words."""
    read: Callable[[JsonObject], ModelRequest]
    """Reads a request's body, as the provider would."""
    result_ids: Callable[[JsonObject], list[JsonValue]]
    """Finds the ids that a body's tool results bear, where the provider looks for them."""

    def client(
        self,
        peer: Peer,
        *,
        attempts: int = 1,
        transport: httpx.BaseTransport | None = None,
        timing: Timing | None = None,
    ) -> HttpModel:
        """Return a client of aimock."""
        match self.name:
            case "openai":
                return OpenAI(
                    "gpt-4o",
                    api_key=KEY,
                    base_url=f"{peer.address}/v1",
                    attempts=attempts,
                    transport=transport,
                    timing=timing,
                )
            case "anthropic":
                return Anthropic(
                    "claude-haiku-4-5",
                    api_key=KEY,
                    base_url=peer.address,
                    attempts=attempts,
                    transport=transport,
                    timing=timing,
                )
            case "gemini":
                return Gemini(
                    "gemini-2.5-flash",
                    api_key=KEY,
                    base_url=peer.address,
                    attempts=attempts,
                    transport=transport,
                    timing=timing,
                )
            case _:
                return Vertex(
                    "gemini-2.5-flash",
                    access_token=KEY,
                    project="some-project",
                    location="us-central1",
                    base_url=peer.address,
                    api_version="v1",
                    attempts=attempts,
                    transport=transport,
                    timing=timing,
                )


GEMINI_PATH = "/v1beta/models/gemini-2.5-flash:generateContent"
VERTEX_PATH = (
    "/v1/projects/some-project/locations/us-central1/publishers/google/models/gemini-2.5-flash:generateContent"
)
PROVIDERS = (
    Provider(
        "openai",
        "/v1/chat/completions",
        ("system", "user", "assistant", "tool"),
        wire.from_openai,
        openai_result_ids,
    ),
    Provider("anthropic", "/v1/messages", ("user", "assistant", "user"), wire.from_anthropic, anthropic_result_ids),
    Provider("gemini", GEMINI_PATH, ("user", "model", "user"), wire.from_google, google_result_ids),
    Provider("vertex", VERTEX_PATH, ("user", "model", "user"), wire.from_google, google_result_ids),
)
