"""A stand-in for Ollama's OpenAI-compatible API on a port of this host: its addresses, shapes and errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ROUNDS = 3
"""So many rounds of calls a model here wants before it answers."""
ANSWER = '{"units": 7}'


class Stand(ThreadingHTTPServer):
    """The server, with the requests that it got."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    @property
    def host(self) -> str:
        """Host and port, as in OLLAMA_HOST."""
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Stand  # pyright: ignore[reportIncompatibleVariableOverride]  # only Stand makes handlers

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.path != "/v1/chat/completions":
            return self._send(404, b"404 page not found", "text/plain")
        status, error = _refusal(body)
        if error:
            return self._json(status, {"error": {"message": error, "type": "api_error", "param": None, "code": None}})
        message, reason = _message(body)
        if not body.get("stream"):
            return self._json(200, _answer("chat.completion", message=message, finish_reason=reason))
        chunks = [_answer("chat.completion.chunk", delta=message, finish_reason=None)]
        chunks.append(
            _answer("chat.completion.chunk", delta={"role": "assistant", "content": ""}, finish_reason=reason)
        )
        if body.get("stream_options") == {"include_usage": True}:
            chunks.append({**_answer("chat.completion.chunk"), "usage": USAGE})
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"]
        return self._send(200, "".join(events).encode(), "text/event-stream")

    def _json(self, status: int, value: object) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        if status == 503:
            self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


USAGE = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
ERRORS = {
    "locked": (401, "unauthorized"),
    "busy": (429, "too many concurrent requests"),
    "full": (503, "server busy, please try again. maximum pending requests exceeded"),
    "long": (400, "prompt too long; exceeded max context length by 120 tokens"),
    "broken": (500, "llama runner process has terminated"),
}
"""Model -> the error of each call of it."""


def _refusal(body: dict[str, Any]) -> tuple[int, str]:
    model = body["model"]
    if model in ERRORS:
        return ERRORS[model]
    if model != "llama3.2":
        return 404, f'model "{model}" not found, try pulling it first'
    for message in body["messages"]:
        if not isinstance(message.get("content"), str | list) and not message.get("tool_calls"):
            return 400, f"invalid message content type: {type(message.get('content')).__name__}"
        for call in message.get("tool_calls", []):
            json.loads(call["function"]["arguments"])
    return 200, ""


def _message(body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    rounds = sum(message["role"] == "tool" for message in body["messages"])
    said: dict[str, Any] = {"role": "assistant", "content": "", "reasoning": f"round {rounds}"}
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    if "response_format" in body or not names:
        return {**said, "content": ANSWER}, "stop"
    if rounds < ROUNDS:
        return {**said, "tool_calls": [_call(rounds, names[0], json.dumps({"sku": f"A-{rounds}"}))]}, "tool_calls"
    if "final_answer" in names:
        return {**said, "tool_calls": [_call(rounds, "final_answer", ANSWER)]}, "tool_calls"
    return {**said, "content": ANSWER}, "stop"


def _call(number: int, name: str, arguments: str) -> dict[str, Any]:
    called = {"name": name, "arguments": arguments}
    return {"id": f"call_{number}", "index": 0, "type": "function", "function": called}


def _answer(kind: str, **choice: Any) -> dict[str, Any]:
    choices = [{"index": 0, **choice}] if choice else []
    head = {"id": "chatcmpl-12", "object": kind, "created": 1, "model": "llama3.2", "system_fingerprint": "fp_ollama"}
    return {**head, "choices": choices, **({"usage": USAGE} if kind == "chat.completion" else {})}


@contextmanager
def ollama() -> Generator[Stand]:
    """Serve until the block ends."""
    stand = Stand()
    thread = threading.Thread(target=stand.serve_forever, kwargs={"poll_interval": 0.01}, name="ollama", daemon=True)
    thread.start()
    try:
        yield stand
    finally:
        stand.shutdown()
        stand.server_close()
        thread.join(10)
