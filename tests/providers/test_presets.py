"""OpenAI-compatible servers by their presets: addresses, keys, and request bodies as each server takes them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Generator
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import understudy as us
from tests.support.http import HELLO, OPENAI_REPLY, Answers, FakeTime
from tests.support.ollama import ROUNDS, Stand, ollama
from tests.support.wire import objs
from understudy.cli import main
from understudy.errors import (
    AuthenticationError,
    ContextOverflow,
    ProviderError,
    RateLimited,
)
from understudy.providers.catalogue import CLIENTS
from understudy.providers.http.credentials import check_key
from understudy.providers.http.environment import keys_that_are_set
from understudy.providers.openai.compatible import address_in
from understudy.vocabulary.messages import (
    JsonValue,
    Message,
    ModelRequest,
    OutputSpec,
    ReasoningPart,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
    user_message,
)
from understudy.vocabulary.models import PROVIDERS, ModelName, likely
from understudy.vocabulary.presets import PRESETS, Preset

pytestmark = pytest.mark.usefixtures("bare_environment")

KEY = "canary-0123456789"
TOOL = ToolSpec("look", "Look.", {"type": "object", "properties": {}})


@dataclass(frozen=True)
class Row:
    """What is known of a server from its documentation."""

    url: str
    key: str
    needs_key: bool = True
    max_tokens: str = "max_tokens"
    seed: str = "seed"
    stream_options: bool = True
    echo: str = ""
    typed: str = "tool"
    """What asks for a typed answer of an agent without tools: `schema` or `tool`."""
    lacks: tuple[str, ...] = ()


SERVERS = {
    "ollama": Row(
        "http://127.0.0.1:11434/v1",
        "OLLAMA_API_KEY",
        needs_key=False,
        echo="reasoning",
        typed="schema",
        lacks=("parallel_tool_calls", "tool_choice", "verbosity", "service_tier"),
    ),
    "vllm": Row("http://127.0.0.1:8000/v1", "VLLM_API_KEY", needs_key=False, echo="reasoning", typed="schema"),
    "llamacpp": Row(
        "http://127.0.0.1:8080/v1", "LLAMA_API_KEY", needs_key=False, echo="reasoning_content", typed="schema"
    ),
    "llama-cpp-python": Row("http://127.0.0.1:8000/v1", "LLAMA_CPP_PYTHON_API_KEY", needs_key=False),
    "openrouter": Row("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", echo="reasoning"),
    "groq": Row(
        "https://api.groq.com/openai/v1", "GROQ_API_KEY", max_tokens="max_completion_tokens", lacks=("verbosity",)
    ),
    "deepseek": Row(
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        echo="reasoning_content",
        lacks=("parallel_tool_calls", "seed", "verbosity", "service_tier"),
    ),
    "mistral": Row(
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        seed="random_seed",
        stream_options=False,
        typed="schema",
        lacks=("verbosity", "service_tier"),
    ),
}
VALUES: dict[str, Any] = {
    "parallel_tool_calls": True,
    "tool_choice": "required",
    "seed": 7,
    "verbosity": "low",
    "service_tier": "flex",
}
each_server = pytest.mark.parametrize("name", sorted(SERVERS))


def asked(name: str, request: ModelRequest = HELLO, **options: Any) -> dict[str, Any]:
    """Return the body that a preset's server gets for a request."""
    sent = Answers(httpx.Response(200, json=OPENAI_REPLY))
    us.OpenAI("m", preset=name, api_key=KEY, transport=sent, **options).complete(request)
    return dict(sent.body())


def test_every_preset_is_in_the_table() -> None:
    assert PRESETS.keys() == SERVERS.keys()
    assert all(PROVIDERS[name] == name and name in CLIENTS for name in SERVERS)


@each_server
def test_a_request_goes_to_the_server_with_its_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVERS[name].key, KEY)
    sent = Answers(httpx.Response(200, json=OPENAI_REPLY))

    us.OpenAI("some/model:free", preset=name, transport=sent).complete(HELLO)

    assert str(sent.requests[0].url) == f"{SERVERS[name].url}/chat/completions"
    assert sent.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert sent.body()["model"] == "some/model:free"
    assert KEY in keys_that_are_set()  # tapes hide them


