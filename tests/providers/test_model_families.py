"""What each family of models makes of the settings: one line a model, from the providers' pages, and not from the code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import understudy as us
from tests.support import bodies
from tests.support.wire import obj
from understudy.providers.anthropic.families import FAMILIES as CLAUDE
from understudy.providers.google.families import FAMILIES as GEMINI
from understudy.providers.http.model_client import HttpModel
from understudy.providers.openai.families import COMPATIBLE, OPENAI, is_own_host
from understudy.providers.openai.families import FAMILIES as GPT
from understudy.providers.settings_page import APIS, NONE, SAMPLES, TOOL, Api, by_api, cell, settings_page
from understudy.providers.wire.families import Family, family_of
from understudy.vocabulary.messages import JsonObject, ModelRequest, Settings, user_message

APIS_OF = {"responses": "openai-responses", "server": "openai/server"}
"""Prefix of a model here -> the API, where they differ."""


def body_of(model: str, settings: Settings) -> JsonObject:
    """Return the request body for a model string; `server:` stands for a compatible server, `responses:` for that API."""
    prefix, _, name = model.partition(":")
    request = ModelRequest((user_message("Hello"),), settings=settings)
    return bodies.body_of(APIS_OF.get(prefix, prefix), request, name)


def changes(model: str, settings: Settings) -> JsonObject:
    """Return the fields of the body that the settings changed."""
    plain = body_of(model, Settings())
    return {key: value for key, value in body_of(model, settings).items() if plain.get(key) != value}


def said(model: str, settings: Settings) -> str:
    """Return the settings' word in a body for reasoning; `.` if there is none, `-` if it is refused."""
    try:
        body = body_of(model, settings)
    except ValueError:
        return "-"
    config = obj(obj(body.get("generationConfig", {})).get("thinkingConfig", {}))
    thinking = obj(body.get("thinking", {}))
    found = [
        body.get("reasoning_effort"),
        obj(body.get("reasoning", {})).get("effort"),
        config.get("thinkingLevel", config.get("thinkingBudget")),
        obj(body.get("output_config", {})).get("effort"),
        thinking.get("budget_tokens") or (None if thinking.get("type") == "adaptive" else thinking.get("type")),
    ]
    return next((str(word) for word in found if word is not None), ".")


