"""The families of OpenAI's models: which of its two APIs each is asked by, and what it makes of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from understudy.providers.wire.families import NEVER_REASONS, Family
from understudy.providers.wire.families import family_of as row_of
from understudy.vocabulary.messages import JsonObject

OPENAI = "https://api.openai.com/v1"
HOST = "api.openai.com"
OWN_HOSTS = (
    HOST,  # also eu.api.openai.com and other regions (OpenAI API, Your data: data residency)
    "openai.azure.com",  # Azure OpenAI in Foundry, Endpoints: three names of one service
    "services.ai.azure.com",
    "cognitiveservices.azure.com",
)
"""Hosts of OpenAI's own models; a region's name, or a resource's, may stand before them."""

FINE_TUNED = "ft:"


def is_own_host(url: str) -> bool:
    """Whether OpenAI's own models are at this address, and not those of a compatible server."""
    return any(_is_at(url, host) for host in OWN_HOSTS)


def is_official(url: str) -> bool:
    """Whether an address is OpenAI's own, or that of one of its regions."""
    return _is_at(url, HOST)


def _is_at(url: str, host: str) -> bool:
    found = urlsplit(url).hostname or ""
    return found == host or found.endswith(f".{host}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenAIFamily(Family):
    """Models of OpenAI's that take the same settings."""

    has_responses: bool = True
    """Whether the Responses API is the one to ask: newer models refuse function tools in chat completions."""
    encrypted: bool = True
    """Whether encrypted reasoning can be asked for; other models refuse the request with status 400."""


def family_of(model: str) -> OpenAIFamily:
    """Return the family of a model; a name of no family is one that only an account or a compatible server knows."""
    found = row_of(FAMILIES, model.lower().removeprefix(FINE_TUNED))
    assert isinstance(found, OpenAIFamily)
    return found


def _words(*levels: str, off: bool = False) -> Mapping[str, str | int]:
    """Return levels by OpenAI's words for them, which are ours but for `none`."""
    return {**({"off": "none"} if off else {}), **{level: level for level in levels}}


EFFORTS = "OpenAI API, Reasoning models; model pages; SDK 3.54, types/shared/reasoning_effort.py"
CACHE = "OpenAI API, Prompt caching"
SHORT = "say in the system prompt how long the answer should be"
BY_KEY: Mapping[bool | str, JsonObject] = {True: {}}
"""Value of `cache` -> fields beside `prompt_cache_key`. OpenAI's models cache by themselves; the key helps them to find it."""
A_DAY: Mapping[bool | str, JsonObject] = {**BY_KEY, "24h": {"prompt_cache_retention": "24h"}}
AT_WILL: Mapping[bool | str, JsonObject] = {
    **A_DAY,
    "30m": {"prompt_cache_options": {"ttl": "30m"}},
    False: {"prompt_cache_options": {"mode": "explicit"}},  # without a breakpoint, nothing is cached
}
NO_STOP = "leave it out, or cut the answer"

FAMILIES = (
    OpenAIFamily(
        name="o3 and o4 deep research",
        pattern=r"^o\d.*deep-research",
        example="o4-mini-deep-research",
        caches=BY_KEY,
        source=EFFORTS,
        levels=_words("medium"),
        reasons=True,
        sampling="never",
        lacks={"verbosity": SHORT, "stop": NO_STOP},
    ),
    OpenAIFamily(
        name="o1, o3 and o4",
        pattern=r"^o\d",
        example="o4-mini",
        caches=BY_KEY,
        source=f"{EFFORTS}; types/chat/completion_create_params.py, stop",
        levels=_words("low", "medium", "high"),
        reasons=True,
        sampling="never",
        lacks={"verbosity": SHORT, "stop": NO_STOP},
    ),
    OpenAIFamily(
        name="search models",
        pattern=r"^gpt-[\w.]+-search-(api|preview)",
        example="gpt-5-search-api",
        has_responses=False,
        encrypted=False,
        caches=BY_KEY,
        source="OpenAI API, Web search",
        levels=NEVER_REASONS,
        sampling="never",
        lacks={"verbosity": SHORT},
    ),
    OpenAIFamily(
        name="GPT-5 chat",
        pattern=r"^gpt-5-chat",
        example="gpt-5-chat-latest",
        encrypted=False,
        caches=A_DAY,
        source=EFFORTS,
        levels=NEVER_REASONS,
        lacks={"verbosity": SHORT},
    ),
    OpenAIFamily(
        name="later chat models",
        pattern=r"^(gpt-\d+\.\d+-chat|chat-latest)",
        example="gpt-5.3-chat-latest",
        caches=A_DAY,
        source=EFFORTS,
        levels=_words("medium"),
        reasons=True,
        sampling="never",
        lacks={"verbosity": SHORT},
    ),
    OpenAIFamily(
        name="GPT-5 pro",
        pattern=r"^gpt-5-pro",
        example="gpt-5-pro",
        caches=A_DAY,
        source=EFFORTS,
        levels=_words("high"),
        reasons=True,
        sampling="never",
    ),
    OpenAIFamily(
        name="GPT-5.2 pro and later",
        pattern=r"^gpt-5\.\d+-pro",
        example="gpt-5.5-pro",
        caches=A_DAY,
        source=EFFORTS,
        levels=_words("medium", "high", "xhigh"),
        reasons=True,
        sampling="never",
    ),
    OpenAIFamily(
        name="GPT-5 and 5.1 codex",
        pattern=r"^gpt-5(\.1)?-codex",
        example="gpt-5.1-codex",
        caches=A_DAY,
        source=EFFORTS,
        levels=_words("low", "medium", "high"),
        reasons=True,
        sampling="never",
        lacks={"verbosity": SHORT},
    ),
    OpenAIFamily(
        name="GPT-5",
        pattern=r"^gpt-5(?!\.)",
        example="gpt-5-mini",
        caches=A_DAY,
        source=EFFORTS,
        levels=_words("minimal", "low", "medium", "high"),
        reasons=True,
        sampling="never",
    ),
    OpenAIFamily(
        name="GPT-5.1",
        pattern=r"^gpt-5\.1",
        example="gpt-5.1",
        caches=A_DAY,
        source=EFFORTS,
        levels=_words("low", "medium", "high", off=True),
        sampling="without reasoning",
    ),
    OpenAIFamily(
        name="GPT-5.2 to 5.4",
        pattern=r"^gpt-5\.[234]",
        example="gpt-5.4",
        caches=A_DAY,
        source=EFFORTS,
        levels=_words("low", "medium", "high", "xhigh", off=True),
        sampling="without reasoning",
    ),
    OpenAIFamily(
        name="GPT-5.5",
        pattern=r"^gpt-5\.5",
        example="gpt-5.5",
        caches=A_DAY,
        source=EFFORTS,
        levels=_words("low", "medium", "high", "xhigh", off=True),
        reasons=True,
        sampling="without reasoning",
    ),
    OpenAIFamily(
        name="GPT-5.6, GPT-6 Sol and Luna, GPT-6.1 Terra",
        pattern=r"^gpt-(5\.[6-9]|6-(sol|luna)|6\.1-terra)",
        example="gpt-5.6-sol",
        caches=AT_WILL,
        source=f"{EFFORTS}; {CACHE}",
        levels=_words("low", "medium", "high", "xhigh", "max", off=True),
        reasons=True,
        sampling="without reasoning",
    ),
    OpenAIFamily(
        name="GPT-6 Astra, GPT-6.1 Sol, and later models",
        pattern=r"^gpt-([6-9]|[1-9]\d)",
        example="gpt-6-astra",
        caches=AT_WILL,
        source=f"{EFFORTS}; {CACHE}; models without a row of their own: assumed",
        levels=_words("low", "medium", "high", "xhigh", "max"),
        reasons=True,
        sampling="never",
    ),
    OpenAIFamily(
        name="GPT-4.1",
        pattern=r"^gpt-4\.1",
        example="gpt-4.1",
        has_responses=False,
        encrypted=False,
        caches=A_DAY,
        source=f"OpenAI API, Model pages; {CACHE}",
        levels=NEVER_REASONS,
        lacks={"verbosity": SHORT},
    ),
    OpenAIFamily(
        name="GPT-4o and before",
        pattern=r"^(gpt-(3|4|audio|realtime|image)|chatgpt|davinci|babbage)",
        example="gpt-4o",
        has_responses=False,
        encrypted=False,
        caches=BY_KEY,
        source=f"OpenAI API, Model pages; {CACHE}",
        levels=NEVER_REASONS,
        lacks={"verbosity": SHORT},
    ),
    OpenAIFamily(
        name="computer use",
        pattern=r"^computer-use",
        example="computer-use-preview",
        encrypted=False,
        caches=BY_KEY,
        source="OpenAI API, Computer use",
        levels=_words("low", "medium", "high"),
        lacks={"verbosity": SHORT},
    ),
    OpenAIFamily(
        name="open models",
        pattern=r"^gpt-oss",
        example="gpt-oss-120b",
        has_responses=False,
        encrypted=False,
        source="served by others than OpenAI",
        levels=_words("low", "medium", "high"),
        reasons=True,
    ),
    OpenAIFamily(
        name="models of other names of OpenAI's",
        pattern=r"^(gpt-|codex|o\d)",
        example="gpt-daybreak-blue-latest",
        caches=AT_WILL,
        source="assumed: they reason",
        levels=_words("low", "medium", "high"),
        reasons=True,
        sampling="never",
    ),
    OpenAIFamily(
        name="models whose names tell no family",
        pattern="",
        example="my-deployment",
        has_responses=False,
        encrypted=False,
        caches=AT_WILL,
        source="names that only an account knows, such as deployments: nothing is refused",
        levels=_words("minimal", "low", "medium", "high", "xhigh", "max", off=True),
    ),
)

COMPATIBLE = OpenAIFamily(
    name="models of compatible servers",
    pattern="",
    example="llama3.2",
    source="vLLM, OpenRouter, Groq, Ollama and others: chat completions with `reasoning_effort`; the server judges",
    levels=_words("minimal", "low", "medium", "high", "xhigh", "max", off=True),
    has_responses=False,
    encrypted=False,
)
"""Models that are not at a host of OpenAI's, also if they bear a name of OpenAI's."""