@each_server
def test_without_a_key_a_server_is_asked_without_one_or_the_error_names_its_variable(name: str) -> None:
    row = SERVERS[name]
    sent = Answers(httpx.Response(200, json=OPENAI_REPLY))
    client = us.OpenAI("m", preset=name, transport=sent)

    if not row.needs_key:
        client.complete(HELLO)
        check_key(name)
        assert "authorization" not in sent.requests[0].headers
        return

    with pytest.raises(AuthenticationError, match=f"no key for {name}: set {row.key}, or pass api_key=") as caught:
        client.complete(HELLO)
    assert caught.value.provider == name
    with pytest.raises(AuthenticationError, match=row.key):
        check_key(name)


@each_server
def test_settings_have_the_names_of_the_server(name: str) -> None:
    row = SERVERS[name]
    settings = Settings(max_tokens=5, seed=None if "seed" in row.lacks else 7)

    body = asked(name, ModelRequest([user_message("Hi")], settings=settings))

    assert body[row.max_tokens] == 5
    assert {"max_tokens", "max_completion_tokens"} & body.keys() == {row.max_tokens}
    assert {"seed", "random_seed"} & body.keys() == (set() if "seed" in row.lacks else {row.seed})


@each_server
@pytest.mark.parametrize("setting", sorted(VALUES))
def test_a_setting_that_a_server_lacks_is_refused_and_others_are_sent(name: str, setting: str) -> None:
    request = ModelRequest([user_message("Hi")], tools=(TOOL,), settings=Settings(**{setting: VALUES[setting]}))

    if setting in SERVERS[name].lacks:
        with pytest.raises(ValueError, match=f"settings: {name} has no {setting}"):
            asked(name, request)
        with pytest.raises(ValueError, match=f"agent 'a': settings: {name} has no {setting}"):
            us.Agent("a", model=f"{name}:m", tools=[_look], settings=request.settings)
    else:
        is_named = (name, setting) == ("llama-cpp-python", "tool_choice")
        assert (NAMED if is_named else VALUES[setting]) in asked(name, request).values()


@each_server
def test_a_setting_that_no_compatible_server_has_is_refused_in_the_name_of_the_server(name: str) -> None:
    with pytest.raises(ValueError, match=f"settings: {name} has no cache=True"):
        asked(name, ModelRequest([user_message("Hi")], settings=Settings(cache=True)))


@each_server
def test_fields_of_extra_go_as_they_are(name: str) -> None:
    extra: dict[str, JsonValue] = {"seed": 1, "max_tokens": 2, "parallel_tool_calls": False, "tool_choice": "auto"}

    body = asked(name, ModelRequest([user_message("Hi")], settings=Settings(extra=extra)))

    assert body.items() >= extra.items()


@each_server
def test_a_stream_asks_for_counts_of_tokens_where_the_server_takes_that(name: str) -> None:
    sent = Answers(httpx.Response(200, json=OPENAI_REPLY))

    list(us.OpenAI("m", preset=name, api_key=KEY, transport=sent).stream(HELLO))

    assert ("stream_options" in sent.body()) == SERVERS[name].stream_options
    assert sent.body()["stream"] is True


def history(signature: str, call_id: str = "call_1") -> ModelRequest:
    """Return a conversation with a thought, a call and its result."""
    parts = (ReasoningPart("I should look.", signature), ToolCall(call_id, "look", {}))
    turn = Message("assistant", parts, dialect="openai")
    return ModelRequest([user_message("Hi"), turn, Message("user", (ToolResult(call_id, "seven"),))])


@each_server
@pytest.mark.parametrize("signature", ["reasoning_content", ""])
def test_reasoning_goes_back_in_the_field_of_the_server(name: str, signature: str) -> None:
    echo = SERVERS[name].echo
    said = asked(name, history(signature))["messages"][1]

    # What came in another field than DeepSeek's is not its model's.
    expected = {echo: "I should look."} if echo and (echo == "reasoning" or signature) else {}
    assert {key: said[key] for key in ("reasoning", "reasoning_content") if key in said} == expected
    assert said["content"] == ""


LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})