ROOT = Path(__file__).parents[2]
ASKED: tuple[str | int, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max", 8000)
EFFORTS = "low medium high xhigh max"
CLAUDE_4 = "disabled 1024 2048 8192 16384 - - 8000"
REASONING = {
    "anthropic:claude-opus-5-5": f"- - {EFFORTS} -",
    "anthropic:claude-fable-5-2": f"- - {EFFORTS} -",
    "anthropic:claude-fable-5": f"- - {EFFORTS} -",
    "anthropic:claude-mythos-preview": f"- - {EFFORTS} -",
    "anthropic:claude-sonnet-5-5": f"between_tools - {EFFORTS} -",
    "anthropic:claude-opus-5": f"disabled - {EFFORTS} -",
    "anthropic:claude-opus-5-20260724": f"disabled - {EFFORTS} -",
    "anthropic:claude-sonnet-5": f"disabled - {EFFORTS} -",
    "anthropic:claude-haiku-5-5": f"disabled - {EFFORTS} -",
    "anthropic:claude-opus-4-8": f"disabled - {EFFORTS} -",
    "anthropic:claude-opus-4-7-20260416": f"disabled - {EFFORTS} -",
    "anthropic:anthropic/claude-opus-4.7": f"disabled - {EFFORTS} -",
    "anthropic:claude-opus-4-6": "disabled - low medium high - max 8000",
    "anthropic:claude-sonnet-4-6@default": "disabled - low medium high - max 8000",
    "anthropic:claude-haiku-4-5-20251001": CLAUDE_4,
    "anthropic:claude-opus-4-5": CLAUDE_4,
    "anthropic:claude-opus-4-1-20250805": CLAUDE_4,
    "anthropic:claude-opus-4-20250514": CLAUDE_4,
    "anthropic:claude-sonnet-4-0": CLAUDE_4,
    "anthropic:claude-3-7-sonnet-20250219": CLAUDE_4,
    "anthropic:claude-3-5-haiku-20241022": ". - - - - - - -",
    "anthropic:claude-3-haiku-20240307": ". - - - - - - -",
    "anthropic:claude-opus-6": f"- - {EFFORTS} -",
    "anthropic:claude-sonnet-5-7": f"- - {EFFORTS} -",
    "anthropic:kimi-k2": CLAUDE_4,
    "openai:o1": "- - low medium high - - -",
    "openai:o3": "- - low medium high - - -",
    "openai:o4-mini-2025-04-16": "- - low medium high - - -",
    "openai:o3-deep-research": "- - - medium - - - -",
    "openai:gpt-5": "- minimal low medium high - - -",
    "openai:gpt-5-nano-2025-08-07": "- minimal low medium high - - -",
    "openai:gpt-5-chat-latest": ". - - - - - - -",
    "openai:gpt-5-pro": "- - - - high - - -",
    "openai:gpt-5.1": "none - low medium high - - -",
    "openai:gpt-5.1-codex-mini": "- - low medium high - - -",
    "openai:gpt-5.1-chat-latest": "- - - medium - - - -",
    "openai:chat-latest": "- - - medium - - - -",
    "openai:gpt-5.2": "none - low medium high xhigh - -",
    "openai:gpt-5.2-pro": "- - - medium high xhigh - -",
    "openai:gpt-5.4-mini-2026-03-17": "none - low medium high xhigh - -",
    "openai:gpt-5.5": "none - low medium high xhigh - -",
    "openai:gpt-5.6-luna": "none - low medium high xhigh - -",  # `max` is for the Responses API only
    "openai:gpt-6-sol": "none - low medium high xhigh - -",
    "openai:gpt-6.1-terra": "none - low medium high xhigh - -",
    "openai:gpt-6-astra": "- - low medium high xhigh - -",
    "openai:gpt-6.1-sol": "- - low medium high xhigh - -",
    "openai:gpt-7": "- - low medium high xhigh - -",
    "openai:gpt-4.1-mini": ". - - - - - - -",
    "openai:ft:gpt-4o-mini-2024-07-18:shop::id": ". - - - - - - -",
    "openai:gpt-3.5-turbo": ". - - - - - - -",
    "openai:gpt-5-search-api": ". - - - - - - -",
    "openai:computer-use-preview": "- - low medium high - - -",
    "openai:gpt-oss-120b": "- - low medium high - - -",
    "openai:gpt-daybreak-blue-latest": "- - low medium high - - -",
    "responses:gpt-5.6-sol": f"none - {EFFORTS} -",
    "responses:gpt-6-luna": f"none - {EFFORTS} -",
    "responses:gpt-6-astra": f"- - {EFFORTS} -",
    "responses:gpt-5-nano": "- minimal low medium high - - -",
    "responses:gpt-4o": ". - - - - - - -",
    "responses:my-deployment": "none minimal low medium high xhigh max -",
    "openai:my-deployment": "none minimal low medium high xhigh - -",
    "server:gpt-5": "none minimal low medium high xhigh max -",
    "server:llama3.2": "none minimal low medium high xhigh max -",
    "gemini:gemini-2.5-pro": "- 1024 1024 8192 24576 - - 8000",
    "gemini:models/gemini-2.5-flash": "0 1024 1024 8192 24576 - - 8000",
    "gemini:gemini-2.5-flash-lite": "0 1024 1024 8192 24576 - - 8000",
    "gemini:gemini-2.5-flash-image": ". - - - - - - -",
    "gemini:gemini-2.0-flash": ". - - - - - - -",
    "gemini:gemma-3-27b-it": ". - - - - - - -",
    "gemini:gemini-3-pro-preview": "- - low - high - - -",
    "gemini:gemini-3.1-pro-preview": "- - low medium high - - -",
    "gemini:gemini-3-flash-preview": "- minimal low medium high - - -",
    "vertex:gemini-3.5-flash": "- minimal low medium high - - -",
    "gemini:gemini-3.6-flash": "- minimal low medium high - - -",
    "gemini:gemini-3.8-flash": "- - low medium high - - -",
    "gemini:gemini-4-argon": "- - low medium high - - -",
    "gemini:gemini-flash-latest": "- - low medium high - - -",
    "gemini:tunedModels/mine": "0 1024 1024 8192 24576 - - 8000",
}
"""Model -> what is sent for each of `ASKED`: the API's word, `.` for nothing, `-` if it is refused."""


@pytest.mark.parametrize("model", REASONING)
def test_reasoning_becomes_the_word_of_the_models_family(model: str) -> None:
    assert " ".join([said(model, Settings(reasoning=asked)) for asked in ASKED]) == REASONING[model]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("model", "settings", "sent"),
    [
        (
            "anthropic:claude-opus-4-7",
            Settings(reasoning="high"),
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}, "max_tokens": 32_768},
        ),
        (
            "anthropic:claude-haiku-4-5",
            Settings(reasoning="low"),
            {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 4096 + 2048},
        ),
        ("anthropic:claude-haiku-4-5", Settings(reasoning="off"), {"thinking": {"type": "disabled"}}),
        ("anthropic:claude-opus-5", Settings(reasoning="off"), {"thinking": {"type": "disabled"}, "max_tokens": 4096}),
        (
            "openai:gpt-5.5",
            Settings(reasoning="off", temperature=0.5),
            {"reasoning_effort": "none", "temperature": 0.5},
        ),
        (
            "gemini:gemini-3-flash-preview",
            Settings(reasoning="low"),
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True}}},
        ),
        (
            "vertex:gemini-2.5-flash",
            Settings(reasoning="off"),
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0, "includeThoughts": False}}},
        ),
        ("openai:gpt-5", Settings(max_tokens=9), {"max_completion_tokens": 9}),
        ("server:gpt-5", Settings(max_tokens=9), {"max_tokens": 9}),
        ("responses:gpt-5", Settings(reasoning="low"), {"reasoning": {"effort": "low"}}),
        ("responses:gpt-5.5", Settings(reasoning="off"), {"reasoning": {"effort": "none"}}),
        ("responses:gpt-5", Settings(verbosity="low"), {"text": {"verbosity": "low"}}),
        ("responses:gpt-5", Settings(service_tier="standard"), {"service_tier": "default"}),
        ("responses:gpt-5.6-sol", Settings(cache=False), {"prompt_cache_options": {"mode": "explicit"}}),
        ("openai:gpt-5", Settings(verbosity="low"), {"verbosity": "low"}),
        ("openai:gpt-5.6-sol", Settings(verbosity="high"), {"verbosity": "high"}),
        ("openai:gpt-5", Settings(service_tier="standard"), {"service_tier": "default"}),
        ("openai:gpt-5", Settings(service_tier="flex"), {"service_tier": "flex"}),
        ("openai:gpt-5", Settings(service_tier="priority"), {"service_tier": "priority"}),
        ("openai:gpt-5", Settings(service_tier="auto"), {"service_tier": "auto"}),
        ("openai:gpt-5", Settings(service_tier="scale"), {"service_tier": "scale"}),
        ("openai:gpt-5", Settings(service_tier="default"), {"service_tier": "default"}),
        ("anthropic:claude-opus-5", Settings(service_tier="auto"), {"service_tier": "auto"}),
        ("anthropic:claude-opus-5", Settings(service_tier="standard"), {"service_tier": "standard_only"}),
        ("gemini:gemini-3.8-flash", Settings(service_tier="standard"), {"serviceTier": "standard"}),
        ("gemini:gemini-3.8-flash", Settings(service_tier="flex"), {"serviceTier": "flex"}),
        ("gemini:gemini-3.8-flash", Settings(cache=True), {}),
        ("gemini:gemini-2.5-flash", Settings(strict_tools=False), {}),
        ("anthropic:claude-opus-5", Settings(cache=False), {}),
        ("openai:gpt-5.6-sol", Settings(cache=False), {"prompt_cache_options": {"mode": "explicit"}}),
    ],
)
def test_a_setting_becomes_these_fields(model: str, settings: Settings, sent: JsonObject) -> None:
    assert changes(model, settings) == sent


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (
            "anthropic:claude-opus-4-7",
            Settings(temperature=0.5),
            "no temperature for Claude Opus 4.7 and 4.8; leave it out",
        ),
        ("anthropic:claude-opus-5", Settings(top_p=0.5, reasoning="off"), "no top_p"),
        (
            "anthropic:claude-haiku-4-5",
            Settings(temperature=0.5, reasoning=2000),
            "while they reason; leave it out, or set reasoning='off'",
        ),
        ("anthropic:claude-haiku-4-5", Settings(reasoning=1023), "expected from 1,024 to 200,000 tokens, or 'off'"),
        ("anthropic:claude-haiku-4-5", Settings(tool_choice="required", reasoning="low"), "use 'auto'"),
        (
            "anthropic:claude-opus-5-5",
            Settings(tool_choice="look"),
            "tool_choice='look' for .*; use tool_choice='auto'",
        ),
        (
            "anthropic:claude-opus-4-8",
            Settings(thinking_tokens=2000),
            "no budget of tokens .*; expected off, low, medium,",
        ),
        ("anthropic:claude-opus-5", Settings(verbosity="low"), "no verbosity; say in the system prompt"),
        ("anthropic:claude-opus-5", Settings(service_tier="flex"), "no service_tier='flex'; expected auto, standard"),
        ("anthropic:claude-opus-5", Settings(cache="24h"), "no cache='24h'; expected True, False, '5m' or '1h'"),
        ("anthropic:claude-opus-5", Settings(cache="cachedContents/a"), "no caches with a name; expected True, False"),
        ("anthropic:claude-3-5-haiku-20241022", Settings(strict_tools=True), "use Claude 4.5 or later"),
        ("openai:o3", Settings(temperature=1.0), "no temperature for o1, o3 and o4; leave it out"),
        ("openai:o4-mini", Settings(stop=("END",)), "no stop=.* for o1, o3 and o4"),
        ("openai:gpt-5.5", Settings(top_p=0.5), "while they reason; leave it out, or set reasoning='off'"),
        ("openai:gpt-5.1", Settings(temperature=0.5, reasoning="low"), "no temperature for GPT-5.1 while they reason"),
        (
            "openai:gpt-4o",
            Settings(verbosity="low"),
            "no verbosity='low' for GPT-4o and before; say in the system prompt",
        ),
        ("openai:gpt-4o", Settings(reasoning="low"), "no reasoning='low' for GPT-4o and before; expected off"),
        ("openai:gpt-5.6-sol", Settings(reasoning="max"), "no reasoning='max' in chat completions"),
        ("openai:gpt-5", Settings(cache=False), "no cache=False for GPT-5; it caches by itself; expected True, '24h'"),
        ("openai:gpt-4o", Settings(cache="24h"), "no cache='24h' for GPT-4o and before"),
        ("openai:gpt-5", Settings(cache="5m"), "no cache='5m' for GPT-5"),
        (
            "server:llama3.2",
            Settings(cache=True),
            "no cache=True for models of compatible servers; leave it out, or use extra",
        ),
        ("gemini:gemini-3.8-flash", Settings(temperature=0.5), "no temperature for Gemini 3.7 and later; leave it out"),
        ("gemini:gemini-2.5-pro", Settings(reasoning=100), "expected from 128 to 32,768 tokens"),
        ("gemini:gemini-2.5-pro", Settings(verbosity="low"), "no verbosity"),
        ("gemini:gemini-2.5-pro", Settings(strict_tools=True), "no strict_tools; leave it out; .*VALIDATED"),
        ("openai:gpt-5", Settings(service_tier="priorty"), "no service_tier='priorty'; did you mean 'priority'?"),
        ("responses:gpt-5", Settings(service_tier="Flex"), "no service_tier='Flex'; did you mean 'flex'?"),
        (
            "anthropic:claude-opus-5",
            Settings(service_tier="standard-only"),
            "did you mean 'standard_only'",
        ),
        ("gemini:gemini-2.5-pro", Settings(service_tier="auto"), "expected standard, flex, priority"),
        ("vertex:gemini-2.5-pro", Settings(service_tier="flex"), "vertex has no service_tier='flex'; expected none"),
        ("vertex:gemini-2.5-pro", Settings(service_tier="dedicated"), "vertex has no service_tier='dedicated'"),
        ("gemini:gemini-2.5-pro", Settings(cache=False), "expected True, or the name of a cache: 'cachedContents/…'"),
        ("gemini:gemini-2.5-pro", Settings(cache="1h"), "expected True, or the name of a cache"),
        ("anthropic:claude-haiku-4-5", Settings(temperature=1.01), "no temperature=1.01; expected from 0 to 1$"),
        ("openai:gpt-4o", Settings(temperature=2.5), "no temperature=2.5; expected from 0 to 2$"),
        ("responses:gpt-4o", Settings(temperature=2.5), "no temperature=2.5; expected from 0 to 2$"),
        ("gemini:gemini-2.5-flash", Settings(temperature=2.5), "no temperature=2.5; expected from 0 to 2$"),
    ],
)
def test_what_a_family_or_an_api_lacks_is_refused_with_a_hint(model: str, settings: Settings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        body_of(model, settings)


@pytest.mark.parametrize(
    ("model", "temperature"),
    [
        ("anthropic:claude-haiku-4-5", 1.0),
        ("openai:gpt-4o", 2.0),
        ("gemini:gemini-2.5-flash", 2.0),
        ("anthropic:kimi-k2", 3.0),
        ("openai:my-deployment", 3.0),
        ("server:gpt-4o", 3.0),
    ],
)
def test_a_temperature_within_the_range_of_its_api_is_sent_and_any_to_models_that_nobody_knows(
    model: str, temperature: float
) -> None:
    sent = changes(model, Settings(temperature=temperature))

    assert sent in ({"temperature": temperature}, {"generationConfig": {"temperature": temperature}})


SAMPLED = {
    "anthropic:claude-sonnet-4-6": "yes no",
    "anthropic:claude-3-5-haiku-20241022": "yes -",
    "anthropic:claude-opus-4-7": "no no",
    "openai:gpt-4o": "yes -",
    "openai:gpt-5": "no no",
    "openai:gpt-5-chat-latest": "yes -",
    "openai:gpt-5.4": "yes no",
    "openai:gpt-5.5": "no no",
    "server:gpt-5": "yes yes",
    "gemini:gemini-2.5-flash": "yes yes",
    "gemini:gemini-3-flash-preview": "yes yes",
    "gemini:gemini-3.6-flash": "no no",
}
"""Model -> whether it takes a temperature where nothing is said of reasoning, and where it is asked to reason."""


@pytest.mark.parametrize("model", SAMPLED)
@pytest.mark.parametrize("setting", ["temperature", "top_p"])
def test_sampling_is_refused_by_models_that_would_refuse_or_ignore_it(model: str, setting: str) -> None:
    def takes(**asked: object) -> str:
        try:
            body_of(model, Settings(**asked, **{setting: 0.5}))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        except ValueError as error:
            return "no" if setting in str(error) else "-"
        return "yes"

    assert f"{takes()} {takes(reasoning='medium')}" == SAMPLED[model]


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("anthropic:claude-opus-4-6", False),
        ("anthropic:claude-sonnet-4-6", False),
        ("anthropic:claude-haiku-4-5", False),
        ("anthropic:claude-opus-4-1-20250805", False),
        ("anthropic:claude-sonnet-4-20250514", True),
        ("anthropic:claude-3-5-haiku-20241022", True),
        ("anthropic:kimi-k2", True),
        ("openai:gpt-4o", True),
        ("gemini:gemini-2.5-flash", True),
    ],
)
def test_claude_from_4_1_on_takes_a_temperature_or_a_top_p(model: str, takes: bool) -> None:
    both = Settings(temperature=0.5, top_p=0.5)

    if takes:
        body_of(model, both)
        return
    with pytest.raises(
        ValueError, match=r"^settings: anthropic has no temperature beside top_p for .+; leave one of them out$"
    ):
        body_of(model, both)


