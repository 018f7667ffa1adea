"""Settings as they reach requests: caches, strict tools, a provider's own tools; and when an agent refuses them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, get_args

import pytest

import understudy as us
from tests.support import bodies
from tests.support.sdk_types import params_of
from tests.support.wire import obj, objs
from understudy.providers.anthropic import wire as anthropic_wire
from understudy.providers.google import wire as google_wire
from understudy.providers.settings_page import APIS, SAMPLES, changes
from understudy.vocabulary.messages import (
    JsonObject,
    JsonValue,
    Message,
    ModelRequest,
    ModelTurn,
    OutputSpec,
    ReasoningPart,
    Settings,
    TextPart,
    ToolSpec,
    says,
    user_message,
)
from understudy.vocabulary.settings import ReasoningLevel

LOOK = ToolSpec(
    "look",
    "Look at a shelf.",
    {
        "type": "object",
        "properties": {"sku": {"type": "string"}, "row": {"type": "integer", "default": 1}},
        "required": ["sku"],
    },
)
NOTE = ToolSpec("note", "", {"type": "object", "properties": {"fields": {"type": "object"}}})
MODELS = {"openai": "gpt-5", "anthropic": "claude-opus-5", "gemini": "gemini-2.5-flash"}


def body_of(provider: str, settings: Settings, *tools: ToolSpec, model: str = "", **more: Any) -> JsonObject:
    request = ModelRequest((user_message("Hello"),), "Be kind.", tools, settings, **more)
    return bodies.body_of(provider, request, model or MODELS[provider])


# --- the cache


@pytest.mark.parametrize(
    ("cache", "mark"),
    [
        (True, {"type": "ephemeral"}),
        ("5m", {"type": "ephemeral", "ttl": "5m"}),
        ("1h", {"type": "ephemeral", "ttl": "1h"}),
    ],
)
def test_anthropic_gets_marks_on_tools_system_and_the_last_two_messages_of_users(
    cache: bool | str, mark: JsonValue
) -> None:
    said = Message("assistant", (ReasoningPart("hm", "sig"), TextPart("Hi")), "anthropic")
    history = (user_message("One"), said, user_message("Two"), said, user_message("Three"))
    request = ModelRequest(history, "Be kind.", (LOOK, NOTE), Settings(cache=cache))

    body = anthropic_wire.encode(request, "claude-opus-5")

    assert body["system"] == [{"type": "text", "text": "Be kind.", "cache_control": mark}]
    assert [tool.get("cache_control") for tool in objs(body["tools"])] == [None, mark]
    blocks = [block for message in objs(body["messages"]) for block in objs(message["content"])]
    assert [block.get("text") for block in blocks if block.get("cache_control") == mark] == ["Two", "Three"]
    assert sum("cache_control" in block for block in blocks) == 2


def test_a_mark_of_the_users_own_stays_and_the_parts_of_the_history_do_not_change() -> None:
    mine: JsonObject = {"type": "text", "text": "Long", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    message = Message("user", (us.OpaquePart(mine),))

    body = anthropic_wire.encode(ModelRequest((message,), settings=Settings(cache=True)), "claude-opus-5")

    assert objs(objs(body["messages"])[0]["content"]) == [mine]
    assert message.parts == (us.OpaquePart(mine),)


def test_openai_gets_one_key_for_requests_with_one_beginning() -> None:
    def key(settings: Settings, *tools: ToolSpec, **more: Any) -> JsonValue:
        return body_of("openai", settings, *tools, **more)["prompt_cache_key"]

    cached = Settings(cache=True)
    one = key(cached, LOOK)

    assert isinstance(one, str)
    assert len(one) == 32
    assert key(Settings(cache=True, seed=1), LOOK, turn=2) == one
    assert key(cached, NOTE) != one
    assert body_of("openai", Settings(cache="24h"), LOOK)["prompt_cache_retention"] == "24h"
    assert body_of("openai", Settings(cache="24h"), LOOK)["prompt_cache_key"] == one
    new = body_of("openai", Settings(cache="30m"), LOOK, model="gpt-5.6-sol")
    assert (new["prompt_cache_key"], new["prompt_cache_options"]) == (one, {"ttl": "30m"})
    assert "prompt_cache_key" not in body_of("openai", Settings(cache=False), LOOK, model="gpt-5.6-sol")


@pytest.mark.parametrize("name", ["cachedContents/a-1", "projects/p/locations/l/cachedContents/7"])
def test_google_gets_the_name_of_a_cache_and_then_no_prompt_and_tools(name: str) -> None:
    settings = Settings(cache=name)
    bare = google_wire.encode(
        ModelRequest((user_message("Hello"),), settings=settings), "gemini-2.5-pro", provider="gemini"
    )

    assert bare["cachedContent"] == name
    with pytest.raises(ValueError, match="may have no systemInstruction and no tools; put them into the cache"):
        body_of("gemini", settings, LOOK)


# --- strict tools


def test_strict_tools_get_a_strict_schema() -> None:
    strict = Settings(strict_tools=True)

    openai = obj(objs(body_of("openai", strict, LOOK)["tools"])[0]["function"])
    anthropic = objs(body_of("anthropic", strict, LOOK)["tools"])[0]

    closed = {
        "type": "object",
        "properties": {"sku": {"type": "string"}, "row": {"type": "integer"}},
        "additionalProperties": False,
    }
    assert openai["strict"] is True
    assert openai["parameters"] == closed | {"required": ["sku", "row"]}
    assert anthropic["strict"] is True
    assert anthropic["input_schema"] == closed | {"required": ["sku"]}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_tools_are_told_to_be_loose_or_not_told_at_all(provider: str) -> None:
    def strictness(settings: Settings) -> tuple[JsonValue, bool]:
        tool = objs(body_of(provider, settings, LOOK)["tools"])[0]
        inside = obj(tool.get("function", tool))
        return inside.get("strict"), LOOK.schema in inside.values()

    assert strictness(Settings()) == (None, True)
    assert strictness(Settings(strict_tools=False)) == (False, True)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_tool_that_cannot_be_strict_is_named(provider: str) -> None:
    with pytest.raises(
        ValueError, match="tool 'note' cannot be strict: .* no dict and no Any.* leave strict_tools out"
    ):
        body_of(provider, Settings(strict_tools=True), LOOK, NOTE)


def test_an_agent_is_not_made_with_a_tool_that_cannot_be_strict() -> None:
    def note(fields: dict[str, int]) -> str:
        return ""

    def look(sku: str, row: int = 1) -> str:
        return ""

    strict = us.Settings(strict_tools=True)

    with pytest.raises(ValueError, match="agent 'clerk': tool 'note' cannot be strict"):
        us.Agent("clerk", model="openai:gpt-5", tools=[look, note], settings=strict)
    us.Agent("clerk", model="openai:gpt-5", tools=[look], settings=strict)
    us.Agent("clerk", model="openai:gpt-5", tools=[look, note])


# --- the provider's own tools

OWN: dict[str, JsonObject] = {
    "openai": {"type": "custom", "custom": {"name": "code"}},
    "anthropic": {"type": "web_search_20260318", "name": "web_search"},
    "gemini": {"googleSearch": {}},
}


@pytest.mark.parametrize("provider", OWN)
def test_tools_of_extra_come_behind_the_agents_own(provider: str) -> None:
    extra: JsonObject = {"tools": [OWN[provider]]}
    mine = objs(body_of(provider, Settings(), LOOK)["tools"])

    assert objs(body_of(provider, Settings(extra=extra), LOOK)["tools"]) == [*mine, OWN[provider]]
    assert objs(body_of(provider, Settings(extra=extra))["tools"]) == [OWN[provider]]
    assert objs(body_of(provider, Settings(extra={"tools": []}), LOOK)["tools"]) == mine
    assert "tools" not in body_of(provider, Settings(extra={"tools": []}))
    assert extra == {"tools": [OWN[provider]]}


@pytest.mark.parametrize(
    ("provider", "twice"),
    [
        ("openai", [{"type": "function", "function": {"name": "look"}}]),
        ("openai", [{"type": "function", "name": "look"}]),
        ("anthropic", [{"name": "look", "input_schema": {"type": "object"}}]),
        ("gemini", [{"functionDeclarations": [{"name": "look"}]}]),
    ],
)
def test_two_tools_of_one_name_are_refused(provider: str, twice: JsonValue) -> None:
    with pytest.raises(ValueError, match="two tools named 'look'; tools of extra are added to those of the agent"):
        body_of(provider, Settings(extra={"tools": twice}), LOOK)


@pytest.mark.parametrize("tools", [None, "web_search", {"type": "web_search"}, ["web_search"], [None]])
@pytest.mark.parametrize("provider", OWN)
def test_tools_of_extra_that_are_no_list_of_objects_are_refused(provider: str, tools: JsonValue) -> None:
    with pytest.raises(ValueError, match="extra: tools must be a list of the provider's own tools, each an object"):
        body_of(provider, Settings(extra={"tools": tools}), LOOK)


def test_an_agent_is_not_made_with_a_tool_of_extra_that_has_the_name_of_its_own() -> None:
    def look(sku: str) -> str:
        return ""

    def agent(name: str) -> us.Agent[Any]:
        extra: JsonObject = {"tools": [{"type": "function", "name": name}, {"type": "web_search"}]}
        return us.Agent("clerk", model="openai:gpt-5", tools=[look], settings=us.Settings(extra=extra))

    with pytest.raises(ValueError, match="^agent 'clerk': settings: extra: there are two tools named 'look'"):
        agent("look")
    agent("look_up")


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("openai:gpt-4o", "messages"),
        ("openai:gpt-5", "input"),
        ("ollama:llama3.2", "messages"),
        ("anthropic:claude-opus-5", "messages"),
        ("gemini:gemini-2.5-pro", "contents"),
        ("vertex:gemini-2.5-pro", "contents"),
        ("vertex:claude-haiku-4-5", "messages"),
    ],
)
@pytest.mark.parametrize("value", [None, []])
def test_extra_cannot_replace_the_messages_of_the_run(model: str, key: str, value: JsonValue) -> None:
    with pytest.raises(
        ValueError, match=f"^agent 'clerk': settings: extra must not set {key}; it would replace the mess"
    ):
        us.Agent("clerk", model=model, settings=us.Settings(extra={key: value}))
    others: JsonObject = {each: value for each in ("messages", "contents", "input") if each != key}
    us.Agent("clerk", model=model, settings=us.Settings(extra=others))


def test_extra_adds_to_anthropics_thinking_and_effort() -> None:
    settings = Settings(reasoning="high", extra={"thinking": {"display": "summarized"}})

    body = body_of("anthropic", settings, output=OutputSpec("Answer", {"type": "object", "properties": {}}))

    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert sorted(obj(body["output_config"])) == ["effort", "format"]


def test_a_model_that_takes_no_forced_choice_is_not_forced_to_its_answers_tool() -> None:
    output = OutputSpec("Answer", {"type": "object"}, tool="final_answer")
    forced = Settings(tool_choice="final_answer")

    assert "tool_choice" in body_of("anthropic", forced, LOOK, output=output, model="claude-opus-5")
    assert "tool_choice" not in body_of("anthropic", forced, LOOK, output=output, model="claude-opus-5-5")


# --- when an agent refuses them


class Mine:
    """A model that lacks a seed."""

    def complete(self, request: ModelRequest) -> ModelTurn:
        return says("ok")

    def check_settings(self, settings: Settings) -> None:
        if settings.seed is not None:
            raise ValueError("mine has no seed")


class Async(Mine):
    async def check_settings(self, settings: Settings) -> None:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Check nothing: the mistake under test."""