@each_server
def test_with_tools_reasoning_goes_back_with_each_message_of_the_model(name: str) -> None:
    parts = (ReasoningPart("I should look.", "reasoning_content"), TextPart("Seven."))
    turns = [user_message("Hi"), Message("assistant", parts, dialect="openai"), user_message("On")]
    nothing = [Message("assistant", parts[:1], dialect="openai")]

    with_tools = asked(name, ModelRequest(turns, tools=(LOOK,)))["messages"]
    alone = asked(name, ModelRequest(turns))["messages"]
    empty = asked(name, ModelRequest([*nothing, *turns], tools=(LOOK,)))["messages"]

    echo = SERVERS[name].echo
    assert with_tools[1] == {"role": "assistant", "content": "Seven.", **({echo: "I should look."} if echo else {})}
    assert alone[1] == {"role": "assistant", "content": "Seven."}
    assert empty == with_tools


def test_reasoning_goes_back_in_a_field_of_any_name() -> None:
    house = replace(HOUSE, reasoning_field="thoughts")
    sent = Answers(httpx.Response(200, json={"choices": [{"message": {"content": "Hi", "thoughts": "Hm"}}]}))
    client = us.OpenAI("m", preset=house, api_key=KEY, transport=sent)
    turn = client.complete(HELLO)

    client.complete(ModelRequest([Message("assistant", turn.parts, turn.dialect), user_message("On")], tools=(LOOK,)))

    assert objs(sent.body(1)["messages"])[0] == {"role": "assistant", "content": "Hi", "thoughts": "Hm"}


OWN = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
PLACES: dict[str, dict[str, Any]] = {
    "openai": {},
    "openai/mistral": {"preset": "mistral"},
    "openai/groq": {"preset": "groq", "base_url": "https://mine.test/v1"},
    "openai/box.test:8000": {"base_url": "http://Box.test:8000/v1"},
    "openai/api.openai.com.evil.test": {"base_url": "https://api.openai.com.evil.test/v1"},
}


