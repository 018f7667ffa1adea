"""Gemini models on Google Cloud's Vertex AI."""

from __future__ import annotations

from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn

from . import wire
from .stream import GoogleStream
from .vertex_model import VertexModel


class Vertex(VertexModel):
    """A Gemini model on Vertex AI; `VertexClaude` is the client of Claude there.

    Blocking, and safe to share between threads. Making one checks the options and needs no token.

    Args:
        model: such as `gemini-2.5-flash`.
        access_token: the token, a `Secret`, or a function that returns one, called before each attempt and once more after
            HTTP status 401. Without it Google's application default credentials are used, which needs the extra `vertex`;
            they are refreshed before they end, and once after HTTP status 401.
        project: the Google Cloud project; without it `GOOGLE_CLOUD_PROJECT` is read at each call, else it is the
            one of the default credentials.
        location: the region, or `global`, `us` or `eu`; without it `GOOGLE_CLOUD_LOCATION` is read at each call,
            else it is `global`.
        base_url: the address without a version; without it the location's own is asked.
        api_version: the version in the path.
        options: those that all clients share, `ClientOptions`.
    """

    publisher = "google"
    _added_ends = (":generateContent", ":streamGenerateContent")

    def _check_maker(self) -> None:
        if self.model.startswith("claude"):
            raise ValueError(f"Vertex is the client of Gemini; for Claude write VertexClaude({self.model!r})")

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