TABLES: dict[str, tuple[Family, ...]] = {"claude": CLAUDE, "gpt": GPT, "gemini": GEMINI, "server": (COMPATIBLE,)}


@pytest.mark.parametrize("table", TABLES)
def test_no_row_is_without_a_line_above(table: str) -> None:
    of = {"claude": "anthropic", "gpt": "openai", "gemini": "gemini", "server": "server"}[table]
    models = [name for provider, _, name in [model.partition(":") for model in REASONING] if provider == of]

    assert {family_of(TABLES[table], model.removeprefix("ft:")) for model in models} == set(TABLES[table])


@pytest.mark.parametrize("families", [CLAUDE, GPT, GEMINI, (COMPATIBLE,)], ids=["claude", "gpt", "gemini", "server"])
def test_each_row_holds_for_its_own_example_and_the_last_for_all_names(families: tuple[Family, ...]) -> None:
    assert [family_of(families, row.example) for row in families] == list(families)
    assert family_of(families, "") is families[-1]


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://us.api.openai.com/v1", True),
        ("https://shop.openai.azure.com/openai/v1", True),
        ("https://shop.services.ai.azure.com/openai/v1", True),
        ("https://shop.cognitiveservices.azure.com/openai/deployments/d", True),
        ("http://127.0.0.1:11434/v1", False),
        ("https://openrouter.ai/api/v1", False),
        ("https://notapi.openai.com.example/v1", False),
        ("https://evilapi.openai.com/v1", False),
    ],
)
def test_openais_own_models_are_at_its_hosts_and_at_azures(url: str, own: bool) -> None:
    sent: list[JsonObject] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})

    with us.OpenAI("gpt-4o", base_url=url, api_key="k", transport=httpx.MockTransport(answer)) as client:
        client.complete(ModelRequest((user_message("Hello"),), settings=Settings(max_tokens=9)))

    assert is_own_host(url) is own
    assert ("max_completion_tokens" in sent[0], "max_tokens" in sent[0]) == (own, not own)