@pytest.mark.parametrize("made_by", PLACES)
@pytest.mark.parametrize("streamed", [False, True])
def test_what_one_server_sends_beside_text_goes_back_to_that_server_alone(made_by: str, streamed: bool) -> None:
    message = {"content": [OWN, {"type": "text", "text": "Seven."}], "reasoning_details": [{"type": "reasoning.text"}]}
    choice = {"message": message, "finish_reason": "stop"}
    reply = httpx.Response(200, text=f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n")
    answers = Answers(reply if streamed else httpx.Response(200, json={"choices": [choice]}))
    maker = us.OpenAI("m", api_key=KEY, transport=answers, **PLACES[made_by])
    assembler = us.TurnAssembler()
    for piece in maker.stream(HELLO) if streamed else ():
        assembler.add(piece)
    turn = assembler.turn() if streamed else maker.complete(HELLO)
    history = ModelRequest([user_message("Hi"), Message("assistant", turn.parts, turn.dialect), user_message("On")])

    for place, options in PLACES.items():
        sent = Answers(httpx.Response(200, json=OPENAI_REPLY))
        us.OpenAI("m", api_key=KEY, transport=sent, **options).complete(history)
        told: Any = sent.body()["messages"]
        if place == "openai" or made_by not in (place, "openai"):
            assert told[1] == {"role": "assistant", "content": "Seven."}
        else:
            assert told[1] == {"role": "assistant", **message}
    assert turn.dialect == made_by


def entry(id: str, arguments: str, **more: Any) -> dict[str, Any]:
    """Return a call with fields that only its server knows: Gemini's signature behind an OpenAI address, and another."""
    own = {"extra_content": {"google": {"thought_signature": "SIG=="}}}
    return {
        "id": id,
        "type": "function",
        "function": {"name": "look", "arguments": arguments, "mark": 1},
        **own,
        **more,
    }


@pytest.mark.parametrize("made_by", PLACES)
@pytest.mark.parametrize("streamed", [False, True])
def test_fields_of_a_call_that_only_its_server_knows_go_back_to_it_alone(made_by: str, streamed: bool) -> None:
    call = entry("call_1xyz", "{}")
    pieces = [entry("call_1xyz", "", index=0), {"index": 0, "function": {"arguments": "{}"}, "unused": None}]
    deltas = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    body = "".join([f"data: {json.dumps(each)}\n\n" for each in deltas])
    whole = {"choices": [{"message": {"content": None, "tool_calls": [{**call, "index": 0}]}, "finish_reason": "stop"}]}
    reply = httpx.Response(200, text=f"{body}data: [DONE]\n\n") if streamed else httpx.Response(200, json=whole)
    maker = us.OpenAI("m", api_key=KEY, transport=Answers(reply), **PLACES[made_by])
    assembler = us.TurnAssembler()
    for piece in maker.stream(HELLO) if streamed else ():
        assembler.add(piece)
    turn = assembler.turn() if streamed else maker.complete(HELLO)
    said = Message("assistant", turn.parts, turn.dialect)
    history = ModelRequest([user_message("Hi"), said, Message("user", (ToolResult("call_1xyz", "seven"),))])

    for place, options in PLACES.items():
        sent = Answers(httpx.Response(200, json=OPENAI_REPLY))
        us.OpenAI("m", api_key=KEY, transport=sent, **options).complete(history)
        told: Any = sent.body()["messages"]
        [back] = told[1]["tool_calls"]
        if place == "openai" or made_by not in (place, "openai"):
            plain = {"id": back["id"], "type": "function", "function": {"name": "look", "arguments": "{}"}}
            assert back == plain
        else:
            assert back == {**call, "id": back["id"]}


@pytest.mark.parametrize("given", ["call_1", "x", "toolu_01A09q90qw90lq917835lq9", "ä" * 9, "a-b-c-d-e", "\ud800", ""])
def test_mistral_gets_ids_of_nine_letters_and_digits(given: str) -> None:
    messages = asked("mistral", history("", given))["messages"]

    sent = messages[1]["tool_calls"][0]["id"]
    assert messages[2]["tool_call_id"] == sent
    assert len(sent) == 9 and sent.isascii() and sent.isalnum()


def test_an_id_of_mistrals_own_stays_and_others_stay_apart() -> None:
    def sent(given: str) -> str:
        found: str = asked("mistral", history("", given))["messages"][2]["tool_call_id"]
        return found

    assert sent("D681PevKs") == "D681PevKs"
    assert len({sent(f"call_{number}") for number in range(50)}) == 50


@each_server
def test_a_users_message_follows_results_where_the_server_takes_it(name: str) -> None:
    picture = us.ToolResult("call_1", "a shelf", parts=(us.ImagePart("aGk="),))
    *before, _ = history("").messages
    shown = ModelRequest([*before, Message("user", (picture,)), Message("assistant", (us.TextPart("Ah."),))])
    asked_again = ModelRequest([*history("").messages, user_message("And now?")])

    def roles(request: ModelRequest) -> list[str]:
        return [message["role"] for message in asked(name, request)["messages"]]

    bridge = ["assistant"] if name == "mistral" else []
    assert roles(shown) == ["user", "assistant", "tool", *bridge, "user", "assistant"]
    assert roles(asked_again) == ["user", "assistant", "tool", *bridge, "user"]
    assert roles(history("")) == ["user", "assistant", "tool"]


@each_server
def test_a_typed_answer_is_asked_for_as_the_server_can(name: str) -> None:
    sent = Answers(httpx.Response(500))
    model = us.OpenAI("m", preset=name, api_key=KEY, transport=sent, attempts=1)

    us.Agent("plain", model=model, output_type=list[int]).submit("Hi").exception(10)
    body = sent.body()
    us.Agent("with-tools", model=model, output_type=list[int], tools=[us.tool(_look)]).submit("Hi").exception(10)

    assert ("response_format" in body) == (SERVERS[name].typed == "schema")
    assert "response_format" not in sent.body()
    tools: Any = sent.body()["tools"]
    assert [tool["function"]["name"] for tool in tools] == ["_look", "final_answer"]


def _look() -> str:
    """Look."""
    return "seven"


ANSWER = replace(TOOL, name="final_answer")
BY_TOOL = ModelRequest(
    [user_message("Hi")],
    tools=(ANSWER,),
    output=OutputSpec("Answer", {"type": "object"}, tool="final_answer"),
    settings=Settings(tool_choice="final_answer"),
)


@pytest.mark.parametrize(
    ("name", "model", "choice"),
    [
        ("ollama", "m", None),
        ("llamacpp", "m", "required"),
        ("llama-cpp-python", "m", {"type": "function", "function": {"name": "final_answer"}}),
        ("deepseek", "deepseek-reasoner", None),
        ("deepseek", "deepseek-chat", {"type": "function", "function": {"name": "final_answer"}}),
        ("groq", "m", {"type": "function", "function": {"name": "final_answer"}}),
    ],
)
def test_the_tool_of_an_answer_is_forced_as_the_server_can(name: str, model: str, choice: object) -> None:
    sent = Answers(httpx.Response(200, json=OPENAI_REPLY))

    us.OpenAI(model, preset=name, api_key=KEY, transport=sent).complete(BY_TOOL)

    assert sent.body().get("tool_choice") == choice


@pytest.mark.parametrize(
    ("model", "choice", "is_refused"),
    [
        ("deepseek-reasoner", "required", True),
        ("deepseek-reasoner", "_look", True),
        ("deepseek-reasoner", "auto", False),
        ("deepseek-reasoner", "none", False),
        ("deepseek-v4-pro", "required", True),
        ("deepseek-v4-flash", "_look", True),
        ("deepseek-chat", "required", False),
    ],
)
def test_a_forced_tool_is_refused_when_the_agent_is_made_for_models_that_take_none(
    model: str, choice: str, is_refused: bool
) -> None:
    sent = Answers(httpx.Response(200, json=OPENAI_REPLY))
    client = us.OpenAI(model, preset="deepseek", api_key=KEY, transport=sent)
    settings = Settings(tool_choice=choice)

    if is_refused:
        with pytest.raises(
            ValueError, match=f"agent 'a': settings: deepseek has no tool_choice='{choice}' for {model}"
        ):
            us.Agent("a", model=client, tools=[_look], settings=settings)
    else:
        us.Agent("a", model=client, tools=[_look], settings=settings).run("Hi")
        assert sent.body().get("tool_choice") == (None if choice == "auto" else choice)


NAMED = {"type": "function", "function": {"name": "look"}}


@pytest.mark.parametrize(
    ("name", "choice", "sent", "error"),
    [
        ("llamacpp", "look", "required", "llamacpp has no tool_choice by the name of a tool; write 'required'"),
        ("llamacpp", "required", "required", ""),
        ("llama-cpp-python", "look", NAMED, ""),
        ("llama-cpp-python", "required", NAMED, "has no tool_choice='required'; write the name of a tool"),
        ("llama-cpp-python", "none", "none", ""),
        ("vllm", "look", NAMED, ""),
        ("vllm", "required", "required", ""),
    ],
)
def test_a_forced_tool_is_said_as_the_server_knows_it_or_refused_if_it_might_be_another(
    name: str, choice: str, sent: object, error: str
) -> None:
    def asking(*tools: ToolSpec) -> object:
        request = ModelRequest([user_message("Hi")], tools=tools, settings=Settings(tool_choice=choice))
        return asked(name, request)["tool_choice"]

    assert asking(TOOL) == sent
    with pytest.raises(ValueError, match=error) if error else nullcontext():
        assert asking(TOOL, replace(TOOL, name="other")) == sent


@each_server
@pytest.mark.parametrize("extra", [{}, {"tool_choice": "none"}])
def test_a_server_that_leaves_tools_out_without_a_choice_is_told_that_the_model_may_call_them(
    name: str, extra: dict[str, JsonValue]
) -> None:
    settings = Settings(extra=extra)
    with_tools = asked(name, ModelRequest([user_message("Hi")], tools=(TOOL,), settings=settings))
    without = asked(name, ModelRequest([user_message("Hi")], settings=settings))

    said = {"tool_choice": "auto"} if name == "llama-cpp-python" else {}
    assert {key: value for key, value in with_tools.items() if key == "tool_choice"} == {**said, **extra}
    assert {key: value for key, value in without.items() if key == "tool_choice"} == extra


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("box", "http://box:11434/v1"),
        ("box:99", "http://box:99/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("http://box", "http://box/v1"),
        ("https://box/ollama/", "https://box/ollama/v1"),
        ("http://box:99/v1", "http://box:99/v1"),
    ],
)
def test_the_variable_of_an_address_may_leave_parts_out(variable: str, address: str) -> None:
    assert address_in(variable, PRESETS["ollama"]) == address


