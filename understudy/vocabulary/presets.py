"""OpenAI-compatible servers as rows of data: where each one is, which variables it has, and how it differs from OpenAI."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Literal, cast, get_args

NAME = re.compile(r"[a-z][a-z0-9_-]*")
PATH = re.compile(r"(/[A-Za-z0-9._~%:@+-]+)*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

REFUSABLE = (
    "parallel_tool_calls",
    "tool_choice",
    "seed",
    "verbosity",
    "service_tier",
    "reasoning",
    "strict_tools",
    "cache",
)
"""Settings that a server may lack; without the others a model can hardly be used."""

TAKEN = (
    *("role", "content", "tool_calls", "tool_call_id", "function_call", "name", "refusal", "annotations", "audio"),
    "reasoning_details",
)
"""Fields of a message with a meaning of their own."""

TypedBy = Literal["schema", "schema unless tools", "tool"]
"""How a server holds a model to the form of a typed answer."""

ForcedBy = Literal["name or word", "name", "word"]
"""How a request may force a tool."""

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """An OpenAI-compatible server, for `us.OpenAI(model, preset=…)`; those of `PRESETS` are prefixes of model strings too.

    Args:
        name: the provider in errors and model strings: small letters, digits, `-` and `_`.
        address: scheme, host and port, such as `http://127.0.0.1:11434`. Requests go to this address with `path` behind it;
            the `base_url` of a client has the path in it.
        path: stands between the address and `/chat/completions`; it begins with `/` unless it is empty.
        address_variable: the environment variable with another address. It may leave out the scheme and the port, which are
            those of `address`, and the path.
        key_variables: the environment variables of the key; the first one that is set counts.
        needs_key: whether a call without a key is an error; else it is sent without one.
        typed_by: what asks for a typed answer: a JSON Schema (`schema`); a schema if the agent has no tools, as a schema would
            keep the model from calling them (`schema unless tools`); or the tool `final_answer` (`tool`).
        reasoning_field: the field of a message with the model's reasoning, which is read there and goes back there; empty where
            servers refuse one. `reasoning_content` and `reasoning` are always read.
        max_tokens_field: the field of `Settings.max_tokens`.
        seed_field: the field of `Settings.seed`.
        stream_options: whether a stream must be asked for its counts of tokens.
        lacks: settings that the server ignores or refuses, such as `seed`: a request with one is a `ValueError`.
        forced_by: how `tool_choice` forces a tool: by the name of one, or by the word `required`. If a request has one tool,
            the server is sent the way that it takes; else the other way is a `ValueError`.
        says_auto: whether `tool_choice` must be sent where it is `auto`: the server offers a model no tools without it.
        unforced: a pattern of models that refuse a forced tool: `tool_choice` with one is a `ValueError`; the tool of a typed
            answer is offered to them and not forced.
        call_id_length: the length that ids of tool calls must have, in letters and digits; None for any id.
        user_after_results: whether a user's message may follow the results of tools, as pictures of results do; else a short
            one of the model's is put between them.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a name, variable or address that cannot be one.
    """

    name: str
    address: str
    path: str = "/v1"
    address_variable: str = ""
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    typed_by: TypedBy = "schema"
    reasoning_field: str = ""
    max_tokens_field: MaxTokensField = "max_tokens"
    seed_field: str = "seed"
    stream_options: bool = True
    lacks: tuple[str, ...] = ()
    forced_by: ForcedBy = "name or word"
    says_auto: bool = False
    unforced: str = ""
    call_id_length: int | None = None
    user_after_results: bool = True

    def __post_init__(self) -> None:
        for each in fields(self):
            _check(each.name, getattr(self, each.name))
        if not NAME.fullmatch(self.name):
            raise ValueError(f"Preset: name must be small letters, digits, '-' and '_', got {self.name!r}")
        for variable in filter(None, (self.address_variable, *self.key_variables)):
            if not VARIABLE.fullmatch(variable):
                raise ValueError(f"Preset: {variable[:40]!r} is not the name of an environment variable")
        if self.needs_key and not self.key_variables:
            raise ValueError("Preset: key_variables is empty; name the variable of the key, or pass needs_key=False")
        for setting in self.lacks:
            if setting not in REFUSABLE:
                raise ValueError(f"Preset: lacks names {', '.join(REFUSABLE)}; got {setting!r}")
        if not PATH.fullmatch(self.path):
            raise ValueError(f"Preset: path must look like '/v1', or be empty, got {self.path!r}")
        if not VARIABLE.fullmatch(self.seed_field):
            raise ValueError(f"Preset: seed_field must be the name of a field, got {self.seed_field!r}")
        if self.reasoning_field and (not VARIABLE.fullmatch(self.reasoning_field) or self.reasoning_field in TAKEN):
            expected = f"empty or the name of a field, and none of {', '.join(TAKEN)}"
            raise ValueError(f"Preset: reasoning_field must be {expected}; got {self.reasoning_field!r}")
        try:
            re.compile(self.unforced)
        except re.error as error:
            raise ValueError(f"Preset: unforced must be a regular expression, got {self.unforced!r}: {error}") from None


CHOICES: dict[str, tuple[object, ...]] = {
    "typed_by": get_args(TypedBy),
    "max_tokens_field": get_args(MaxTokensField),
    "forced_by": get_args(ForcedBy),
}


def _check(name: str, value: object) -> None:
    match name:
        case "needs_key" | "stream_options" | "says_auto" | "user_after_results":
            _must(isinstance(value, bool), name, "True or False", value)
        case "key_variables" | "lacks":
            _must(_are_words(value), name, "a tuple of strings", value)
        case "call_id_length":
            number = isinstance(value, int) and not isinstance(value, bool) and value >= 8
            _must(value is None or number, name, "a whole number of at least 8, or None", value)
        case _ if name in CHOICES:
            _must(value in CHOICES[name], name, f"one of {', '.join(map(repr, CHOICES[name]))}", value)
        case _:
            _must(isinstance(value, str), name, "a string", value)


def _are_words(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, str) for each in cast("tuple[object, ...]", value))


def _must(fits: bool, name: str, expected: str, value: object) -> None:
    if not fits:
        raise TypeError(f"Preset: {name} must be {expected}, got {value!r}")


def _by_name(presets: Collection[Preset]) -> dict[str, Preset]:
    return {preset.name: preset for preset in presets}


# From the documentation of the servers, and in part from the types of their own Python libraries.
PRESETS = _by_name(
    [
        # Ollama, OpenAI compatibility: no tool_choice; a format holds for every text, so that no tool can be called.
        Preset(
            name="ollama",
            address="http://127.0.0.1:11434",
            address_variable="OLLAMA_HOST",
            key_variables=("OLLAMA_API_KEY",),
            needs_key=False,
            typed_by="schema unless tools",
            reasoning_field="reasoning",
            lacks=("parallel_tool_calls", "tool_choice", "verbosity", "service_tier"),
        ),
        # vLLM, OpenAI-compatible server: a schema holds for the whole answer, calls included.
        Preset(
            name="vllm",
            address="http://127.0.0.1:8000",
            address_variable="VLLM_BASE_URL",
            key_variables=("VLLM_API_KEY",),
            needs_key=False,
            typed_by="schema unless tools",
            reasoning_field="reasoning",
        ),
        # llama.cpp, HTTP server: tool_choice is a word; a schema with tools is refused or keeps the model from calling them.
        Preset(
            name="llamacpp",
            address="http://127.0.0.1:8080",
            address_variable="LLAMACPP_BASE_URL",
            key_variables=("LLAMA_API_KEY",),
            needs_key=False,
            typed_by="schema unless tools",
            reasoning_field="reasoning_content",
            forced_by="word",
        ),
        # llama-cpp-python, server with the chat format chatml-function-calling: without tool_choice it leaves the tools out,
        # and `required` is an error. A response_format must be text or json_object.
        Preset(
            name="llama-cpp-python",
            address="http://127.0.0.1:8000",
            address_variable="LLAMA_CPP_PYTHON_BASE_URL",
            key_variables=("LLAMA_CPP_PYTHON_API_KEY",),
            needs_key=False,
            typed_by="tool",
            forced_by="name",
            says_auto=True,
        ),
        # OpenRouter API, Structured outputs: only some models behind it have schemas.
        Preset(
            name="openrouter",
            address="https://openrouter.ai",
            path="/api/v1",
            key_variables=("OPENROUTER_API_KEY",),
            typed_by="tool",
            reasoning_field="reasoning",
        ),
        # Groq API, Structured outputs: some models, and neither with streams nor with tools. It refuses unknown fields in
        # messages, and takes reasoning back from some models only.
        Preset(
            name="groq",
            address="https://api.groq.com",
            path="/openai/v1",
            address_variable="GROQ_BASE_URL",
            key_variables=("GROQ_API_KEY",),
            typed_by="tool",
            max_tokens_field="max_completion_tokens",
            lacks=("verbosity",),
        ),
        # DeepSeek API, Create chat completion: `response_format` is text or json_object; no seed. Thinking mode, in which V4
        # is by default: with tools reasoning goes back, and a tool cannot be forced.
        Preset(
            name="deepseek",
            address="https://api.deepseek.com",
            key_variables=("DEEPSEEK_API_KEY",),
            typed_by="tool",
            reasoning_field="reasoning_content",
            lacks=("parallel_tool_calls", "seed", "verbosity", "service_tier"),
            unforced="reasoner|deepseek-v4",
        ),
        # Mistral API, Chat: unknown fields are refused, `stream_options` and `max_completion_tokens` among them. It answers
        # "Unexpected role 'user' after role 'tool'" (code 3230), as many issues of its clients quote.
        Preset(
            name="mistral",
            address="https://api.mistral.ai",
            key_variables=("MISTRAL_API_KEY",),
            typed_by="schema unless tools",
            seed_field="random_seed",
            stream_options=False,
            lacks=("verbosity", "service_tier"),
            call_id_length=9,
            user_after_results=False,
        ),
    ]
)
"""Provider -> its server."""


def preset_of(model: object) -> Preset | None:
    """Return the preset of a model's name or of a model object; None for models of other kinds."""
    own: object = getattr(model, "preset", None)
    if isinstance(own, Preset):
        return own
    provider: object = getattr(model, "provider", None)
    return PRESETS.get(provider) if isinstance(provider, str) else None
