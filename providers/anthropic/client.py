"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from understudy.providers.http.attempt import MAX_REPLY_BYTES
from understudy.providers.http.credentials import KeyLike, Secret
from understudy.providers.http.model_client import DEFAULT_ATTEMPTS, DEFAULT_IN_FLIGHT, HttpModel
from understudy.providers.http.options import checked_version
from understudy.providers.http.retries import Timing
from understudy.vocabulary.checks import UNSET, Unset
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn
from understudy.vocabulary.models import DEFAULT_IDLE_TIMEOUT

from . import wire
from .stream import AnthropicStream

if TYPE_CHECKING:
    import httpx

ANTHROPIC = "https://api.anthropic.com"
API_VERSION = "2023-06-01"  # Anthropic API, Versions: the version of all current models.


class Anthropic(HttpModel):
    """A model behind Anthropic's Messages API.

    Blocking, and safe to share between threads. Making one checks the options and needs no key. The API demands a limit on
    tokens: without `Settings.max_tokens` it is 4,096, plus `Settings.thinking_tokens`.

    Args:
        model: such as `claude-haiku-4-5`.
        api_key: the key, a `Secret`, or a function that returns one, called before each attempt and once more after HTTP
            status 401; without it `ANTHROPIC_API_KEY` is read at each call. It is in no log, error or repr.
        base_url: the address without a version, such as `https://proxy.example`; without it `ANTHROPIC_BASE_URL` is read
            at each call, else Anthropic itself is asked.
        api_version: sent in the header `anthropic-version`.
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

    provider: ClassVar[str] = "anthropic"

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
        return f"{self._root(ANTHROPIC, 'ANTHROPIC_BASE_URL')}/v1/messages"

    def _auth(self, key: Secret) -> Mapping[str, str]:
        return {"x-api-key": key.reveal(), "anthropic-version": self._version}

    def _encode(self, request: ModelRequest) -> JsonObject:
        return wire.encode(request, self.model)

    def _decode(self, body: JsonObject) -> ModelTurn:
        return wire.decode(body)

    def _decoder(self) -> AnthropicStream:
        return AnthropicStream()