# --- the page


def test_the_page_of_settings_is_written_from_the_tables() -> None:
    assert (ROOT / "docs" / "model-settings.md").read_text() == settings_page(), (
        "write it anew: python -m understudy.providers.settings_page > docs/model-settings.md"
    )


CLIENTS: dict[str, Callable[[str, httpx.BaseTransport], HttpModel]] = {
    "OpenAI, chat": lambda model, net: us.OpenAI(model, api_key="k", base_url=OPENAI, transport=net),
    "OpenAI, Responses": lambda model, net: us.OpenAIResponses(model, api_key="k", base_url=OPENAI, transport=net),
    "compatible servers": lambda model, net: us.OpenAI(
        model, api_key="k", base_url="http://127.0.0.1:1/v1", transport=net
    ),
    "Anthropic": lambda model, net: us.Anthropic(model, api_key="k", base_url="https://a.test", transport=net),
    "Gemini": lambda model, net: us.Gemini(model, api_key="k", transport=net),
    "Vertex AI": lambda model, net: us.Vertex(model, access_token="k", project="p", location="global", transport=net),
}


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_client_sends_what_its_cell_of_the_page_says(api: Api, sample: str) -> None:
    sent: list[JsonObject] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(400, json={"error": {"message": "not today"}})

    settings, tools = SAMPLES[sample], () if "cachedContents" in sample else (TOOL,)
    for family in api.families:
        with CLIENTS[api.name](family.example, httpx.MockTransport(answer)) as client:
            try:
                client.check_settings(settings)
            except ValueError:
                with pytest.raises(ValueError, match="settings: "):
                    client.complete(ModelRequest((user_message("Hello"),), tools=tools, settings=settings))
                continue
            for given in (Settings(), settings):
                with pytest.raises(us.ProviderError):
                    client.complete(ModelRequest((user_message("Hello"),), tools=tools, settings=given))
        break

    changed = {key: value for key, value in sent[1].items() if sent[0].get(key) != value} if sent else None
    assert (NONE if changed is None else cell(changed)) == by_api(api, settings)
