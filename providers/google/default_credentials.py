"""Google's application default credentials, by google-auth, which is imported at the first use."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from understudy.errors import AuthenticationError, ProviderError
from understudy.providers.http.credentials import Secret, wrapped
from understudy.providers.http.environment import first_set
from understudy.providers.http.forks import renew_after_fork
from understudy.vocabulary.context.scope import current_scope

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
FILE = "GOOGLE_APPLICATION_CREDENTIALS"
TOKEN_TIMEOUT = 30.0  # A working token service answers at once.


class Credentials(Protocol):
    """The members of google-auth's credentials used here."""

    token: str | None

    @property
    def valid(self) -> bool:
        """Whether there is a token that stays valid for the next minutes."""
        ...

    def refresh(self, request: object) -> None:
        """Fetch a new token."""
        ...


class DefaultCredentials:
    """The host's default credentials; safe to share between threads.

    Google Cloud, Application default credentials: from a file, the metadata server, or `gcloud auth`.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._lock = threading.RLock()
        """Guards finding and refreshing, so that only one thread fetches a token."""
        self._found: tuple[Credentials, str | None] | None = None
        self._file: str | None = None
        """What the environment named as the credentials' file when they were found."""

    def project(self) -> str | None:
        """Return the project that belongs to the credentials, if any."""
        return self._find()[1]

    def current(self) -> Secret:
        """Return a token that is valid for the next minutes; fetches one when needed."""
        with self._lock:
            credentials, _ = self._find()
            if not credentials.valid:
                self._refresh(credentials)
            return self._token(credentials)

    def renewed(self) -> Secret:
        """Fetch a new token, even if the old one seems valid."""
        with self._lock:
            credentials, _ = self._find()
            self._refresh(credentials)
            return self._token(credentials)

    def _token(self, credentials: Credentials) -> Secret:
        return wrapped(credentials.token or "", self._provider)

    def _find(self) -> tuple[Credentials, str | None]:
        with self._lock:
            file = first_set(FILE)
            if self._found is None or file != self._file:
                self._found, self._file = self._load(), file
            return self._found

    def _load(self) -> tuple[Credentials, str | None]:
        try:
            auth = importlib.import_module("google.auth")
            problems = importlib.import_module("google.auth.exceptions")
        except ImportError as error:
            raise AuthenticationError(
                "no token for vertex: pass access_token=, or install understudy[vertex] for Google's application "
                "default credentials",
                provider=self._provider,
            ) from error
        try:
            found: tuple[Credentials, str | None] = auth.default(scopes=[SCOPE], request=fetch)
        except problems.DefaultCredentialsError as error:
            raise AuthenticationError(
                f"no token for vertex: pass access_token=, or set up application default credentials ({error})",
                provider=self._provider,
            ) from error
        return found

    def _refresh(self, credentials: Credentials) -> None:
        problems = importlib.import_module("google.auth.exceptions")
        try:
            credentials.refresh(fetch)
        except problems.TransportError as error:
            raise ProviderError(
                f"vertex: Google's token service could not be reached: {error}", provider=self._provider, retryable=True
            ) from error
        except problems.GoogleAuthError as error:
            raise AuthenticationError(
                f"vertex: Google refused a token for the default credentials: {error}", provider=self._provider
            ) from error


@dataclass(frozen=True, slots=True)
class Fetched:
    """An HTTP answer in the form that google-auth expects."""

    status: int
    headers: Mapping[str, str]
    data: bytes


def fetch(
    url: str,
    method: str = "GET",
    body: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    **options: object,
) -> Fetched:
    """Send a request for google-auth; its own transports would need another HTTP library."""
    import httpx

    problems = importlib.import_module("google.auth.exceptions")
    scope = current_scope()
    left = None if scope is None else scope.remaining()
    limit = min(x for x in (timeout, left, TOKEN_TIMEOUT) if x is not None)
    try:
        response = httpx.request(method, url, content=body, headers=headers, timeout=limit)
    except httpx.HTTPError as error:
        raise problems.TransportError(str(error) or type(error).__name__) from None
    return Fetched(response.status_code, dict(response.headers), response.content)
