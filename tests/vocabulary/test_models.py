"""Model strings."""

from __future__ import annotations

import pytest

from understudy.providers import Rehearsal
from understudy.vocabulary.models import Model, ModelName


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("openai:gpt-4o", ModelName("openai", "gpt-4o")),
        ("openai-chat:gpt-5", ModelName("openai", "gpt-5", "chat")),
        ("openai-responses:gpt-4o", ModelName("openai", "gpt-4o", "responses")),
        ("anthropic:claude-haiku-4-5", ModelName("anthropic", "claude-haiku-4-5")),
        ("gemini:gemini-2.5-flash", ModelName("gemini", "gemini-2.5-flash")),
        ("google:gemini-2.5-flash", ModelName("gemini", "gemini-2.5-flash")),
        ("vertex:gemini-2.5-flash", ModelName("vertex", "gemini-2.5-flash")),
        ("openai:org/model:free", ModelName("openai", "org/model:free")),
        ("openai: gpt-5 ", ModelName("openai", "gpt-5")),
        ("rehearsal", ModelName("rehearsal", "")),
        ("rehearsal:", ModelName("rehearsal", "")),
    ],
)
def test_a_model_string_is_taken_apart_at_the_first_colon(text: str, name: ModelName) -> None:
    assert ModelName.parse(text) == name


@pytest.mark.parametrize("text", ["openai:gpt-4o", "rehearsal"])
def test_a_model_name_is_written_as_it_is_read(text: str) -> None:
    assert str(ModelName.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("opnai:gpt-4o", "unknown provider in model 'opnai:gpt-4o'.*did you mean 'openai:gpt-4o'"),
        ("OpenAI:gpt-4o", "did you mean 'openai:gpt-4o'"),
        ("rehersal", "did you mean 'rehearsal'"),
        ("gpt-4o", r"^'gpt-4o' has no provider. Did you mean 'openai:gpt-4o'\?$"),
        ("o3", r"Did you mean 'openai:o3'\?$"),
        ("claude-haiku-4-5", r"Did you mean 'anthropic:claude-haiku-4-5'\?$"),
        ("gemini-2.5-flash", r"Did you mean 'gemini:gemini-2.5-flash'\?$"),
        ("azure-openai:gpt-4o", "did you mean 'azure:gpt-4o'"),
        ("vertex_ai/gemini-2.5-flash", r"Did you mean 'vertex:gemini-2.5-flash'\?$"),
        ("openai/gpt-4o", r"Did you mean 'openai:gpt-4o'\?$"),
        ("llama3", r"'llama3' has no provider. Did you mean 'ollama:llama3'\?$"),
        (
            "zephyr",
            r"'zephyr' has no provider: expected 'PROVIDER:MODEL'.*us\.OpenAI\('zephyr', base_url=…\), or 'openai:zephyr' with",
        ),
        (
            "bedrock:large",
            r"For other OpenAI-compatible servers: us\.OpenAI\('large', base_url=…\), or 'openai:large' with",
        ),
        ("", "unknown provider in model ''"),
        (":gpt-4o", "unknown provider"),
        ("openai", "no model named in 'openai'"),
        ("openai:", "no model named in 'openai:'"),
        ("openai:  ", "no model named"),
    ],
)
def test_a_model_string_that_names_no_model_says_what_was_expected(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ModelName.parse(text)


@pytest.mark.parametrize("text", ["zzz:gpt-4o", "nope:x"])
def test_a_name_like_no_provider_s_gets_no_guess(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        ModelName.parse(text)

    assert "did you mean" not in str(caught.value)


def test_a_model_is_whatever_completes_requests() -> None:
    assert isinstance(Rehearsal(), Model)
    assert not isinstance(object(), Model)
