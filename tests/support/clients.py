"""Clients that talk to the replay server."""

from __future__ import annotations

from understudy.providers import Anthropic, AzureOpenAI, Gemini, OpenAI, OpenAIResponses, Vertex
from understudy.providers.http.model_client import HttpModel

from .wire import Case


def client(case: Case, server: str, name: str = "", *, attempts: int = 1, timeout: float | None = None) -> HttpModel:
    """Return a client of the recorded model for one case; with the `name` of a loop it gets turn after turn."""
    base = f"{server}/{name or case.name}"
    match case.api:
        case "openai-responses":
            base += case.path.removesuffix("/responses")
            return OpenAIResponses(case.model, api_key="test-key", base_url=base, attempts=attempts, timeout=timeout)
        case "anthropic":
            return Anthropic(case.model, api_key="test-key", base_url=base, attempts=attempts, timeout=timeout)
        case "gemini":
            return Gemini(case.model, api_key="test-key", base_url=base, attempts=attempts, timeout=timeout)
        case "vertex":
            return Vertex(
                case.model,
                access_token="test-token",
                project="some-project",
                location="us-central1",
                base_url=base,
                api_version=case.path.split("/")[1],
                attempts=attempts,
                timeout=timeout,
            )
        case "azure-openai":
            return AzureOpenAI(
                case.path.split("/")[3],
                endpoint=base,
                api_key="test-key",
                api_version="2024-02-01",
                attempts=attempts,
                timeout=timeout,
            )
        case _:
            root = case.path.removesuffix("/chat/completions")
            return OpenAI(case.model, api_key="test-key", base_url=base + root, attempts=attempts, timeout=timeout)
