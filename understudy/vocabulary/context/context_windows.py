"""Context windows of models: how many tokens the prompt of a request may have."""

from __future__ import annotations

from understudy.vocabulary.models import Model, ModelName, name_of


def context_window_of(model: ModelName | Model) -> int | None:
    """Return how many tokens a prompt of this model may have; None if it is unknown.

    A model object says it as `context_window`. Published windows are known by model string.
    """
    own: object = getattr(model, "context_window", None)
    if isinstance(own, int) and not isinstance(own, bool) and own > 0:
        return own
    return _PUBLISHED.get(name_of(model))


# As the providers document them. Left out are models whose window depends on the account or on a header: no window is
# better than a wrong one.
_PUBLISHED = {
    "openai:gpt-4o": 128_000,
    "openai:gpt-4o-mini": 128_000,
    "openai:gpt-4.1": 1_047_576,
    "openai:gpt-4.1-mini": 1_047_576,
    "openai:gpt-4.1-nano": 1_047_576,
    "openai:gpt-5": 272_000,  # of 400,000, of which 128,000 are for the answer
    "openai:gpt-5-mini": 272_000,
    "openai:gpt-5-nano": 272_000,
    "openai:gpt-5.1": 272_000,
    "anthropic:claude-haiku-4-5": 200_000,
    "anthropic:claude-opus-4-5": 200_000,
    "gemini:gemini-2.5-flash": 1_048_576,
    "gemini:gemini-2.5-flash-lite": 1_048_576,
    "gemini:gemini-2.5-pro": 1_048_576,
    "vertex:gemini-2.5-flash": 1_048_576,
    "vertex:gemini-2.5-flash-lite": 1_048_576,
    "vertex:gemini-2.5-pro": 1_048_576,
}
