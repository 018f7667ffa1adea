"""Request bodies as each API's wire format writes them, without a client."""

from __future__ import annotations

from understudy.providers.anthropic import wire as anthropic_wire
from understudy.providers.google import wire as google_wire
from understudy.providers.openai import wire as openai_wire
from understudy.providers.openai.responses import request as responses_wire
from understudy.providers.openai.responses.input_items import items_of
from understudy.vocabulary.messages import JsonObject, ModelRequest


def body_of(api: str, request: ModelRequest, model: str = "m") -> JsonObject:
    """Return the body for a request.

    Args:
        api: `openai`, `openai-responses`, `anthropic`, `gemini`, `vertex`; or `openai/NAME`, a compatible server with that dialect.
        request: the request.
        model: the model's name.
    """
    match api:
        case "openai":
            return openai_wire.encode(request, model, official=True)
        case "openai-responses":
            return responses_body(request, model)
        case "anthropic":
            return anthropic_wire.encode(request, model)
        case "gemini" | "vertex":
            return google_wire.encode(request, model, provider=api)
        case _ if api.startswith("openai/"):
            return openai_wire.encode(request, model, official=False, dialect=api)
        case _:
            raise AssertionError(f"no API {api!r}")


def responses_body(request: ModelRequest, model: str = "m", *, official: bool = True) -> JsonObject:
    """Return the body of the Responses API for a model that takes reasoning."""
    history = items_of(request.messages, official=official, reasons=True, store=False)
    return responses_wire.encode(request, history, model, official=official)
