"""Google's Gemini API."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Unpack
from urllib.parse import quote

from understudy.providers.http.client_options import ClientOptions
from understudy.providers.http.credentials import KeyLike, Secret
from understudy.providers.http.model_client import HttpModel
from understudy.providers.http.options import checked_version
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn

from . import wire
from .stream import GoogleStream

GEMINI = "https://generativelanguage.googleapis.com"
API_VERSION = "v1beta"  # Gemini API, API versions: the version with tools, thinking and JSON Schema.


class GenerateContent(HttpModel):
    """A model behind generateContent, wherever it is: the addresses under its place, requests and answers."""

    _added_ends = (":generateContent", ":streamGenerateContent")

    @abstractmethod
    def _place(self) -> str:
        """Return the URL of the model, without the method."""

    def _url(self) -> str:
        return f"{self._place()}:generateContent"

    def _stream_url(self) -> str:
        return f"{self._place()}:streamGenerateContent?alt=sse"

    def _encode(self, request: ModelRequest) -> JsonObject:
        return wire.encode(request, self.model, provider=self.provider)

    def _encode_stream(self, request: ModelRequest) -> JsonObject:
        return self._encode(request)  # the URL asks for the stream

    def _decode(self, body: JsonObject) -> ModelTurn:
        return wire.decode(body)

    def _decoder(self) -> GoogleStream:
        return GoogleStream()


class Gemini(GenerateContent):
    """A model behind Google's Gemini API.

    Blocking, and safe to share between threads. Making one checks the options and needs no key.

    Args:
        model: such as `gemini-2.5-flash`; `models/gemini-2.5-flash` is the same.
        api_key: the key, a `Secret`, or a function that returns one, called before each attempt and once more after HTTP
            status 401; without it `GEMINI_API_KEY` or `GOOGLE_API_KEY` is read at each call. It is in no log, error
            or repr.
        base_url: the address without a version; without it Google is asked.
        api_version: the version in the path.
        options: those that all clients share, `ClientOptions`.
    """

    provider = "gemini"

    def __init__(
        self,
        model: str,
        *,
        api_key: KeyLike | None = None,
        base_url: str | None = None,
        api_version: str = API_VERSION,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._added_version = checked_version(api_version)
        super().__init__(model, api_key=api_key, base_url=base_url, **options)

    def _place(self) -> str:
        # The name of a tuned model has a collection of its own before the slash.
        name = self.model if "/" in self.model else f"models/{self.model}"
        return f"{self._root(GEMINI)}/{self._added_version}/{quote(name)}"

    def _auth(self, key: Secret) -> Mapping[str, str]:
        return {"x-goog-api-key": key.reveal()}
