"""The client of Claude on Google Cloud's Vertex AI: Google's addresses and tokens, Anthropic's requests and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from understudy.providers.anthropic import wire
from understudy.providers.anthropic.client import beta_header, checked_betas
from understudy.providers.anthropic.stream import AnthropicStream
from understudy.providers.google.vertex import API_VERSION, VertexModel
from understudy.providers.http.client_options import ClientOptions
from understudy.providers.http.credentials import KeyLike, Secret
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn

MESSAGES_VERSION = "vertex-2023-10-16"
"""Stands in the body, in place of the header (Claude API, Claude on Vertex AI)."""


class VertexClaude(VertexModel):
    """A model of Anthropic's on Vertex AI.

    Blocking, and safe to share between threads. Making one checks the options and needs no token.

    Args:
        model: such as `claude-haiku-4-5@20251001`.
        access_token: the token, a `Secret`, or a function that returns one, called before each attempt and once more after
            HTTP status 401. Without it Google's application default credentials are used, which needs the extra `vertex`;
            they are refreshed before they end, and once after HTTP status 401.
        project: the Google Cloud project; without it `GOOGLE_CLOUD_PROJECT` is read at each call, else it is the
            one of the default credentials.
        location: a region that has the model, or `global`, `us` or `eu`; without it `GOOGLE_CLOUD_LOCATION` is read at each
            call, else it is `global`.
        base_url: the address without a version; without it the location's own is asked.
        api_version: the version in the path.
        betas: names of beta features, such as `context-1m-2025-08-07`, sent in the header `anthropic-beta`.
        options: those that all clients share, `ClientOptions`.
    """

    publisher = "anthropic"
    _added_ends = (":rawPredict", ":streamRawPredict")

    def __init__(
        self,
        model: str,
        *,
        access_token: KeyLike | None = None,
        project: str | None = None,
        location: str | None = None,
        base_url: str | None = None,
        api_version: str = API_VERSION,
        betas: Sequence[str] = (),
        **options: Unpack[ClientOptions],
    ) -> None:
        self._betas = checked_betas(betas)
        super().__init__(
            model,
            access_token=access_token,
            project=project,
            location=location,
            base_url=base_url,
            api_version=api_version,
            **options,
        )

    def _check_maker(self) -> None:
        if self.model.startswith("gemini"):
            raise ValueError(f"VertexClaude is the client of Claude; for Gemini write Vertex({self.model!r})")

    def _url(self) -> str:
        return f"{self._place()}:rawPredict"

    def _stream_url(self) -> str:
        return f"{self._place()}:streamRawPredict"

    def _auth(self, key: Secret) -> Mapping[str, str]:
        return {**super()._auth(key), **beta_header(self._betas)}

    def _encode(self, request: ModelRequest) -> JsonObject:
        body = {"anthropic_version": MESSAGES_VERSION, **wire.encode(request, self.model, self.provider)}
        if "model" not in request.settings.extra:
            del body["model"]  # it stands in the URL
        return body

    def _decode(self, body: JsonObject) -> ModelTurn:
        return wire.decode(body)

    def _decoder(self) -> AnthropicStream:
        return AnthropicStream()
