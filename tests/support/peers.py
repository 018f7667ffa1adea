"""aimock, a server that others wrote: installing it, running it, and reading what it understood of our requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import httpx

from understudy.messages import JsonObject, JsonValue, ModelRequest, TextPart, ToolCall, ToolResult
from understudy.providers import Anthropic, Gemini, OpenAI, Timing, Vertex
from understudy.providers.client import HttpModel

from . import wire
from .http import closed_port
from .paths import ROOT

PACKAGE = ROOT / "tests" / "peers" / "package.json"
FIXTURES = ROOT / "tests" / "peers" / "fixtures.json"
CACHE = ROOT / ".cache" / "peers"
INSTALL_TIMEOUT = 90.0  # Seconds; below the limit of a test, whose first one pays for it.
START_TIMEOUT = 15.0
STOP_TIMEOUT = 5.0
CONTROL_TIMEOUT = 30.0
KEY = "dummy-key-of-the-tests"

NPM_OPTIONS = (
    "--no-audit",
    "--no-fund",
    "--ignore-scripts",
    "--no-package-lock",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
    "--fetch-timeout=20000",
)
END_WITH_US = "data:text/javascript,process.stdin.on('end',()=>process.exit()).resume()"
"""Makes node end when its standard input does, so that no server outlives tests that were killed."""

Said: TypeAlias = tuple[str, ...]
"""One thing in a conversation: (role, text), ("call", id, name, arguments) or ("result", id, text)."""


class NotInstalled(Exception):
    """aimock is not there and could not be fetched."""


def aimock_version() -> str:
    """Return the version that the tests are written for."""
    version: str = json.loads(PACKAGE.read_text())["dependencies"]["@copilotkit/aimock"]
    return version


def installed(npm: str) -> Path:
    """Return the folder that holds aimock, after fetching it once for this checkout.

    It is fetched into a folder of its own and then renamed, so that of several runs at once the first one wins and
    none sees half of it.

    Raises:
        NotInstalled: npm failed or took too long; the message ends with what it said last.
    """
    folder = CACHE / f"aimock-{aimock_version()}"
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=".installing-", dir=CACHE))
        try:
            shutil.copy2(PACKAGE, making)
            _install(npm, making)
            _rename(making, folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


def _install(npm: str, folder: Path) -> None:
    try:
        done = subprocess.run(
            [npm, "install", *NPM_OPTIONS],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm took longer than {INSTALL_TIMEOUT:g} s") from None
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        raise NotInstalled(errors[0] if errors else f"npm ended with {done.returncode}")


def _rename(making: Path, folder: Path) -> None:
    try:
        making.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another run was quicker, and its folder is as good
            raise


@contextmanager
def serving(node: str, folder: Path, log: Path) -> Generator[str]:
    """Run aimock with the tests' fixtures on a free port of this host until the block ends; gives the address.

    What it prints goes to `log`.
    """
    program = folder / "node_modules" / ".bin" / "llmock"
    options = ["--fixtures", str(FIXTURES), "--validate-on-load", "--strict", "--journal-max", "0"]
    with log.open("w") as output:
        for _ in range(3):  # between finding a free port and taking it, somebody else may have taken it
            port = closed_port()
            where = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warn"]
            command = [node, "--import", END_WITH_US, str(program), *where, *options]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
            try:
                address = f"http://127.0.0.1:{port}"
                if _answers(process, address):
                    yield address
                    return
            finally:
                _stop(process)
    raise AssertionError(f"aimock did not start: {log.read_text()[-2000:]}")


def _answers(process: subprocess.Popen[bytes], address: str) -> bool:
    """Wait until the server answers; False when it has ended, or says nothing for too long."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        try:
            return told(address, "GET", "health") == {"status": "ok"}
        except (OSError, HTTPException, ValueError):
            pass  # it does not listen yet, or somebody else does
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        return False
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_TIMEOUT)
    finally:
        if process.stdin is not None:
            process.stdin.close()


def told(address: str, method: str, what: str, body: JsonValue = None) -> JsonValue:
    """Return what aimock's control interface answers; takes no proxy and no certificates.

    Raises:
        OSError, HTTPException, ValueError: nobody answers, or not in JSON with status 200.
    """
    connection = HTTPConnection(urlsplit(address).netloc, timeout=CONTROL_TIMEOUT)
    try:
        connection.request(method, f"/__aimock/{what}", None if body is None else json.dumps(body))
        answer = connection.getresponse()
        said: JsonValue = json.loads(answer.read())
    finally:
        connection.close()
    if answer.status != 200:
        raise ValueError(f"aimock answered {what} with {answer.status}: {said}")
    return said


class Tagged(httpx.HTTPTransport):
    """Real connections that keep what is sent, and mark it as one test's: aimock counts repeated requests per mark."""

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
        """Add fixtures; those of the file come first."""
        told(self.address, "POST", "fixtures", {"fixtures": fixtures})

    def arrivals(self) -> list[Arrival]:
        """Return what it got, in order of arrival."""
        return [_arrival(entry) for entry in wire.objs(told(self.address, "GET", "journal"))]


def _arrival(entry: JsonObject) -> Arrival:
    status = wire.obj(entry["response"])["status"]
    assert isinstance(status, int)
    return Arrival(wire.word(entry["path"]), status, wire.from_openai(wire.obj(entry["body"])))


def without_keys() -> dict[str, str]:
    """Return this process's environment without what the clients read in it."""
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
