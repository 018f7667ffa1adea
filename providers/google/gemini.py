"""Google's Gemini API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from understudy.providers.http.attempt import MAX_REPLY_BYTES
from understudy.providers.http.credentials import KeyLike, Secret
from understudy.providers.http.model_client import DEFAULT_ATTEMPTS, DEFAULT_IN_FLIGHT, HttpModel
from understudy.providers.http.options import checked_version
from understudy.providers.http.retries import Timing
from understudy.vocabulary.checks import UNSET, Unset
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn
from understudy.vocabulary.models import DEFAULT_IDLE_TIMEOUT

from . import wire
from .stream import GoogleStream

if TYPE_CHECKING:
    import httpx

GEMINI = "https://generativelanguage.googleapis.com"
API_VERSION = "v1beta"  # Gemini API, API versions: the version with tools, thinking and JSON Schema.


class Gemini(HttpModel):
    """A model behind Google's Gemini API.

    Blocking, and safe to share between threads. Making one checks the options and needs no key.

    Args:
        model: such as `gemini-2.5-flash`; `models/gemini-2.5-flash` is the same.
        api_key: the key, a `Secret`, or a function that returns one, called before each attempt and once more after HTTP
            status 401; without it `GEMINI_API_KEY` or `GOOGLE_API_KEY` is read at each call. It is in no log, error
            or repr.
        base_url: the address without a version; without it Google is asked.
        api_version: the version in the path.
        timeout: seconds one attempt may take, from connecting to the last byte; None for as long as the call may take.
        model_timeout: seconds one call may take with all its attempts; None for no limit. In a run the agent's own number
            goes before. Without either it is 120, or `timeout` if that is longer; a streamed call has no limit then.
        attempts: how often a request is sent at most when errors are worth a retry.
        transport: where requests go; tests pass an `httpx.MockTransport`.
        timing: the clock, sleep and randomness of timeouts and retries.
        max_reply_bytes: the longest response that is read.
        max_in_flight: how many attempts may be under way at once; further calls wait in turn.
        idle_timeout: seconds without any byte after which a streamed answer counts as lost; its first byte is waited for
            as long, but at least 120 seconds. None for no limit.
    """

    provider: ClassVar[str] = "gemini"

    def __init__(
        self,
        model: str,
        *,
        api_key: KeyLike | None = None,
        base_url: str | None = None,
        api_version: str = API_VERSION,
        timeout: float | None = None,
        model_timeout: float | Unset | None = UNSET,
        attempts: int = DEFAULT_ATTEMPTS,
        transport: httpx.BaseTransport | None = None,
        timing: Timing | None = None,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        max_in_flight: int = DEFAULT_IN_FLIGHT,
        idle_timeout: float | None = DEFAULT_IDLE_TIMEOUT,
    ) -> None:
        self._version = checked_version(api_version)
        super().__init__(
            model,
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            model_timeout=model_timeout,
            attempts=attempts,
            transport=transport,
            timing=timing,
            max_reply_bytes=max_reply_bytes,
            max_in_flight=max_in_flight,
            idle_timeout=idle_timeout,
        )

    def _url(self) -> str:
        return f"{self._place()}:generateContent"

    def _stream_url(self) -> str:
        return f"{self._place()}:streamGenerateContent?alt=sse"

    def _place(self) -> str:
        # The name of a tuned model has a collection of its own before the slash.
        name = self.model if "/" in self.model else f"models/{self.model}"
        return f"{self._root(GEMINI)}/{self._version}/{quote(name)}"

    def _auth(self, key: Secret) -> Mapping[str, str]:
        return {"x-goog-api-key": key.reveal()}

    def _encode(self, request: ModelRequest) -> JsonObject:
        return wire.encode(request, self.model, provider=self.provider)

    def _encode_stream(self, request: ModelRequest) -> JsonObject:
        return self._encode(request)  # the URL asks for the stream

    def _decode(self, body: JsonObject) -> ModelTurn:
        return wire.decode(body)

    def _decoder(self) -> GoogleStream:
        return GoogleStream()