class Wrong(Mine):
    check_settings = None  # type: ignore[assignment]  # the mistake under test


class Silent:
    def complete(self, request: ModelRequest) -> ModelTurn:
        return says("ok")

    def __getattr__(self, name: str) -> Callable[..., None]:
        raise ValueError(f"{name} is not for you")


@pytest.mark.parametrize("make", [lambda: "anthropic:claude-opus-5", lambda: us.Anthropic("claude-opus-5"), Mine])
def test_an_agent_is_not_made_with_a_setting_that_its_model_lacks(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="^agent 'clerk': .*has no seed"):
        us.Agent("clerk", model=make(), settings=us.Settings(seed=1))
    made = us.Agent("clerk", model=make(), settings=us.Settings(max_tokens=100))
    with pytest.raises(ValueError, match="has no seed"):
        made.replace(settings=us.Settings(seed=1))


def test_a_model_in_an_agents_place_must_take_its_settings_too() -> None:
    clerk = us.Agent("clerk", model="openai:gpt-4o", settings=us.Settings(seed=1))

    refused = pytest.raises(ValueError, match="agent 'clerk': settings: anthropic has no seed")
    with refused, clerk.override(model=us.Anthropic("claude-opus-5")):
        pass
    with clerk.override(model=Silent()):
        assert clerk.current_model is not clerk.model