@pytest.mark.parametrize(
    ("name", "variable", "address"),
    [
        ("ollama", "OLLAMA_HOST", "http://box.test:11434/v1"),
        ("vllm", "VLLM_BASE_URL", "http://box.test:8000/v1"),
        ("llamacpp", "LLAMACPP_BASE_URL", "http://box.test:8080/v1"),
        ("groq", "GROQ_BASE_URL", "https://box.test/openai/v1"),
    ],
)
def test_an_address_stands_in_the_variable_or_is_given(
    name: str, variable: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "box.test")
    sent = Answers(httpx.Response(200, json=OPENAI_REPLY))

    us.OpenAI("m", preset=name, api_key=KEY, transport=sent).complete(HELLO)
    us.OpenAI("m", preset=name, api_key=KEY, transport=sent, base_url="https://mine.test/x").complete(HELLO)

    given = [str(request.url) for request in sent.requests]
    assert given == [f"{address}/chat/completions", "https://mine.test/x/chat/completions"]


def test_a_wrong_address_in_the_variable_is_told_without_quoting_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", f"http://me:{KEY}@box")

    with pytest.raises(ValueError, match="OLLAMA_HOST must look like") as caught:
        us.OpenAI("m", preset="ollama").complete(HELLO)
    assert KEY not in str(caught.value)


