"""What is hidden from whatever is written down, and what stays as it is."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.http import HELLO
from understudy.errors import AuthenticationError
from understudy.providers import Anthropic, Gemini, OpenAI, Secret
from understudy.providers.http.environment import KEYS
from understudy.providers.http.model_client import HttpModel
from understudy.providers.tape.redaction import HIDDEN, RedactLike, Redactor
from understudy.vocabulary.messages import (
    FilePart,
    JsonValue,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
    user_message,
)

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+canary/7Q==\nAAAA\n-----END RSA PRIVATE KEY-----"

HIDDEN_IN = [
    ("the key is sk-canary-0123456789.", "the key is [redacted]."),
    ("sk-proj-canary_canary_canary_canary", HIDDEN),
    ("sk-ant-api03-canary0", HIDDEN),
    ("?key=AIzaSyCanary-0123456789_abcdefghijklmnopq&x=1", "?key=[redacted]&x=1"),
    ("ya29.canary-0123456789-canary", HIDDEN),
    ("AKIACANARY0123456789 in us-east-1", "[redacted] in us-east-1"),
    ("aws_secret_access_key = canary/CANARY+0123456789canary", "aws_secret_access_key = [redacted]"),
    ("ghp_canary0123456789canary0123456789", HIDDEN),
    ("github_pat_11CANARY0_canary0123456789", HIDDEN),
    ("sk-canary-canary-canary", HIDDEN),
    ("hf_canaryCanaryCanaryCanary", HIDDEN),
    ("export SHOP_TOKEN='canary-canary' # set", "export SHOP_TOKEN='[redacted]' # set"),
    ("sk_live_canary0123456789", HIDDEN),
    ("xoxb-0123456789-canary", HIDDEN),
    ("eyJjYW5hcnkiOiJjIn0.eyJjYW5hcnkiOiJjIn0.c2lnbmF0dXJl", HIDDEN),
    ("Authorization: Bearer canary-0123456789", "Authorization: Bearer [redacted]"),
    ("authorization: Basic Y2FuYXJ5OmNhbmFyeQ==", "authorization: Basic [redacted]"),
    ("bearer canary.0123456789", "bearer [redacted]"),
    ("Bearer canary-canary", "Bearer [redacted]"),
    ("x-api-key: canary", "x-api-key: [redacted]"),
    ("curl -H 'x-goog-api-key: canary' there", "curl -H 'x-goog-api-key: [redacted]' there"),
    ('{"x-api-key": "canary", "n": 1}', '{"x-api-key": "[redacted]", "n": 1}'),
    ('{"body": "{\\"password\\": \\"canary\\"}"}', '{"body": "{\\"password\\": \\"[redacted]\\"}"}'),
    ('{"token":"canary"}', '{"token":"[redacted]"}'),
    ('{"shopToken":"canary"}', '{"shopToken":"[redacted]"}'),
    ("OPENAI_API_KEY=canary-0123456789", "OPENAI_API_KEY=[redacted]"),
    ("postgresql://ada:c@nary@db.test/shop", "postgresql://ada:[redacted]@db.test/shop"),
    ("redis://:canary@db.test", "redis://:[redacted]@db.test"),
    (f"before {PEM} after", "before [redacted] after"),
    (json.dumps({"pem": PEM}), '{"pem": "[redacted]"}'),
    (PEM[:60], HIDDEN),
]


@pytest.mark.parametrize(("text", "clean"), HIDDEN_IN, ids=[text[:30] for text, _ in HIDDEN_IN])
def test_what_looks_like_a_secret_is_hidden_in_a_text(text: str, clean: str) -> None:
    assert Redactor().text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Do we have five of A-113?",
        "the bearer of bad news; a password is needed: see the manual",
        "scikit-learn and sk-learn, risk-of-something-very-long-indeed",
        "next_token=page-2, max_tokens: 4096",
        "https://example.test/a:b/c and http://localhost:8080/x@y",
        '{"type": "object", "required": ["password"]}',
        "a monkey: banana",
        '{"next_token": "page-2", "nextPageToken": "page-3"}',
        "MAX_TOKENS=4096 and PRIMARY_KEY: id",
        "[redacted]",
    ],
)
def test_an_honest_text_stays(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "x-api-key",
        "Authorization",
        "openaiApiKey",
        "DB_PASSWORD",
        "client_secret",
        "token",
        "GITHUB_TOKEN",
        "credentials",
        "Set-Cookie",
    ],
)
def test_a_value_under_the_name_of_a_secret_is_hidden_whatever_it_looks_like(name: str) -> None:
    tree: JsonValue = {"headers": [{name: "canary", "n": "1"}], "all": {name: ["canary", "canary"]}}

    assert Redactor().plain(tree) == {"headers": [{name: HIDDEN, "n": "1"}], "all": {name: HIDDEN}}


def test_names_that_only_speak_of_tokens_and_schemas_of_secrets_stay() -> None:
    tree: JsonValue = {
        "next_token": "page-2",
        "nextPageToken": "page-2",
        "token_count": "9",
        "max_tokens": "9",
        "tokens": ["a"],
        "token": 7,
        "password": {"type": "string", "description": "what opens it"},
        "secret": "",
    }

    assert Redactor().plain(tree) == tree


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_keys_in_the_environment_are_hidden(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor()
    monkeypatch.setenv(variable, " plain-canary-words ")

    assert redactor.text("it is plain-canary-words!") == "it is [redacted]!"


def test_a_placeholder_in_the_environment_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    assert Redactor().text("none of them") == "none of them"


@pytest.mark.parametrize("make", [OpenAI, Anthropic, Gemini])
def test_every_variable_that_a_client_names_as_its_keys_is_among_those_that_are_hidden(
    make: Callable[[str], HttpModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    for names in KEYS.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("UNDERSTUDY_OFFLINE", raising=False)

    with make("some-model") as model, pytest.raises(AuthenticationError) as caught:
        model.complete(HELLO)

    assert set(re.findall(r"[A-Z_]+_KEY", str(caught.value))) == set(KEYS[model.provider])


def test_known_secrets_are_asked_for_each_time() -> None:
    known: list[Secret] = []
    redactor = Redactor(known=lambda: known)
    assert redactor.text("plain-canary-words") == "plain-canary-words"

    known.append(Secret("plain-canary-words"))

    assert redactor.text("plain-canary-words") == HIDDEN


RULES: list[tuple[RedactLike, str, str]] = [
    ("canary", "a canary sings", "a [redacted] sings"),
    (["canary", Secret("wren")], "canary, wren", "[redacted], [redacted]"),
    (["can", "canary"], "a canary", "a [redacted]"),
    (re.compile(r"order \d+"), "order 7, order x", "[redacted], order x"),
    (re.compile(r"\w*"), "canary!", "[redacted]!"),
    (re.compile(r"canary"), PEM, HIDDEN),
    (lambda text: text.replace("Ada", "NAME"), "Ada and Bob", "NAME and Bob"),
    ({"canary": 1}.keys(), "canary", HIDDEN),
]


@pytest.mark.parametrize(("rules", "text", "clean"), RULES, ids=[str(i) for i in range(len(RULES))])
def test_what_a_user_names_is_hidden(rules: RedactLike, text: str, clean: str) -> None:
    redactor = Redactor(rules)

    assert redactor.text(text) == clean
    assert redactor.text(clean) == clean


@pytest.mark.parametrize(
    ("rules", "kind", "says"),
    [
        ("", ValueError, "an empty string"),
        ([Secret("")], ValueError, "an empty string"),
        (7, TypeError, "takes rules or a list"),
        ([7], TypeError, "takes strings, Secrets, compiled patterns and functions, got int"),
        (re.compile(rb"x"), TypeError, "a pattern of text"),
    ],
)
def test_what_is_no_rule_is_refused(rules: object, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        Redactor(cast(RedactLike, rules))


def test_a_function_must_return_text_and_come_to_an_end() -> None:
    with pytest.raises(TypeError, match="must return a string, got int"):
        Redactor(cast(RedactLike, len)).text("x")
    with pytest.raises(ValueError, match="change a text for ever"):
        Redactor(lambda text: text + "!").text("x")


texts = st.text(st.sampled_from("ab1 :=/@\"'\\-[]{}\n") | st.characters(), max_size=40)
pieces = st.sampled_from(
    ["password", "x-api-key: ", "Bearer ", "sk-", "canary-0123456789", '"', "://a:", "@h", HIDDEN, PEM[:33], "token"]
)


@given(st.lists(texts | pieces, max_size=8).map("".join))
@settings(max_examples=300, deadline=None)
def test_a_clean_text_is_clean(text: str) -> None:
    redactor = Redactor(["canary", re.compile(r"[a-c]\d+")])

    clean = redactor.text(text)

    assert redactor.text(clean) == clean
    assert "canary" not in clean


# --- values of the vocabulary


def test_what_stands_at_its_default_is_left_out_and_the_kind_is_kept() -> None:
    assert Redactor().plain(user_message("Hi")) == {"role": "user", "parts": [{"kind": "text", "text": "Hi"}]}
    assert Redactor().plain(Settings(temperature=0)) == {"temperature": 0.0}
    assert Redactor().plain(ToolSpec("look", "", {})) == {"name": "look", "description": "", "schema": {}}


def test_words_of_the_vocabularys_own_are_not_hidden() -> None:
    everything = Redactor(re.compile(r"\w+"))

    assert everything.plain(TextPart("canary")) == {"kind": "text", "text": HIDDEN}
    assert everything.plain(ToolCall("1", "look", {"role": "kind"})) == {
        "kind": "tool_call",
        "id": HIDDEN,
        "name": HIDDEN,
        "arguments": {HIDDEN: HIDDEN},
    }
    result = ToolResult("1", "canary", is_error=True, error_kind="raised")
    assert everything.plain(result) == {
        "kind": "tool_result",
        "call_id": HIDDEN,
        "content": HIDDEN,
        "is_error": True,
        "error_kind": "raised",
    }


def test_a_file_is_looked_into() -> None:
    env = base64.b64encode(b"\xff OPENAI_API_KEY=canary-0123456789\n").decode()
    clean = cast("dict[str, str]", Redactor().plain(FilePart(env)))

    assert base64.b64decode(clean["data"]) == b"\xff OPENAI_API_KEY=[redacted]\n"
    assert Redactor().plain(FilePart("no base64: sk-canary-0123456789")) == {
        "kind": "file",
        "data": "no base64: [redacted]",
    }


@pytest.mark.parametrize("strange", [b"x", {1: 2}, {"a": {1, 2}}, object(), Settings])
def test_what_has_no_place_in_json_is_refused(strange: object) -> None:
    with pytest.raises(TypeError, match="JSON"):
        Redactor().plain(strange)
