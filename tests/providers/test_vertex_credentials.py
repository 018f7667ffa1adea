"""Vertex: where requests go, and Google's application default credentials."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import httpx
import pytest

from tests.support.http import GOOGLE_REPLY, HELLO, Answers
from understudy.errors import AuthenticationError, ProviderError
from understudy.providers import Vertex

pytestmark = pytest.mark.usefixtures("bare_environment")


class FakeCredentials:
    """Credentials whose tokens are numbered, each good for one use unless `lasting`."""

    def __init__(self, *, lasting: bool = True, problem: Exception | None = None) -> None:
        self.token: str | None = None
        self.refreshed = 0
        self._lasting = lasting
        self._problem = problem

    @property
    def valid(self) -> bool:
        return self.token is not None and self._lasting

    def refresh(self, request: object) -> None:
        if self._problem is not None:
            raise self._problem
        self.refreshed += 1
        self.token = f"token-{self.refreshed}"


class GoogleAuthError(Exception):
    pass


class TransportError(GoogleAuthError):
    pass


class DefaultCredentialsError(GoogleAuthError):
    pass


def install(monkeypatch: pytest.MonkeyPatch, found: FakeCredentials | Exception, project: str | None = "p") -> None:
    """Stand in for google-auth, which is an extra."""

    def default(*, scopes: list[str], request: object) -> tuple[FakeCredentials, str | None]:
        assert scopes == ["https://www.googleapis.com/auth/cloud-platform"]
        if isinstance(found, Exception):
            raise found
        return found, project

    auth, exceptions = ModuleType("google.auth"), ModuleType("google.auth.exceptions")
    vars(auth)["default"] = default
    for kind in (GoogleAuthError, TransportError, DefaultCredentialsError):
        vars(exceptions)[kind.__name__] = kind
    monkeypatch.setitem(sys.modules, "google", ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.auth", auth)
    monkeypatch.setitem(sys.modules, "google.auth.exceptions", exceptions)


def tokens(answers: Answers) -> list[str]:
    return [request.headers["authorization"] for request in answers.requests]


def ok() -> Answers:
    return Answers(httpx.Response(200, json=GOOGLE_REPLY))


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("global", "aiplatform.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
    ],
)
def test_each_location_has_its_host(location: str, host: str) -> None:
    answers = ok()

    Vertex("gemini-2.5-flash", access_token="t", project="p", location=location, transport=answers).complete(HELLO)

    path = f"/v1/projects/p/locations/{location}/publishers/google/models/gemini-2.5-flash:generateContent"
    assert str(answers.requests[0].url) == f"https://{host}{path}"


def test_project_and_location_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ok()
    model = Vertex("m", access_token="t", transport=answers)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "from-environment")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-east5")

    model.complete(HELLO)

    assert "us-east5-aiplatform.googleapis.com/v1/projects/from-environment/" in str(answers.requests[0].url)


@pytest.mark.parametrize("project", ["", "a/b", "a b", "../x"])
def test_a_project_that_fits_into_no_path_is_refused(project: str) -> None:
    with pytest.raises(ValueError, match="project"):
        Vertex("m", project=project)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)

    with pytest.raises(AuthenticationError, match=r"access_token=.*understudy\[vertex\]"):
        Vertex("m", project="p", transport=ok()).complete(HELLO)


def test_missing_default_credentials_are_an_authentication_error(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, DefaultCredentialsError("none found"))

    with pytest.raises(AuthenticationError, match="none found"):
        Vertex("m", project="p", transport=ok()).complete(HELLO)


def test_a_token_is_fetched_once_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials, answers = FakeCredentials(), ok()
    install(monkeypatch, credentials, project="of-the-credentials")
    model = Vertex("m", transport=answers)

    model.complete(HELLO)
    model.complete(HELLO)

    assert tokens(answers) == ["Bearer token-1", "Bearer token-1"]
    assert "/projects/of-the-credentials/" in str(answers.requests[0].url)


def test_a_token_that_ends_is_fetched_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ok()
    install(monkeypatch, FakeCredentials(lasting=False))
    model = Vertex("m", transport=answers)

    model.complete(HELLO)
    model.complete(HELLO)

    assert tokens(answers) == ["Bearer token-1", "Bearer token-2"]


def test_401_fetches_one_new_token(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = httpx.Response(401, json={"error": {"code": 401, "message": "expired", "status": "UNAUTHENTICATED"}})
    answers = Answers(refused, httpx.Response(200, json=GOOGLE_REPLY))
    install(monkeypatch, FakeCredentials())

    Vertex("m", transport=answers).complete(HELLO)

    assert tokens(answers) == ["Bearer token-1", "Bearer token-2"]


def test_a_token_service_out_of_reach_is_worth_a_retry_and_a_refusal_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeCredentials(problem=TransportError("unreachable")))
    with pytest.raises(ProviderError, match="unreachable") as lost:
        Vertex("m", transport=ok(), attempts=1).complete(HELLO)

    install(monkeypatch, FakeCredentials(problem=GoogleAuthError("revoked")))
    with pytest.raises(AuthenticationError, match="revoked") as refused:
        Vertex("m", transport=ok(), attempts=1).complete(HELLO)

    assert (lost.value.retryable, refused.value.retryable) == (True, False)


class TokenService(BaseHTTPRequestHandler):
    """Hands out one token for every signed assertion."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.asked.append(self.rfile.read(int(self.headers["content-length"])).decode())
        body = json.dumps({"access_token": "real-token", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def token_service() -> Generator[str]:
    server = HTTPServer(("127.0.0.1", 0), TokenService)
    thread = threading.Thread(target=server.serve_forever, name="token-service", daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/token"
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_google_auth_itself_fetches_a_token_through_our_transport(
    token_service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("google.auth", reason="the extra 'vertex' is not installed")
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    forms = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()).decode()
    account = {
        "type": "service_account",
        "project_id": "of-the-account",
        "private_key_id": "1",
        "private_key": pem,
        "client_email": "robot@test",
        "client_id": "1",
        "token_uri": token_service,
    }
    file = tmp_path / "account.json"
    file.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    answers = ok()

    Vertex("m", transport=answers).complete(HELLO)

    assert tokens(answers) == ["Bearer real-token"]
    assert "/projects/of-the-account/" in str(answers.requests[0].url)
    assert "jwt-bearer" in TokenService.asked[0]
