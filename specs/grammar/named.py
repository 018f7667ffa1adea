"""The grammar of values that can be objects of the program: a registered name, or a form that a spec can write out."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, Tag

from .grammar import TEXT, Grammar, form, forms


class NamedGrammar(Grammar):
    """One that the program registered."""

    called: ClassVar[str] = "one that is registered"

    name: str = Field(description="the name it is registered under")


class PromptFile(Grammar):
    """Instructions in a file of their own."""

    called: ClassVar[str] = "'system_prompt'"

    file: str = Field(
        description="the file, in UTF-8, relative to the spec and inside of its folder; taken as it is, without `${env:…}`"
    )


class LoggingGrammar(Grammar):
    """One line in the log for each moment of a run."""

    called: ClassVar[str] = "a callback of type logging"

    type: Literal["logging"] = Field(description="this kind of callback")
    contents: bool = Field(default=False, description="also log prompts, replies, arguments, results and errors' texts")
    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="the level of its lines")
    logger: str = Field(
        default="understudy.runs",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$",
        description="the standard library's logger that they go to",
    )


class InputGuardrailGrammar(Grammar):
    """Looks at a run's input before the first model call."""

    called: ClassVar[str] = "a callback of type input_guardrail"

    type: Literal["input_guardrail"] = Field(description="this kind of callback")
    check: str = Field(description="name of a registered function of the context and the text: why not, or None")
    name: str | None = Field(default=None, min_length=1, description="what the error calls it; as `check` if not given")


class OutputGuardrailGrammar(Grammar):
    """Looks at each text with which the model would end a run, or ask a person."""

    called: ClassVar[str] = "a callback of type output_guardrail"

    type: Literal["output_guardrail"] = Field(description="this kind of callback")
    check: str = Field(description="name of a registered function of the context and the text: why not, or None")
    name: str | None = Field(default=None, min_length=1, description="what the error calls it; as `check` if not given")
    retry: bool = Field(default=False, description="tell the model why and let it try again, instead of ending the run")
    hold: Literal["turn"] | None = Field(
        default=None, description="`turn` shows readers nothing of a turn before the guardrail has seen it"
    )


Guardrail = InputGuardrailGrammar | OutputGuardrailGrammar
NAME_FORM = form("name")
_or_named = forms("must be a value, or 'name: NAME'", plain=True, other="name")
"""Chooses between a value and the name of an object; anything that is not a mapping is a value."""

Prompt = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[PromptFile, form("file")] | Annotated[NamedGrammar, NAME_FORM],
    forms(
        "must be text, 'file: FILE', or 'name: NAME' of a registered function", text=True, keys=("name",), other="file"
    ),
]
ModelEntry = Annotated[Annotated[str, Tag(TEXT)] | Annotated[NamedGrammar, NAME_FORM], _or_named]
Condition = Annotated[Annotated[str, Tag(TEXT)] | Annotated[NamedGrammar, NAME_FORM], _or_named]
Approval = Annotated[Annotated[bool, Tag(TEXT)] | Annotated[NamedGrammar, NAME_FORM], _or_named]
CallRule = Annotated[
    Annotated[Literal["result", "fail", "retry"], Tag(TEXT)] | Annotated[NamedGrammar, NAME_FORM], _or_named
]
CallbackEntry = Annotated[
    Annotated[LoggingGrammar, form("logging")]
    | Annotated[InputGuardrailGrammar, form("input_guardrail")]
    | Annotated[OutputGuardrailGrammar, form("output_guardrail")]
    | Annotated[NamedGrammar, NAME_FORM],
    forms(
        "must be a mapping with 'type', or with 'name' of a registered callback",
        types=("logging", "input_guardrail", "output_guardrail"),
        keys=("name",),
        type_first=True,
    ),
]
WatcherEntry = Annotated[
    Annotated[LoggingGrammar, form("logging")] | Annotated[NamedGrammar, NAME_FORM],
    forms(
        "must be a mapping with 'type: logging', or with 'name' of a registered callback",
        types=("logging",),
        keys=("name",),
        type_first=True,
    ),
]
"""A callback of a group or a workflow: guardrails belong to agents, which call models."""
