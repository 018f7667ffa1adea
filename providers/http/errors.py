"""Turns an HTTP error answer into understudy's error."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple
from unicodedata import category

from understudy.errors import (
    AuthenticationError,
    ContentBlocked,
    ContextOverflow,
    ProviderError,
    ProviderTimeout,
    RateLimited,
)
from understudy.providers.wire.blocks import refused_for
from understudy.providers.wire.json_values import is_array, is_object, items, text
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonObject, JsonValue

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


QUOTED = 200  # Characters of a body in an error message: enough to recognise a proxy's error page.
LONGEST_MESSAGE = 2_000
"""Characters of a server's message; the longest of the APIs, about their schemas, have some hundreds."""
MOST_CATEGORIES = 50
RETRYABLE = (408, 409, 429)
STATUS = re.compile("[45][0-9][0-9]")
STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "server_is_overloaded": 503,
    "vector_store_timeout": 504,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
}
"""Anthropic API, Errors, and OpenAI API, Error codes: the statuses of errors that come in a stream with status 200."""
FAILED_GENERATION = "failed_generation"
"""Groq API, Errors: the model's own text, which cannot be read as a call or an answer. The request is right, so another try may help."""
TOOL_USE_FAILED = "tool_use_failed"
EXHAUSTED = "insufficient_quota"  # OpenAI API, Error codes: a 429 that a retry does not solve.


def failure(status: int, headers: Mapping[str, str], body: bytes, *, provider: str, now: float) -> ProviderError:
    """Make the error for an answer with an error status.

    Args:
        headers: by lower-case name.
        now: seconds since the epoch, to read a date in `retry-after`.
    """
    return _error(_error_object(body), status, headers, body, provider, now)


def _error(
    said: JsonObject, status: int, headers: Mapping[str, str], body: bytes, provider: str, now: float
) -> ProviderError:
    overflow = overflow_in(said, _message(said), status)
    if overflow is not None:
        return ContextOverflow(
            _message(said) or f"{provider} refused the request as longer than the model's context window",
            tokens=overflow.tokens,
            limit=overflow.limit,
            provider=provider,
            status=status,
            code=_first(said, "code", "status", "type"),
            type=_first(said, "type", "status"),
        )
    categories = refused_for(said, _message(said), status)
    if categories is not None:
        return ContentBlocked(
            _message(said) or f"{provider} refused the request because of its content",
            reason=_first(said, "code", "status", "type"),
            categories=categories,
            provider=provider,
            status=status,
            code=_first(said, "code", "status", "type"),
            type=_first(said, "type", "status"),
        )
    kind = _kind(status, said)
    return kind(
        _message(said) or f"{provider} answered with HTTP status {status}: {quoted(body)}",
        provider=provider,
        status=status,
        code=_first(said, "code", "status", "type"),
        type=_first(said, "type", "status"),
        retry_after=retry_after(headers, said, now),
        retryable=_retryable(status, headers, said),
    )


def quoted(body: bytes) -> str:
    """Return the beginning of a body for an error message."""
    shown = " ".join(body[: QUOTED * 4].decode("utf-8", "replace").split())
    return repr(shown[:QUOTED]) + (" …" if len(shown) > QUOTED else "") if shown else "an empty body"


def one_line(text: str, longest: int) -> str:
    """Return the beginning of a server's text, with line breaks and other control characters as Python escapes them."""
    begin = text[:longest] + (" …" if len(text) > longest else "")
    if begin.isprintable():
        return begin
    return "".join(
        [c if c.isprintable() or category(c) == "Zs" else c.encode("unicode_escape").decode() for c in begin]
    )