HOUSE = Preset(name="house", address="https://models.test", key_variables=("HOUSE_KEY",), lacks=("seed",))


def test_help_explains_each_field_of_a_preset() -> None:
    explained = re.findall(r"^ {4}(\w+): ", inspect.getdoc(Preset) or "", re.MULTILINE)

    assert [name for name in explained if name not in ("TypeError", "ValueError")] == [f.name for f in fields(Preset)]


def test_a_preset_of_ones_own_is_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Answers(httpx.Response(401, json={"error": {"message": "who?"}}))
    client = us.OpenAI("m", preset=HOUSE, transport=sent)
    with pytest.raises(AuthenticationError, match="no key for house: set HOUSE_KEY"):
        client.complete(HELLO)

    monkeypatch.setenv("HOUSE_KEY", KEY)
    with pytest.raises(AuthenticationError) as caught:
        client.complete(HELLO)

    assert (caught.value.provider, str(sent.requests[0].url)) == ("house", "https://models.test/v1/chat/completions")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"name": "House!"}, ValueError),
        ({"name": None}, TypeError),
        ({"key_variables": ()}, ValueError),
        ({"key_variables": "HOUSE_KEY"}, TypeError),
        ({"key_variables": ("HOUSE KEY",)}, ValueError),
        ({"needs_key": 1}, TypeError),
        ({"typed_by": "words"}, TypeError),
        ({"reasoning_field": None}, TypeError),
        ({"reasoning_field": "content"}, ValueError),
        ({"reasoning_field": "function_call"}, ValueError),
        ({"reasoning_field": "a field"}, ValueError),
        ({"lacks": ["seed"]}, TypeError),
        ({"lacks": ("sed",)}, ValueError),
        ({"call_id_length": True}, TypeError),
        ({"user_after_results": 1}, TypeError),
        ({"call_id_length": 0}, TypeError),
        ({"address": 7}, TypeError),
        ({"path": "v1"}, ValueError),
        ({"path": "@evil.test/v1"}, ValueError),
        ({"path": "/v1/"}, ValueError),
        ({"path": "/v1?key=1"}, ValueError),
        ({"path": ":99/v1"}, ValueError),
        ({"unforced": "("}, ValueError),
        ({"seed_field": ""}, ValueError),
    ],
)
def test_a_wrong_field_of_a_preset_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="Preset: ") as caught:
        replace(HOUSE, **change)
    assert type(caught.value) is error


def test_the_path_of_a_preset_may_be_empty() -> None:
    assert replace(HOUSE, path="").path == ""


