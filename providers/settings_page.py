"""Writes the page of what settings become, from the tables that the clients use and from requests that they write.

`python -m understudy.providers.settings_page > docs/model-settings.md`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from understudy.providers.anthropic import wire as anthropic_wire
from understudy.providers.anthropic.families import FAMILIES as CLAUDE
from understudy.providers.google import wire as google_wire
from understudy.providers.google.families import FAMILIES as GEMINI
from understudy.providers.openai import wire as chat_wire
from understudy.providers.openai.families import COMPATIBLE, OpenAIFamily
from understudy.providers.openai.families import FAMILIES as GPT
from understudy.providers.openai.responses import request as responses_wire
from understudy.providers.wire.families import Family
from understudy.providers.wire.json_values import is_array, is_object
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelRequest, Settings, ToolSpec, user_message
from understudy.vocabulary.settings import LEVELS

Encode = Callable[[ModelRequest, str], JsonObject]
TOOL = ToolSpec("look", "", {"type": "object", "properties": {}})
NONE = "—"
LONGEST = 20  # Characters of a text in a cell; a longer one is a digest.
INTRODUCTION = """\
# What settings become

Each setting of `us.Settings` has one name for all models, and becomes what the model's API and family know. A setting that they lack is a
`ValueError` when the agent is made, when its spec is loaded and at `understudy check`: it says what to do instead. This page is written
from the tables that the clients use. A dash (—) stands for what is refused.

Fields of the provider's own go into `extra`. They are laid over the body; `tools` of `extra` are added behind the agent's own tools.

## By API

A cell has the fields that a model of the API is sent for the setting, if it takes the setting; "nothing" means that no field is needed.
"""
REASONING = """\
## Reasoning and sampling by family

