"""What the clients of all model APIs share: options, the key, attempts and the way from an answer to a turn."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self
from urllib.parse import urlsplit

from understudy.errors import AuthenticationError, ProviderError
from understudy.messages import JsonObject, ModelRequest, ModelTurn

from .connections import Connections
from .credentials import KeySource, Secret
from .environment import first_set, refuse_offline
from .exchange import Attempt, Outgoing, Reply, not_json
from .failures import embedded_failure, failure
from .reader import WrongShape, as_object, parse
from .retries import Timing, keep_trying

if TYPE_CHECKING:
    import httpx

DEFAULT_TIMEOUT = 120.0  # A long turn without streaming takes a minute or so; what takes longer has hung.
DEFAULT_ATTEMPTS = 3  # Rides out a blip of some seconds; more is for whoever knows the load.


class HttpModel(ABC):
    """A model behind an HTTP API; safe to share between threads, usable in forked children."""

    provider: ClassVar[str]

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None,
        timeout: float,
        attempts: int,
        transport: httpx.BaseTransport | None,
        timing: Timing | None,
        max_reply_bytes: int,
    ) -> None:
        self.model = _checked_model(model)
        self.base_url = None if base_url is None else _checked_url(base_url)
        self._timeout = _positive(timeout, "timeout")
        self._attempts = _whole(attempts, "attempts")
        self._max_bytes = _whole(max_reply_bytes, "max_reply_bytes")
        self._timing = Timing() if timing is None else timing
        self._connections = Connections(transport, clock=self._timing.clock)
        self._keys: KeySource | None = None
        self._address: str | None = None

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return the model's turn for `request`.

        Blocks the calling thread. A `retryable` error is tried again after the wait the provider asked for; the last one
        is raised.

        Raises:
            ValueError: the API lacks one of the request's settings or parts; nothing was sent.
            AuthenticationError: the key is missing or refused.
            RateLimited: HTTP status 429, still, at the last attempt.
            ProviderTimeout: an attempt took longer than `timeout`.
            BadReply: the response breaks the API's format.
            ProviderError: any other error of the API, or no connection.
            RunCancelled, RunTimedOut: the run that asks has ended.
        """
        refuse_offline(self.provider)
        body = encode_json(self._encode(request))
        keys = self._key_source()
        outgoing = Outgoing(
            url=self._url(), body=body, headers={"content-type": "application/json"}, provider=self.provider
        )
        return keep_trying(lambda: self._attempt(outgoing, keys), self._attempts, self._timing)

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "" if self.base_url is None else f", base_url={self.base_url!r}"
        return f"{type(self).__name__}({self.model!r}{where})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"{self!r} is not pickled: it may hold a key; make it anew where it is needed")

    @abstractmethod
    def _find_keys(self) -> KeySource:
        """Return where the key comes from; raises AuthenticationError where there is none."""

    @abstractmethod
    def _url(self) -> str:
        """Return the address that requests go to."""

    @abstractmethod
    def _auth(self, key: Secret) -> Mapping[str, str]:
        """Return the headers that carry the key."""

    @abstractmethod
    def _encode(self, request: ModelRequest) -> JsonObject:
        """Return the request's body."""

    @abstractmethod
    def _decode(self, body: JsonObject) -> ModelTurn:
        """Return the turn that a response's body holds; raises WrongShape."""

    def _root(self, otherwise: str, variable: str = "") -> str:
        """Return the address that requests start with: the parameter, else the environment's, else `otherwise`."""
        if self._address is None:
            found = first_set(variable) if self.base_url is None and variable else None
            self._address = self.base_url or (_checked_url(found, variable) if found else otherwise)
        return self._address

    def _key_source(self) -> KeySource:
        # Two threads may look at once; both find the same.
        if self._keys is None:
            self._keys = self._find_keys()
        return self._keys

    def _attempt(self, outgoing: Outgoing, keys: KeySource) -> ModelTurn:
        try:
            return self._asked(outgoing, keys.current())
        except AuthenticationError as error:
            renewed = keys.renewed() if error.status == 401 else None
            if renewed is None:
                raise
        return self._asked(outgoing, renewed)

    def _asked(self, outgoing: Outgoing, key: Secret) -> ModelTurn:
        attempt = Attempt(outgoing, timeout=self._timeout, max_bytes=self._max_bytes, clock=self._timing.clock)
        try:
            return self._turn(outgoing, attempt.send(self._connections, self._auth(key)))
        except ProviderError as error:
            # Servers have been seen to quote the key that they refuse.
            error.args = (key.out_of(str(error)),)
            raise

    def _turn(self, outgoing: Outgoing, reply: Reply) -> ModelTurn:
        if not 200 <= reply.status < 300:
            now = self._timing.wall_clock()
            raise failure(reply.status, reply.headers, reply.body, provider=self.provider, now=now)
        try:
            value = parse(reply.body)
            hidden = embedded_failure(value, reply.body, provider=self.provider)
            if hidden is None:
                return self._decode(as_object(value, "the body"))
        except WrongShape as error:
            raise not_json(outgoing, reply, str(error)) from None
        except ValueError as error:
            raise not_json(outgoing, reply, f"not JSON: {error}") from None
        raise hidden


def encode_json(body: JsonObject) -> bytes:
    """Write a request's body as JSON."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    # Half a surrogate pair cannot be UTF-8; written as \\udXXX it is the JSON escape of itself.
    return text.encode("utf-8", "backslashreplace")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # any mapping will do
    raise TypeError(f"a request holds a {type(value).__name__}, which is not JSON")


def _checked_model(model: str) -> str:
    if not isinstance(model, str):
        raise TypeError(f"model must be a string, got {type(model).__name__}")
    if not model.strip() or not model.isprintable():
        raise ValueError(f"model must be the name of a model, got {model!r}")
    return model.strip()


def _checked_url(url: str, name: str = "base_url") -> str:
    if not isinstance(url, str):
        raise TypeError(f"{name} must be a string, got {type(url).__name__}")
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{name} must not hold a user or password; pass the key by its own parameter")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{name} must look like https://host/path, got {url!r}")
    return url.rstrip("/")


def _positive(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, got {value!r}")
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be above 0 and finite, got {value}")
    return float(value)


def _whole(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value


def checked_version(version: str) -> str:
    """Return an `api_version` that can stand in a path or header."""
    if not isinstance(version, str):
        raise TypeError(f"api_version must be a string, got {type(version).__name__}")
    if not version or not all(c.isascii() and (c.isalnum() or c in "-._") for c in version):
        raise ValueError(f"api_version must be a word such as 'v1' or '2023-06-01', got {version!r}")
    return version


def checked_word(word: str, name: str) -> str:
    """Return a project or location that can stand in a path."""
    if not isinstance(word, str):
        raise TypeError(f"{name} must be a string, got {type(word).__name__}")
    if not word or not all(c.isascii() and (c.isalnum() or c in "-._:") for c in word):
        raise ValueError(f"{name} must be an id of Google Cloud's, got {word!r}")
    return word