@pytest.mark.parametrize(
    ("preset", "error", "words"),
    [
        ("grok", ValueError, "preset must be one of deepseek, groq"),
        (7, TypeError, "preset must be a name or a Preset, got int"),
        (replace(HOUSE, address="models.test"), ValueError, "the preset's address must look like"),
    ],
)
def test_a_wrong_preset_is_refused(preset: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        us.OpenAI("m", preset=preset)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ollama/llama3.2", "ollama:llama3.2"),
        ("deepseek-chat", "deepseek:deepseek-chat"),
        ("mistral-large-latest", "mistral:mistral-large-latest"),
    ],
)
def test_a_near_name_is_suggested(written: str, meant: str) -> None:
    assert likely(written) == meant
    with pytest.raises(ValueError, match=f"did you mean '{meant}'|Did you mean '{meant}'"):
        ModelName.parse(written)


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Generator[Stand]:
    """Serve models as Ollama does, where `OLLAMA_HOST` says."""
    with ollama() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        yield server


def on_shelf(sku: str) -> int:
    """Count the units of a product."""
    return 7


def test_a_model_string_is_all_that_an_agent_needs(stand: Stand) -> None:
    clerk = us.Agent("clerk", model="ollama:llama3.2", tools=[on_shelf])

    outcome = clerk.run("How many?")

    assert (outcome.text, len(stand.bodies)) == ('{"units": 7}', ROUNDS + 1)
    thoughts = [said.get("reasoning") for said in stand.bodies[-1]["messages"] if said["role"] == "assistant"]
    assert thoughts == ["round 0", "round 1", "round 2"]
    assert all("authorization" not in headers for headers in stand.headers)


def test_a_streamed_run_is_the_same(stand: Stand) -> None:
    clerk = us.Agent("clerk", model="ollama:llama3.2", tools=[on_shelf])

    with clerk.stream("How many?") as events:
        for _ in events:
            pass

    assert events.result().text == '{"units": 7}'
    assert events.result().usage.output_tokens == 5 * (ROUNDS + 1)


@dataclass
class Shelf:
    """A typed answer."""

    units: int


@pytest.mark.parametrize("tools", [[], [on_shelf]], ids=["schema", "tool"])
def test_a_typed_answer_comes_by_the_schema_or_by_the_tool(stand: Stand, tools: list[Any]) -> None:
    outcome = us.Agent("clerk", model="ollama:llama3.2", tools=tools, output_type=Shelf).run("How many?")

    assert outcome.output == Shelf(7)


SPEC = """
agents:
  - id: clerk
    provider: ollama
    model: llama3.2
    output_schema: {type: object, properties: {units: {type: integer}}}
  - id: other
    provider: ollama
    model: mistral:7b
"""


def test_a_spec_names_a_preset_as_its_provider(stand: Stand) -> None:
    spec = us.load_spec_text(SPEC)

    assert spec.agent("clerk").run("How many?").output == {"units": 7}
    assert str(spec.agent("other").model) == "ollama:mistral:7b"


def test_a_preset_answers_on_the_command_line(stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "clerk.yaml"
    spec.write_text("agents: [{id: clerk, model: anthropic:claude-haiku-4-5}]")

    assert main(["run", str(spec), "clerk", "How many?", "--model", "ollama:llama3.2"]) == 0

    assert capsys.readouterr().out.strip() == '{"units": 7}'


@pytest.mark.parametrize(
    ("model", "error", "status"),
    [
        ("locked", AuthenticationError, 401),
        ("busy", RateLimited, 429),
        ("full", ProviderError, 503),
        ("long", ContextOverflow, 400),
        ("broken", ProviderError, 500),
        ("llama4", ProviderError, 404),
    ],
)
def test_an_error_has_its_class_and_the_name_of_the_provider(
    stand: Stand, model: str, error: type[ProviderError], status: int
) -> None:
    client = us.OpenAI(model, preset="ollama", attempts=1, timing=FakeTime().timing())

    with client, pytest.raises(error) as caught:
        client.complete(HELLO)

    assert (type(caught.value), caught.value.provider, caught.value.status) == (error, "ollama", status)
