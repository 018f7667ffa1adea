"""The client of OpenAI's chat completions, and of compatible servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from understudy.providers.http.client_options import ClientOptions
from understudy.providers.http.credentials import NO_KEY, KeyLike, KeySource, Secret, key_source
from understudy.providers.http.environment import first_set
from understudy.providers.http.model_client import HttpModel
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn
from understudy.vocabulary.presets import Preset

from . import wire
from .compatible import CHAT, address_in, checked_preset, dialect_of, fitted
from .families import OPENAI, is_own_host
from .stream import OpenAIStream


class OpenAI(HttpModel):
    """A model behind OpenAI's chat completions API, or a compatible server's.

    Blocking, and safe to share between threads. Making one checks the options and needs no key. OpenAI's newer models take no
    function tools here: `us.OpenAIResponses` is the client for them.

    Args:
        model: such as `gpt-4o`.
        preset: the compatible server, by its name, such as `ollama` or `groq`, or as a `Preset`. It has the address, the
            variables of the environment, and what the server wants otherwise than OpenAI.
        api_key: the key, a `Secret`, or a function that returns one, called before each attempt and once more after HTTP
            status 401; without it `OPENAI_API_KEY`, or the preset's variable, is read at each call. It is in no log, error or
            repr.
        base_url: the address with its version, such as `http://127.0.0.1:11434/v1`; without it `OPENAI_BASE_URL`, or the
            preset's variable, is read at each call, else requests go to OpenAI, or to the preset's address. To servers
            that are neither OpenAI's nor Azure's the limit on tokens is sent as `max_tokens`, which they know, and not as
            `max_completion_tokens`.
        options: those that all clients share, `ClientOptions`.

    Attributes:
        preset: the compatible server; None for OpenAI, and for servers given by `base_url` alone.
    """

    provider = "openai"
    _address_variable = "OPENAI_BASE_URL"
    _added_ends = (CHAT,)

    def __init__(
        self,
        model: str,
        *,
        preset: str | Preset | None = None,
        api_key: KeyLike | None = None,
        base_url: str | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.preset = checked_preset(preset)
        if self.preset is not None:
            self.provider = self.preset.name
        super().__init__(model, api_key=api_key, base_url=base_url, **options)

    def _key_variables(self) -> tuple[str, ...]:
        if self.preset is None:
            return super()._key_variables()
        return self.preset.key_variables if self.preset.needs_key else ()

    def _find_keys(self) -> KeySource:
        if self.preset is None:
            return super()._find_keys()
        return key_source(
            self._given_key,
            self.preset.key_variables,
            self._key_parameter,
            self.provider,
            otherwise=None if self.preset.needs_key else NO_KEY,
        )

    def _base(self) -> str:
        if self.preset is None:
            return self._root(OPENAI)
        found = first_set(self.preset.address_variable) if self.preset.address_variable else None
        return self.base_url or (
            f"{self.preset.address}{self.preset.path}" if found is None else address_in(found, self.preset)
        )

    def _has_given_address(self) -> bool:
        return self.preset is not None or super()._has_given_address()

    def _url(self) -> str:
        return f"{self._base()}{CHAT}"

    def _auth(self, key: Secret) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key.reveal()}"} if key.reveal() else {}

    def _encode(self, request: ModelRequest) -> JsonObject:
        if self.preset is not None:
            echo = self.preset.reasoning_field
            body = wire.encode(
                request, self.model, official=False, echo=echo, provider=self.provider, dialect=self._dialect()
            )
            return fitted(body, request, self.model, self.preset)
        return wire.encode(request, self.model, official=is_own_host(self._base()), dialect=self._dialect())

    def _encode_stream(self, request: ModelRequest) -> JsonObject:
        # OpenAI API, Chat completions: without this option a stream has no counts of tokens.
        asked: JsonObject = {"stream_options": {"include_usage": True}}
        asks = self.preset is None or self.preset.stream_options
        body = {**(asked if asks else {}), **super()._encode_stream(request)}
        if body.get("stream_options", 0) is None:  # asked for by `extra`: some compatible servers refuse the option
            del body["stream_options"]
        return body

    def _decode(self, body: JsonObject) -> ModelTurn:
        return wire.decode(body, self._dialect(), self._reasoning_field())

    def _decoder(self) -> OpenAIStream:
        return OpenAIStream(self._dialect(), self._reasoning_field())

    def _reasoning_field(self) -> str:
        return "" if self.preset is None else self.preset.reasoning_field

    def _dialect(self) -> str:
        return dialect_of(self.preset, self._base())