def test_models_without_a_check_take_all_settings_and_wrong_checks_are_named() -> None:
    given = us.Settings(seed=1)

    assert us.Agent("clerk", model=Silent(), settings=given).settings is given
    for model in (Async(), Wrong()):
        with pytest.raises(TypeError, match="agent 'clerk': check_settings of .* must be a (plain )?function"):
            us.Agent("clerk", model=model, settings=given)


def test_a_recorded_model_refuses_what_the_model_refuses(tmp_path: Any) -> None:
    with us.Recorder(tmp_path / "tape.jsonl") as recorder, pytest.raises(ValueError, match="mine has no seed"):
        us.Agent("clerk", model=recorder.record(Mine()), settings=us.Settings(seed=1))


CHECKS = """
import sys
import understudy as us
try:
    us.Agent("clerk", model="openai:gpt-5", settings=us.Settings(temperature=0.5))
except ValueError as error:
    print(error)
print(sorted({"httpx", "pykka", "pydantic", "understudy.actors"} & set(sys.modules)))
"""


def test_a_check_needs_no_key_and_loads_no_http_library_and_no_runtime(tmp_path: Any) -> None:
    bare = {name: value for name, value in os.environ.items() if "API_KEY" not in name and name != "OPENAI_BASE_URL"}

    done = subprocess.run(
        [sys.executable, "-I", "-c", CHECKS],
        cwd=tmp_path,
        env=bare,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.splitlines() == [
        "agent 'clerk': settings: openai has no temperature for GPT-5; leave it out",
        "[]",
    ]


# --- in specs

SPEC = """
version: 1
agents:
  - id: clerk
    model: {model}
    settings: {settings}
"""


@pytest.mark.parametrize("word", ["off", "'off'", "false"])
def test_off_is_off_however_yaml_reads_it(word: str) -> None:
    spec = us.load_spec_text(SPEC.format(model="anthropic:claude-opus-5", settings=f"{{reasoning: {word}}}"))

    assert spec.agent("clerk").settings == us.Settings(reasoning="off")


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("anthropic:claude-opus-5", "{seed: 1}", "anthropic has no seed"),
        ("openai:gpt-5", "{temperature: 0.5}", "no temperature for GPT-5"),
        ("openai:gpt-5", "{reasoning: on}", "settings[.]reasoning"),
        ("openai:gpt-5", "{reasoning: 0.5}", "settings[.]reasoning"),
        ("openai:gpt-5", "{reasoning: huge}", "settings[.]reasoning"),
        ("openai:gpt-5", "{verbosity: terse}", "settings.verbosity"),
        ("openai:gpt-5", "{cache: 2h}", "cache must be True, False, one of"),
        (
            "anthropic:claude-haiku-4-5",
            "{reasoning: 2000, thinking_tokens: 2000}",
            "say the same; expected one of them",
        ),
    ],
)
def test_a_spec_refuses_them_when_it_is_loaded(model: str, settings: str, message: str) -> None:
    with pytest.raises(us.SpecError, match=message):
        us.load_spec_text(SPEC.format(model=model, settings=settings))


