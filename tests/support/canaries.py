"""Secrets to plant, a server that leaks them, and a witness that collects everything logged, shown and raised."""

from __future__ import annotations

import json
import logging
import threading
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from .scripts import WAIT

KEYS = {
    name: f"ck-{name}-4f7Qz9Lw2Xb8"
    for name in (
        *("string", "wrapped", "function", "anthropic", "gemini", "vertex", "environment", "extra"),
        *("address", "cookie"),
    )
}
REQUEST_ID = "req-4f7Qz9Lw2Xb8"
"""The one header of the server's that may be told: it is no secret, and the provider's support asks for it."""
SAID = {
    name: f"cv{name}6Hd3Rk1Tn5"
    for name in ("input", "system", "argument", "result", "session", "deps", "reply", "failure", "user", "answer")
}


class Vault:
    """Deps, whose repr tells what they are."""

    def __repr__(self) -> str:
        return f"Vault({SAID['deps']})"


class Server(ThreadingHTTPServer):
    """Speaks OpenAI's form of chat. What it does is in the request: a word of the user's last message."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.over = threading.Event()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        quoted = " ".join(
            [value for name, value in self.headers.items() if name.lower().endswith(("key", "authorization"))]
        )
        text = json.dumps(body)
        if "hang" in text:
            assert isinstance(self.server, Server)
            self.server.over.wait(WAIT)
        elif "cut" in text:
            self._send(200, f'{{"error": "{quoted}', longer=100)
        elif "broken" in text:
            self._send(200, f"<html>{'x' * 168}{quoted}</html>")  # an error quotes a part of the key, if it is careless
        elif "shapeless" in text:
            self._send(200, json.dumps({"choices": quoted}))
        elif status := next((each for each in (401, 302, 429, 500, 400) if f"status {each}" in text), None):
            self._send(status, json.dumps({"error": {"message": f"refused: {quoted}", "type": quoted, "code": quoted}}))
        else:
            self._send(200, json.dumps({"choices": [self._choice(body)]}))

    def _choice(self, body: Any) -> object:
        last = body["messages"][-1]
        if last["role"] == "tool" or not body.get("tools"):
            return {"message": {"content": SAID["reply"]}, "finish_reason": "stop"}
        arguments = json.dumps({"word": SAID["argument"]})
        name = next((name for name in ("refund", "fail", "look") if name in str(last["content"])), "look")
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
        return {"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}

    def _send(self, status: int, body: str, longer: int = 0) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body) + longer))
        self.send_header("set-cookie", f"session={KEYS['cookie']}; Path=/")
        self.send_header("x-request-id", REQUEST_ID)
        self.send_header("location", f"http://user:{KEYS['address']}@127.0.0.1:1/?key={KEYS['address']}")
        for name, value in self.headers.items():
            if name.lower().endswith(("key", "authorization")):
                self.send_header(f"x-your-{name}", value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def serving() -> Generator[str]:
    """Have the server answer inside of the block, and give its address."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, name="canary-server", daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.over.set()
    server.shutdown()
    server.server_close()
    thread.join(WAIT)


WHAT_THERE_WAS = ("messages", "session", "usage", "children", "_children")
"""Attributes of a run's error that are about what the run had come to, as an outcome's are; its words hold nothing of them."""


def told_by(error: BaseException) -> dict[str, object]:
    """Return the attributes of an error that say why it was raised."""
    return {name: value for name, value in vars(error).items() if name not in WHAT_THERE_WAS}


class Seen:
    """All that was logged, shown and raised."""

    def __init__(self) -> None:
        self.logged: list[str] = []
        self.shown: list[str] = []
        self.raised: list[str] = []
        self.held: list[str] = []
        """What was in the variables of the frames that errors came through, as crash reporters show it."""

    def show(self, *things: object) -> None:
        """Note the repr and the text of things."""
        self.shown += [text for thing in things for text in (repr(thing), str(thing))]

    def add(self, error: BaseException) -> None:
        """Note what an error tells, and all that it came of, with whatever hangs on it or stands in our frames."""
        self.raised.append("".join(traceback.format_exception(error)))
        for each in _all_behind(error):
            self.raised += [repr(each), str(each), repr(each.args), repr(told_by(each))]
            for name in ("_request", "response"):
                of_http = getattr(each, name, None)
                self.raised += [] if of_http is None else [str(of_http.url), repr(list(of_http.headers.multi_items()))]
            self.held += [
                f"{frame.f_code.co_qualname}: {name} = {_shown(value)}"
                for frame, _ in traceback.walk_tb(each.__traceback__)
                if "/tests/" not in frame.f_code.co_filename
                for name, value in frame.f_locals.items()
            ]

    @contextmanager
    def expecting(self, *kinds: type[BaseException]) -> Generator[None]:
        with pytest.raises(kinds) as caught:
            yield
        self.add(caught.value)

    def leaks_of(self, secrets: dict[str, str], *places: list[str]) -> set[str]:
        """Return the names of the secrets that stand there, whole or in part."""
        texts = [text for place in places for text in place]
        return {f"{name}: {text[:300]}" for name, secret in secrets.items() for text in texts if secret[:-6] in text}


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 (an object that is not whole yet)
        return repr(error)


def _all_behind(error: BaseException) -> Iterator[BaseException]:
    """Return an error and all that hang on it, whether or not a traceback shows them."""
    left: list[BaseException | None] = [error]
    found: set[int] = set()
    while left:
        each = left.pop()
        if each is None or id(each) in found:
            continue
        found.add(id(each))
        yield each
        left += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            left += cast("BaseExceptionGroup[BaseException]", each).exceptions


class Collector(logging.Handler):
    """Notes every record: its message, all its fields, its exception and its stack."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(logging.DEBUG)
        self._seen = seen

    def emit(self, record: logging.LogRecord) -> None:
        self._seen.logged += [record.getMessage(), repr(vars(record)), logging.Formatter().format(record)]


@contextmanager
def watching() -> Generator[Seen]:
    """Note all that is logged inside of the block, at any level and by any library."""
    found, root = Seen(), logging.getLogger()
    collector, level = Collector(found), root.level
    root.addHandler(collector)
    root.setLevel(logging.DEBUG)
    yield found
    root.removeHandler(collector)
    root.setLevel(level)
