"""Recognises the refusal of a request that is longer than the model's context window, in the words of each API."""

from __future__ import annotations

import re
from typing import NamedTuple

from understudy.providers.wire.json_values import text
from understudy.vocabulary.messages import JsonObject

CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI API, Error codes; Azure OpenAI, Groq, OpenRouter
        "exceed_context_size_error",  # llama.cpp server, `type`
    }
)
"""Words for it in the fields `code` and `type`."""

_NUMBER = r"(?P<{}>[0-9][0-9,]*)"
_TOKENS = _NUMBER.format("tokens")
_LIMIT = _NUMBER.format("limit")
WORDS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # Anthropic: "prompt is too long: 210000 tokens > 200000 maximum"
        rf"prompt is too long(?:: {_TOKENS} tokens > {_LIMIT} maximum)?",
        # Anthropic: "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000"
        rf"exceed context limit: {_TOKENS} \+ [0-9]+ > {_LIMIT}",
        # Gemini: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
        rf"input token count(?: \({_TOKENS}\))? exceeds the maximum number of tokens allowed(?: \(?{_LIMIT}\)?)?",
        # Vertex AI: "the input token count is 1200000 but model only supports up to 1048576"
        rf"input token count is {_TOKENS} but (?:the )?model only supports up to {_LIMIT}",
        # OpenAI, vLLM, OpenRouter: "maximum context length is 4096 tokens. However, you requested 5000 tokens"
        rf"maximum context length is {_LIMIT} tokens.{{0,80}}?(?:requested|resulted in)(?: about| over)? {_TOKENS} tokens",
        # vLLM: "You passed 5000 input tokens and requested 100 output tokens. However, the model's context length is only 4096"
        rf"passed {_TOKENS} input tokens.{{0,80}}?context length is only {_LIMIT}",
        # vLLM: "The decoder prompt (length 5000) is longer than the maximum model length of 4096."
        rf"prompt \(length {_TOKENS}\) is longer than the maximum model length of {_LIMIT}",
        # SGLang: "The input (5000 tokens) is longer than the model's context length (4096 tokens)."
        rf"input \({_TOKENS} tokens\) is longer than the model's context length \({_LIMIT} tokens\)",
        # llama.cpp: "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it"
        rf"(?:request \({_TOKENS} tokens\) )?exceeds the available context size(?: \({_LIMIT} tokens\))?",
        # Mistral: "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"
        rf"prompt contains {_TOKENS} tokens.{{0,60}}?too large for model with {_LIMIT} maximum context length",
        # xAI: "This model's maximum prompt length is 131072 but the request contains 537812 tokens."
        rf"maximum prompt length is {_LIMIT} but the request contains {_TOKENS} tokens",
        # TGI: "`inputs` must have less than 4096 tokens. Given: 5000"
        rf"`inputs` must have less than {_LIMIT} tokens\. Given: {_TOKENS}",
        # Ollama: "prompt too long; exceeded max context length by 120 tokens", "the input length exceeds the context length"
        r"prompt too long; exceeded (?:max )?context length",
        r"input length exceeds the (?:available )?context (?:length|size|window)",
        # OpenAI, Responses: "Your input exceeds the context window of this model."
        r"exceeds the context window of this model",
        rf"maximum context length (?:is|of) {_LIMIT}",
        # Bedrock
        r"input is too long for requested model",
    )
)
"""The messages of the APIs, each as it was seen; those that tell more numbers come first."""
MOST_DIGITS = 18
"""A longer number is no count of tokens, and Python reads none of more than 4,300 digits."""
ALSO_REFUSED = (400, 413, 422, 500, 200)
"""Statuses that such a refusal has; 200 is an error inside of an answer. A 429 means too many tokens a minute."""


class Overflow(NamedTuple):
    """The numbers of a refusal; None where the API does not say one."""

    tokens: int | None
    limit: int | None


def overflow_in(said: JsonObject, message: str, status: int) -> Overflow | None:
    """Return the numbers of a refusal because of the length; None for any other error."""
    named = not CODES.isdisjoint((text(said, "code"), text(said, "type")))
    if not named and status not in ALSO_REFUSED:
        return None
    for words in WORDS:
        found = words.search(message)
        if found:
            numbers = found.groupdict()
            return Overflow(
                _whole(numbers.get("tokens")) or _count(said, "n_prompt_tokens"),
                _whole(numbers.get("limit")) or _count(said, "n_ctx"),
            )
    return Overflow(_count(said, "n_prompt_tokens"), _count(said, "n_ctx")) if named else None


def _whole(digits: str | None) -> int | None:
    return None if not digits or len(digits) > MOST_DIGITS else int(digits.replace(",", "")) or None


def _count(said: JsonObject, key: str) -> int | None:
    number = said.get(key)
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 10**MOST_DIGITS else None
