"""The client of OpenAI's chat completions, and of compatible servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from understudy.providers.http.credentials import Secret
from understudy.providers.http.model_client import HttpModel
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn

from . import wire
from .families import OPENAI, is_official
from .stream import OpenAIStream


class OpenAI(HttpModel):
    """A model behind OpenAI's chat completions API, or a compatible server's.

    Blocking, and safe to share between threads. Making one checks the options and needs no key. OpenAI's newer models take no
    function tools here: `us.OpenAIResponses` is the client for them.

    Args:
        model: such as `gpt-4o`.
        api_key: the key, a `Secret`, or a function that returns one, called before each attempt and once more after HTTP
            status 401; without it `OPENAI_API_KEY` is read at each call. It is in no log, error or repr.
        base_url: the address with its version, such as `http://127.0.0.1:11434/v1`; without it `OPENAI_BASE_URL` is read
            at each call, else requests go to OpenAI. To other servers the limit on tokens is sent as `max_tokens`, which
            they know, and not as `max_completion_tokens`.
        options: those that all clients share, `ClientOptions`.
    """

    provider: ClassVar[str] = "openai"

    def _base(self) -> str:
        return self._root(OPENAI, "OPENAI_BASE_URL")

    def _url(self) -> str:
        return f"{self._base()}/chat/completions"

    def _auth(self, key: Secret) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key.reveal()}"}

    def _encode(self, request: ModelRequest) -> JsonObject:
        return wire.encode(request, self.model, official=is_official(self._base()))

    def _encode_stream(self, request: ModelRequest) -> JsonObject:
        # OpenAI API, Chat completions: without this option a stream has no counts of tokens.
        body = {"stream_options": {"include_usage": True}, **super()._encode_stream(request)}
        if body["stream_options"] is None:  # asked for by `extra`: some compatible servers refuse the option
            del body["stream_options"]
        return body

    def _decode(self, body: JsonObject) -> ModelTurn:
        return wire.decode(body)

    def _decoder(self) -> OpenAIStream:
        return OpenAIStream()
