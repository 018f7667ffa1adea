"""Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Unpack
from urllib.parse import urlsplit

from understudy.providers.http.client_options import ClientOptions
from understudy.providers.http.credentials import KeyLike, Secret
from understudy.providers.http.model_client import HttpModel
from understudy.providers.http.options import checked_version
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn

from . import wire
from .stream import AnthropicStream

ANTHROPIC_HOST = "api.anthropic.com"
ANTHROPIC = f"https://{ANTHROPIC_HOST}"
API_VERSION = "2023-06-01"  # Anthropic API, Versions: the version of all current models.


class Anthropic(HttpModel):
    """A model behind Anthropic's Messages API.

    Blocking, and safe to share between threads. Making one checks the options and needs no key. The API demands a limit on
    tokens: without `Settings.max_tokens` it is 4,096, plus the budget for reasoning if there is one; 32,768 for models that
    decide for themselves how long they reason.

    Args:
        model: such as `claude-haiku-4-5`.
        api_key: the key, a `Secret`, or a function that returns one, called before each attempt and once more after HTTP
            status 401; without it `ANTHROPIC_API_KEY` is read at each call. It is in no log, error or repr.
        base_url: the address without a version, such as `https://proxy.example`; without it `ANTHROPIC_BASE_URL` is read
            at each call, else Anthropic itself is asked.
        api_version: sent in the header `anthropic-version`.
        betas: names of beta features, such as `context-1m-2025-08-07`, sent in the header `anthropic-beta`.
        options: those that all clients share, `ClientOptions`.
    """

    provider = "anthropic"
    _address_variable = "ANTHROPIC_BASE_URL"
    _added_version = "v1"
    _added_ends = ("/v1/messages",)

    def __init__(
        self,
        model: str,
        *,
        api_key: KeyLike | None = None,
        base_url: str | None = None,
        api_version: str = API_VERSION,
        betas: Sequence[str] = (),
        **options: Unpack[ClientOptions],
    ) -> None:
        self._version = checked_version(api_version)
        self._betas = checked_betas(betas)
        super().__init__(model, api_key=api_key, base_url=base_url, **options)

    def _url(self) -> str:
        return f"{self._root(ANTHROPIC)}/v1/messages"

    def _auth(self, key: Secret) -> Mapping[str, str]:
        return {"x-api-key": key.reveal(), "anthropic-version": self._version, **beta_header(self._betas)}

    def _encode(self, request: ModelRequest) -> JsonObject:
        host = urlsplit(self.base_url or self._address_set() or ANTHROPIC).hostname
        return wire.encode(request, self.model, official=host == ANTHROPIC_HOST)

    def _decode(self, body: JsonObject) -> ModelTurn:
        return wire.decode(body)

    def _decoder(self) -> AnthropicStream:
        return AnthropicStream()


NAME = re.compile(r"[A-Za-z0-9._-]+")


def checked_betas(betas: Sequence[str]) -> tuple[str, ...]:
    """Return the option `betas`; raises TypeError or ValueError if it is no list of names."""
    if not isinstance(betas, (list, tuple)):
        raise TypeError(f"betas must be a list of names, got {type(betas).__name__}")
    for name in betas:
        if not isinstance(name, str):
            raise TypeError(f"betas must be a list of names, got one that is a {type(name).__name__}")
        if not NAME.fullmatch(name):
            raise ValueError(f"betas must be names such as 'context-1m-2025-08-07', got {name!r}")
    return tuple(dict.fromkeys(betas))


def beta_header(betas: Sequence[str]) -> Mapping[str, str]:
    """Return the header for these names; none if there are no names."""
    return {"anthropic-beta": ",".join(betas)} if betas else {}
