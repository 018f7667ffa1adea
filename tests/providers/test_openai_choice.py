"""Which API of OpenAI a model string stands for, and that the model has one name, one price and one key in both."""

from __future__ import annotations

import pytest

import understudy as us
from understudy.providers.catalogue import resolve
from understudy.providers.openai.families import family_of
from understudy.specs.checks.model_clients import client
from understudy.vocabulary.context.context_windows import context_window_of
from understudy.vocabulary.models import ModelName, name_of

CHAT, RESPONSES = us.OpenAI, us.OpenAIResponses

pytestmark = pytest.mark.usefixtures("bare_environment")


@pytest.mark.parametrize(
    ("model", "kind", "reasons"),
    [
        ("gpt-3.5-turbo", CHAT, False),
        ("gpt-4", CHAT, False),
        ("gpt-4o-mini-2024-07-18", CHAT, False),
        ("gpt-4.1-nano", CHAT, False),
        ("ft:gpt-4o-mini:shop", CHAT, False),
        ("chatgpt-4o-latest", CHAT, False),
        ("gpt-4o-search-preview", CHAT, False),
        ("gpt-5-search-api", CHAT, False),
        ("gpt-audio-mini", CHAT, False),
        ("gpt-oss-120b", CHAT, False),
        ("llama3", CHAT, False),
        ("openai/gpt-5", CHAT, False),
        ("gpt-5-chat-latest", RESPONSES, False),
        ("gpt-5", RESPONSES, True),
        ("gpt-5.6-sol", RESPONSES, True),
        ("gpt-6", RESPONSES, True),
        ("gpt-10-something", RESPONSES, True),
        ("gpt-daybreak-blue-latest", RESPONSES, True),
        ("gpt-5.1-codex-max", RESPONSES, True),
        ("codex-mini-latest", RESPONSES, True),
        ("o1", RESPONSES, True),
        ("o3-deep-research", RESPONSES, True),
        ("o4-mini", RESPONSES, True),
        ("ft:o4-mini:shop", RESPONSES, True),
        ("computer-use-preview", RESPONSES, False),
    ],
)
def test_a_model_string_is_asked_by_the_api_of_its_family(model: str, kind: type[us.Model], reasons: bool) -> None:
    assert type(resolve(ModelName.parse(f"openai:{model}"))) is kind
    assert family_of(model).encrypted is reasons


@pytest.mark.parametrize(
    ("text", "address", "kind"),
    [
        ("openai:gpt-5", "http://127.0.0.1:8000/v1", CHAT),
        ("openai:gpt-5", "https://api.openai.com.evil.test/v1", CHAT),
        ("openai:gpt-5", "https://eu.api.openai.com/v1", RESPONSES),
        ("openai:gpt-5", "https://API.OPENAI.COM/v1/", RESPONSES),
        ("openai-responses:gpt-4o", "http://127.0.0.1:8000/v1", RESPONSES),
        ("openai-chat:gpt-5", "https://api.openai.com/v1", CHAT),
    ],
)
def test_only_openai_itself_is_asked_by_the_api_that_it_alone_is_sure_to_have(
    text: str, address: str, kind: type[us.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = ModelName.parse(text)

    assert type(client(name, {"base_url": address})) is kind
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    assert type(resolve(name)) is kind


def test_a_change_of_the_address_changes_the_api_of_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    name = ModelName.parse("openai:gpt-5")
    before = resolve(name)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")

    assert type(resolve(name)) is CHAT
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert resolve(name) is before


def test_both_names_of_an_api_are_one_client_with_one_limit() -> None:
    chosen = resolve(ModelName.parse("openai:gpt-5"))
    other = resolve(ModelName.parse("openai-chat:gpt-5"))

    assert isinstance(chosen, us.OpenAIResponses)
    assert isinstance(other, us.OpenAI)
    assert resolve(ModelName.parse("openai-responses:gpt-5")) is chosen
    assert other.in_flight is chosen.in_flight


@pytest.mark.parametrize("text", ["openai:gpt-5", "openai-chat:gpt-5", "openai-responses:gpt-5"])
def test_a_model_has_one_name_and_one_window_in_both_apis(text: str) -> None:
    name = ModelName.parse(text)

    assert str(name) == text
    assert name_of(name) == name_of(resolve(name)) == "openai:gpt-5"
    assert us.Price.of(name_of(name)) is not None
    assert context_window_of(name) == context_window_of(resolve(name)) == 272_000
    assert us.Agent("a", model=text, system_prompt="x").run_spec.priced_as == "openai:gpt-5"