The first row that fits a model's name applies. One case does not depend on the name: chat completions at an address that is neither OpenAI's nor Azure's have the row of
[compatible servers](#compatible-servers), as `groq:openai/gpt-oss-120b` does, and `gpt-5` behind a gateway. Errors name the row.

The columns of levels have the provider's word for each level of `reasoning`, or the tokens that are sent for it;
"nothing" if the model never reasons, so that `off` needs no field. `tokens` is the range of a number. `sampling` says when `temperature` and `top_p` are taken: always, never,
unless you ask the model to reason by `reasoning`, or only if you turn its reasoning off by `reasoning="off"`; some models take only one of the two in a request.
"""
SERVERS = """\
### Compatible servers

Sent as `reasoning_effort`. The server decides what it takes; [a preset](where-models-run.md) refuses what its server is known to lack.
"""
SHAPES = {
    "OpenAI": "Sent as `reasoning_effort` in chat completions, without `max`, and as `reasoning.effort` by the Responses API. The column `API` "
    "says which one `openai:MODEL` asks.",
    "Anthropic": "A word is sent as `output_config.effort` beside `thinking: {type: adaptive}`, a number as `thinking: {type: enabled, budget_tokens}`, and off as the `type` of "
    "`thinking`. Claude on Vertex AI takes the same. `max_tokens` is always sent: without the setting it is 4,096 for a model that does not reason, 4,096 more than the budget "
    "for one that reasons by a budget, and 32,768 for one that itself decides how long it reasons, as `claude-opus-5` does unasked.",
    "Gemini and Vertex AI": "A word is sent as `thinkingConfig.thinkingLevel`, a number as `thinkingConfig.thinkingBudget`, and off as a budget of 0; `includeThoughts` asks for summaries.",
}


@dataclass(frozen=True, slots=True)
class Api:
    """One API, as a column of the first table."""

    name: str
    families: Sequence[Family]
    encode: Encode


APIS = (
    Api("OpenAI, chat", GPT, lambda request, model: chat_wire.encode(request, model, official=True)),
    Api("OpenAI, Responses", GPT, lambda request, model: responses_wire.encode(request, [], model)),
    Api("compatible servers", (COMPATIBLE,), lambda request, model: chat_wire.encode(request, model, official=False)),
    Api("Anthropic", CLAUDE, anthropic_wire.encode),
    Api("Gemini", GEMINI, lambda request, model: google_wire.encode(request, model, provider="gemini")),
    Api("Vertex AI", GEMINI, lambda request, model: google_wire.encode(request, model, provider="vertex")),
)
SAMPLES: Mapping[str, Settings] = {
    "temperature=0.5": Settings(temperature=0.5),
    "top_p=0.5": Settings(top_p=0.5),
    "max_tokens=100": Settings(max_tokens=100),
    'stop=("END",)': Settings(stop=("END",)),
    "seed=1": Settings(seed=1),
    'tool_choice="none"': Settings(tool_choice="none"),
    'tool_choice="required"': Settings(tool_choice="required"),
    'tool_choice="look"': Settings(tool_choice="look"),
    "parallel_tool_calls=False": Settings(parallel_tool_calls=False),
    'reasoning="high"': Settings(reasoning="high"),
    "reasoning=8000": Settings(reasoning=8000),
    'verbosity="low"': Settings(verbosity="low"),
    'service_tier="auto"': Settings(service_tier="auto"),
    'service_tier="standard"': Settings(service_tier="standard"),
    'service_tier="flex"': Settings(service_tier="flex"),
    'service_tier="priority"': Settings(service_tier="priority"),
    "cache=True": Settings(cache=True),
    "cache=False": Settings(cache=False),
    'cache="5m"': Settings(cache="5m"),
    'cache="30m"': Settings(cache="30m"),
    'cache="1h"': Settings(cache="1h"),
    'cache="24h"': Settings(cache="24h"),
    'cache="cachedContents/a"': Settings(cache="cachedContents/a"),
    "strict_tools=True": Settings(strict_tools=True),
}
"""A setting as a user writes it, and as a value."""


def settings_page() -> str:
    """Return the page, in Markdown."""
    heads = ["setting", *[api.name for api in APIS]]
    rows = [[f"`{name}`", *[by_api(api, settings) for api in APIS]] for name, settings in SAMPLES.items()]
    parts = [INTRODUCTION, _table(heads, rows), REASONING]
    for name, families in (("OpenAI", GPT), ("Anthropic", CLAUDE), ("Gemini and Vertex AI", GEMINI)):
        parts += [f"### {name}\n", f"{SHAPES[name]}\n", _table(_heads(families), [_row(row) for row in families])]
    parts += [SERVERS, _table(_heads(GPT), [_row(COMPATIBLE)])]
    return "\n".join(parts)


def by_api(api: Api, settings: Settings) -> str:
    """Return the fields that settings add to a request of an API, by the first family that takes them."""
    for family in api.families:
        try:
            changed = changes(api, family.example, settings)
        except ValueError:
            continue
        return cell(changed)
    return NONE


def cell(changed: JsonObject) -> str:
    """Return the fields of a request as a cell shows them."""
    if not changed:
        return "nothing"
    mark = _mark_in(changed)
    if mark is not None:
        return (
            f"{_json({'cache_control': mark})} on the last tool, the system prompt and the last two messages of users"
        )
    if "tools" in changed:
        return f"{_json({'strict': True})} in each tool, beside a closed schema"
    return _json(_shortened(changed))


def _json(value: JsonValue) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _mark_in(value: JsonValue) -> JsonValue:
    """Return the first mark for a cache in a request."""
    if is_object(value) and "cache_control" in value:
        return value["cache_control"]
    inside = list(value.values()) if is_object(value) else value if is_array(value) else ()
    for each in inside:
        mark = _mark_in(each)
        if mark is not None:
            return mark
    return None


def changes(api: Api, model: str, settings: Settings) -> JsonObject:
    """Return the fields of a request that settings add or change.

    Raises:
        ValueError: the API or the model's family lacks one of the settings.
    """
    tools = () if isinstance(settings.cache, str) and "/" in settings.cache else (TOOL,)
    messages = (user_message("Hello"),)
    plain = api.encode(ModelRequest(messages, tools=tools), model)
    body = api.encode(ModelRequest(messages, tools=tools, settings=settings), model)
    return {key: value for key, value in body.items() if plain.get(key) != value}


def _shortened(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= LONGEST else "…"
    if is_object(value):
        return {key: _shortened(each) for key, each in value.items()}
    return [_shortened(each) for each in value] if is_array(value) else value


def _heads(families: Sequence[Family]) -> list[str]:
    levels = [f"`{level}`" for level in LEVELS]
    if families is GPT:
        return ["models", "such as", "API", *levels, "sampling", "lacks", "cache", "source"]
    return ["models", "such as", *levels, "tokens", "sampling", "lacks", "source"]


def _row(family: Family) -> list[str]:
    levels = [_level(family, level) for level in LEVELS]
    lacks = ", ".join([f"`{name}`" for name in family.lacks])
    if isinstance(family, OpenAIFamily):
        api = "Responses" if family.has_responses else "chat"
        cache = ", ".join([f"`{value}`" for value in family.caches])
        return [family.name, f"`{family.example}`", api, *levels, _sampling(family), lacks, cache, family.source]
    tokens = "{:,} to {:,}".format(*family.tokens) if family.tokens else NONE
    return [family.name, f"`{family.example}`", *levels, tokens, _sampling(family), lacks, family.source]


def _sampling(family: Family) -> str:
    if family.sampling != "without reasoning":
        return family.sampling
    when = 'only with `reasoning="off"`' if family.reasons else "unless asked to reason"
    return f"{when}; one of the two" if family.one_sampling else when


def _level(family: Family, level: str) -> str:
    if level not in family.levels:
        return NONE
    word = family.levels[level]
    return "nothing" if word == "" else f"{word:,}" if isinstance(word, int) else f"`{word}`"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join([f"| {' | '.join(line)} |".replace("  ", " ") for line in lines]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