def retry_after(headers: Mapping[str, str], said: JsonObject, now: float) -> float | None:
    """Return the seconds that a provider asked to wait, or None.

    If header and body both give a wait, the longer one counts: a gateway may forward an outdated header.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    header = headers.get("retry-after", "")
    seconds = _number(header)
    if seconds is None and header:
        seconds = _until(header, now)
    asked = [] if milliseconds is None else [milliseconds / 1000]
    asked += [] if seconds is None else [seconds]
    return max(asked) if asked else _retry_info(said)


def _until(header: str, now: float) -> float | None:
    """RFC 9110, 10.2.3: Retry-After is seconds or a date."""
    import email.utils  # imported here: it loads sockets and calendars, and servers rarely send a date

    try:
        date = email.utils.parsedate_tz(header)
        return None if date is None else max(0.0, email.utils.mktime_tz(date) - now)
    except (ValueError, OverflowError):  # no such day, or a year of many digits
        return None


def _retry_info(said: JsonObject) -> float | None:
    """Gemini API, Troubleshooting: the wait is in `details`, as `google.rpc.RetryInfo` with `retryDelay: "48s"`."""
    if not is_array(said.get("details")):
        return None
    for detail in items(said, "details", "details"):
        if is_object(detail) and text(detail, "@type").endswith("google.rpc.RetryInfo"):
            return _number(text(detail, "retryDelay").removesuffix("s"))
    return None


def _number(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _error_object(body: bytes) -> JsonObject:
    """Find the object that describes the error, in the forms that providers and compatible servers use."""
    try:
        value: JsonValue = parse(body)
    except ValueError:
        return {}
    if is_array(value) and value:
        value = value[0]
    if not is_object(value):
        return {}
    error = value.get("error")
    if is_object(error):
        return error
    return {**value, "message": error} if isinstance(error, str) else value


def _message(said: JsonObject) -> str:
    for key in ("message", "detail"):
        if text(said, key):
            return text(said, key)
    detail = said.get("detail")
    return "" if detail is None else str(detail)[:QUOTED]


def _first(said: JsonObject, *keys: str) -> str:
    """Return the first text under one of these keys: OpenAI has `code` and `type`, Anthropic `type`, Google `status`."""
    return next(filter(None, [text(said, key) for key in keys]), "")


def _kind(status: int, said: JsonObject) -> type[ProviderError]:
    match status:
        case 401 | 403:
            return AuthenticationError
        case 400 if "API_KEY_INVALID" in _reasons(said):
            return AuthenticationError
        case 429:
            return RateLimited
        case 408 | 504:
            return ProviderTimeout
        case _:
            return ProviderError


def _reasons(said: JsonObject) -> list[str]:
    """Google API errors (AIP-193): `details` holds an `ErrorInfo` with a `reason`."""
    details = said.get("details")
    return [text(d, "reason") for d in details if is_object(d)] if is_array(details) else []


def _retryable(status: int, headers: Mapping[str, str], said: JsonObject) -> bool:
    if text(said, FAILED_GENERATION) or text(said, "code") == TOOL_USE_FAILED:
        return True
    if EXHAUSTED in (text(said, "code"), text(said, "type")):
        return False
    match headers.get("x-should-retry", "").lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            return status in RETRYABLE or status >= 500


def embedded_failure(value: JsonValue, body: bytes, *, provider: str) -> ProviderError | None:
    """Return the error that some compatible servers put into an answer with status 200, or None.

    OpenRouter API, Errors: the error is in the body, or in the choice that it ended. As in a stream, the error may be a text, and
    the whole body may be the error.
    """
    return streamed_failure(value, body, "", provider=provider, hide=bytes) if is_object(value) else None


MAY_TELL_ERRORS = frozenset(("choices", "error", "object", "response"))
"""An event that neither has the name `error` nor this type tells an error only in one of these fields."""


def streamed_failure(
    value: JsonObject, event: bytes, name: str, *, provider: str, hide: Callable[[bytes], bytes]
) -> ProviderError | None:
    """Return the error that an event of a stream tells, or None.

    Args:
        value: the event's data.
        event: the same as bytes.
        hide: takes the key out of these.
        name: its field `event`. Groq sends errors as events named `error`. Other servers put the error into an ordinary event;
            for vLLM the whole event is the error, and for a few servers the error is a text.
    """
    if name != "error" and MAY_TELL_ERRORS.isdisjoint(value) and value.get("type") != "error":  # most: pieces of text
        return None
    is_error = "error" in (name, value.get("object"), value.get("type")) or bool(text(value, "error"))
    if _embedded(value) is None and not is_error:
        return None
    body = hide(event)
    said = _embedded(parse(body, in_range=False)) or _error_object(body)
    if said.get("type") == "error":  # that of the event, as in OpenAI's Responses
        said = {key: each for key, each in said.items() if key != "type"}
    return _error(said, _told_status(said), {}, body, provider, 0.0)


def _told_status(said: JsonObject) -> int:
    """Return the status of an error inside an answer: 200 if nothing in it tells one."""
    for key in ("code", "status_code"):
        told = said.get(key)
        # LiteLLM, Exception mapping: the status is a text.
        status = int(told) if isinstance(told, str) and STATUS.fullmatch(told) else told
        if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:
            return status
    return next(
        (STATUS_OF_TYPE[word] for word in (text(said, "type"), text(said, "code")) if word in STATUS_OF_TYPE), 200
    )


def _embedded(value: JsonValue) -> JsonObject | None:
    if not is_object(value):
        return None
    choices = value.get("choices")
    # OpenAI API, Responses, Streaming: `response.failed` has the whole response, and the error in it.
    for place in (value, choices[0] if is_array(choices) and choices else None, value.get("response")):
        error = place.get("error") if is_object(place) else None
        if is_object(error) and error:
            return error
    return None