# --- the values


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"reasoning": True}, TypeError),
        ({"reasoning": False}, TypeError),
        ({"reasoning": 0.5}, TypeError),
        ({"reasoning": "none"}, ValueError),
        ({"reasoning": -1}, ValueError),
        ({"reasoning": "low", "thinking_tokens": 0}, ValueError),
        ({"verbosity": 1}, TypeError),
        ({"verbosity": "terse"}, ValueError),
        ({"service_tier": 1}, TypeError),
        ({"service_tier": " "}, ValueError),
        ({"cache": 5}, TypeError),
        ({"cache": "2h"}, ValueError),
        ({"cache": ""}, ValueError),
        ({"strict_tools": 1}, TypeError),
        ({"top_p": 1.5}, ValueError),
        ({"strict_tools": "yes"}, TypeError),
        ({"extra": []}, TypeError),
        ({"extra": {1: "a"}}, TypeError),
        ({"extra": {"a": [object()]}}, TypeError),
        ({"extra": {"a": {2: "b"}}}, TypeError),
        ({"extra": {"a": float("nan")}}, TypeError),
        ({"extra": {"a": [float("-inf")]}}, TypeError),
    ],
)
def test_a_wrong_value_is_refused_by_name(given: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind, match=f"settings: .*{next(iter(given))}"):
        Settings(**given)


# --- the official libraries

TYPES = {"OpenAI, chat": "openai", "OpenAI, Responses": "openai-responses", "Anthropic": "anthropic"}
DROPPED = {"temperature", "top_p"}
"""Fields of older models that the newest library of Anthropic's does not name."""


@pytest.mark.parametrize("name", TYPES)
def test_what_settings_become_has_the_types_of_the_official_library(name: str) -> None:
    types = params_of(TYPES[name])
    api = next(api for api in APIS if api.name == name)
    levels = [Settings(reasoning=level) for level in get_args(ReasoningLevel)]

    for settings in (*SAMPLES.values(), *levels):
        for family in api.families:
            try:
                sent = changes(api, family.example, settings)
            except ValueError:
                continue
            body: JsonObject = (
                {"model": "m", "messages": [], "max_tokens": 1, **sent} if name != "OpenAI, Responses" else sent
            )
            assert types.validate_python(body).keys() >= sent.keys() - DROPPED, (family.name, settings)
