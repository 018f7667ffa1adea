"""`Settings`: how a model should answer, in words of no provider's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast, get_args

from .checks import checked_flag, checked_json, checked_number, checked_text, checked_whole
from .json_types import JsonObject, JsonValue
from .other_names import explains_arguments

ToolChoice: TypeAlias = 'Literal["auto", "none", "required"] | str'

ReasoningLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
LEVELS: tuple[str, ...] = get_args(ReasoningLevel)

Verbosity: TypeAlias = Literal["low", "medium", "high"]
VERBOSITIES: tuple[str, ...] = get_args(Verbosity)

CACHE_TIMES = ("5m", "30m", "1h", "24h")
"""How long a prompt cache is kept, in words that some API knows."""
CACHED_CONTENT = "cachedContents/"
"""Marks the name of a cache that was made before (Gemini API, Context caching)."""


@explains_arguments(
    "Settings",
    {
        "effort": "use reasoning=",
        "max_completion_tokens": "use max_tokens=",
        "max_output_tokens": "use max_tokens=",
        "model": "the model is an argument of Agent",
        "prompt_cache_key": "use cache=True, or extra={'prompt_cache_key': …}",
        "reasoning_effort": "use reasoning=",
        "stop_sequences": "use stop=",
        "strict": "use strict_tools=",
        "thinking": "use reasoning=",
        "thinking_budget": "use reasoning=",
        "timeout": "use Agent(model_timeout=…)",
    },
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the model should answer. None leaves a setting to the provider.

    A setting that the model's API or family lacks is a `ValueError` when the agent is made. docs/model-settings.md has
    what each becomes.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    """Most tokens of one model turn, reasoning included."""
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    """The model stops before it writes one of these."""
    seed: int | None = None
    tool_choice: ToolChoice = "auto"
    """`auto`, `none`, `required` (some tool), or the name of the one tool it must call."""
    parallel_tool_calls: bool | None = None
    """False asks for at most one tool call a turn."""
    thinking_tokens: int | None = None
    """The same as a number in `reasoning`; only one of the two may be set."""
    reasoning: ReasoningLevel | int | None = None
    """How much the model reasons before it answers: `off`, a level up to `max`, or a budget in tokens; 0 is `off`."""
    verbosity: Verbosity | None = None
    """How long the answer is."""
    service_tier: str | None = None
    """`auto`, `standard`, `flex` (cheaper and slower) or `priority`; any other word goes to the provider as it is."""
    cache: bool | str | None = None
    """Whether the provider caches the beginning of the prompt: True, False, a time to live (`5m`, `30m`, `1h`, `24h`), or
    the name of a cache that was made before (`cachedContents/…`, Google)."""
    strict_tools: bool | None = None
    """True holds the model to the schemas of the agent's tools; the provider gets them made strict."""
    extra: JsonObject = field(default_factory=dict[str, JsonValue], repr=False)
    """Fields of the provider's own request body, laid over what we would send. `tools` are added to the agent's own."""

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p"):
            value = getattr(self, name)
            if value is not None and checked_number(f"settings: {name}", value) < 0:
                raise ValueError(f"settings: {name} must not be negative, got {value}")
            if name == "top_p" and value is not None and value > 1:
                raise ValueError(
                    f"settings: top_p is a share of the probability, so it must be at most 1, got {value:g}"
                )
            if isinstance(value, int):  # 0 and 0.0 are one setting, and must look the same in a fingerprint
                object.__setattr__(self, name, float(value))
        if self.max_tokens is not None:
            checked_whole("settings: max_tokens", self.max_tokens, 1)
        if self.thinking_tokens is not None:
            checked_whole("settings: thinking_tokens", self.thinking_tokens, 0)
        if self.seed is not None and (not isinstance(self.seed, int) or isinstance(self.seed, bool)):
            raise TypeError(f"settings: seed must be a whole number, got {self.seed!r}")
        for name in ("parallel_tool_calls", "strict_tools"):
            if getattr(self, name) is not None:
                checked_flag(f"settings: {name}", getattr(self, name))
        if not checked_text("settings: tool_choice", self.tool_choice):
            raise ValueError("settings: tool_choice must be 'auto', 'none', 'required' or the name of a tool, got ''")
        checked_json("settings: extra", self.extra)
        _check_stop(self.stop)
        self._check_words()

    def _check_words(self) -> None:
        if self.reasoning is not None:
            _check_reasoning(self.reasoning)
            if self.thinking_tokens is not None:
                raise ValueError("settings: thinking_tokens and reasoning say the same; expected one of them")
        if self.verbosity is not None and checked_text("settings: verbosity", self.verbosity) not in VERBOSITIES:
            raise ValueError(f"settings: verbosity must be one of {_listed(VERBOSITIES)}; got {self.verbosity!r}")
        if self.service_tier is not None and not checked_text("settings: service_tier", self.service_tier).strip():
            raise ValueError("settings: service_tier must be a word such as 'flex', got a blank text")
        if self.cache is not None:
            _check_cache(self.cache)

    @property
    def asked_reasoning(self) -> str | int | None:
        """How much reasoning is asked for, by either name: a level, tokens above 0, or None for the provider's own."""
        asked = self.thinking_tokens if self.reasoning is None else self.reasoning
        return "off" if asked == 0 else asked

    @property
    def asks_for_reasoning(self) -> bool:
        """Whether the model is asked to reason."""
        return self.asked_reasoning not in (None, "off")


def two_tools(own: Iterable[str], extra: JsonObject) -> str:
    """Say which name two tools would have: of the agent's own, by their names, and of those in `extra`; empty if all differ."""
    tools = extra.get("tools")
    names = Counter([*own, *(names_of_tools(tools) if isinstance(tools, (list, tuple)) else ())])
    twice = sorted(name for name, number in names.items() if number > 1)
    if not twice:
        return ""
    return f"settings: extra: there are two tools named {twice[0]!r}; tools of extra are added to those of the agent"


def beside_cache(cache: object, *, prompt: bool, tools: bool) -> str:
    """Say what an agent may not have that names a cache of Google's; empty if it names none, or has nothing of it.

    Gemini API, Context caching: a cache brings its own system prompt and tools, and the request may have none.
    """
    there = [name for name, has in (("system prompt", prompt), ("tools", tools)) if has]
    if not isinstance(cache, str) or CACHED_CONTENT not in cache or not there:
        return ""
    return (
        f"settings: cache={cache!r} brings its own system prompt and tools, so the agent may have no "
        f"{' and no '.join(there)}; put them into the cache when you make it"
    )


def names_of_tools(tools: Iterable[JsonValue]) -> list[str]:
    """Return the names in a provider's own list of tools, as any of the APIs writes it.

    OpenAI names a function inside of `function`, or beside its type; Anthropic every tool; Google has a list of functions in
    one entry, and its own tools are keys. OpenAI's own tools have no name, and some may come twice.
    """
    return [name for tool in tools if isinstance(tool, Mapping) for name in _names_of(tool)]


def _names_of(tool: JsonObject) -> list[str]:
    function, declared = tool.get("function"), tool.get("functionDeclarations")
    entries = [tool, function, *(declared if isinstance(declared, (list, tuple)) else ())]
    names = [entry.get("name") for entry in entries if isinstance(entry, Mapping)]
    return [name for name in names if isinstance(name, str)]


def _check_stop(stop: object) -> None:
    if isinstance(stop, str) or not isinstance(stop, Sequence):
        raise TypeError(f"settings: stop must be a tuple of strings, got {stop!r}")
    for each in cast("Sequence[str]", stop):
        if not checked_text("settings: stop: each", each):
            raise ValueError("settings: stop must hold no empty string; every text would end at once")


def _check_reasoning(given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, (str, int)):
        hint = "; write 'off'" if given is False else ""
        raise TypeError(
            f"settings: reasoning must be one of {_listed(LEVELS)}, or a number of tokens; got {given!r}{hint}"
        )
    if isinstance(given, int):
        checked_whole("settings: reasoning", given, 0)
    elif given not in LEVELS:
        raise ValueError(f"settings: reasoning must be one of {_listed(LEVELS)}, or a number of tokens; got {given!r}")


def _check_cache(given: object) -> None:
    expected = f"True, False, one of {_listed(CACHE_TIMES)}, or the name of a cache ('{CACHED_CONTENT}…')"
    if not isinstance(given, (bool, str)):
        raise TypeError(f"settings: cache must be {expected}; got {given!r}")
    if isinstance(given, str) and given not in CACHE_TIMES and CACHED_CONTENT not in given:
        raise ValueError(f"settings: cache must be {expected}; got {given!r}")


def _listed(words: Sequence[str]) -> str:
    return ", ".join([repr(word) for word in words])
