"""Type checks of everything that callers feed to an agent's machine, made before its state changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast, get_args

from understudy.orchestration.agent.rulings import Ruling
from understudy.orchestration.agent.steps import FailRun, RepairCall, Resolution, RetryTurn, SkipCall, StopRun
from understudy.vocabulary.checks import checked_json, checked_number, checked_text, checked_whole, not_json
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.messages import (
    COUNTS,
    NO_USAGE,
    FilePart,
    FinishReason,
    ImagePart,
    Message,
    MetadataPart,
    ModelTurn,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolErrorKind,
    ToolResult,
    Usage,
)
from understudy.vocabulary.runs.outcomes import Pause

MOST = 2**63
"""Counts stay below this: the parser of saved texts does not read longer numbers."""
_REASONS = frozenset(get_args(FinishReason))
_ERROR_KINDS = frozenset(get_args(ToolErrorKind))
_KINDS: dict[type, str] = {
    TextPart: "text",
    ToolCall: "tool_call",
    ReasoningPart: "reasoning",
    ImagePart: "image",
    FilePart: "file",
    ToolResult: "tool_result",
    OpaquePart: "opaque",
    MetadataPart: "metadata",
}
_TEXTS: dict[type, tuple[str, ...]] = {
    TextPart: ("text",),
    ToolCall: ("id", "name"),
    ReasoningPart: ("text",),
    ImagePart: ("data", "media_type", "url"),
    FilePart: ("data", "media_type", "url", "name"),
    ToolResult: ("call_id", "content", "name"),
    OpaquePart: (),
    MetadataPart: (),
}
"""Kind of part -> its fields that must be strings."""
_TEXTS_OR_NONE: dict[type, tuple[str, ...]] = {
    TextPart: ("signature",),
    ToolCall: ("bad_arguments", "signature"),
    ReasoningPart: ("signature", "redacted"),
}
_FLAGS: dict[type, str] = {ToolCall: "made_up_id", ToolResult: "is_error"}
_MAPPINGS: dict[type, str] = {ToolCall: "arguments", OpaquePart: "data", MetadataPart: "data"}


def fault_of_turn(returned: object) -> str:
    """Return the fault of a model object's return value."""
    if not isinstance(returned, ModelTurn):
        return f"got {kind_of(returned)}, expected a ModelTurn"
    if _is_usual(returned):
        return ""
    parts: object = returned.parts
    if not isinstance(parts, tuple):
        return f"its parts are {kind_of(parts)}, expected a list or a tuple"
    for part in parts:
        fault = fault_of_part(part)
        if fault:
            return f"parts[{_position(parts, part)}]{fault}"
    return fault_of_usage(returned.usage) or _fault_of_words(returned)


def _is_usual(turn: ModelTurn) -> bool:
    """Whether a turn has only plain texts and calls, without fault.

    This runs for every turn, so it is one loop without calls. A turn that is not usual is checked part by part.
    """
    parts: object = turn.parts
    if type(parts) is not tuple:
        return False
    for part in turn.parts:
        if type(part) is TextPart:
            if type(part.text) is not str or part.signature is not None or part.kind != "text" or part.citations != ():
                return False
        elif type(part) is not ToolCall or not (
            type(part.id) is type(part.name) is str
            and part.bad_arguments is part.signature is None
            and type(part.made_up_id) is bool
            and part.kind == "tool_call"
        ):
            return False
        else:
            arguments: object = part.arguments
            if type(arguments) is not dict:
                return False
            for key, value in cast("dict[object, object]", arguments).items():
                if type(key) is not str or not (type(value) is str or (type(value) is int and -MOST < value < MOST)):
                    return False
    return (
        (turn.usage is NO_USAGE or _is_usual_usage(turn.usage))
        and type(turn.finish_reason) is str
        and turn.finish_reason in _REASONS
        and (turn.raw_finish_reason is None or type(turn.raw_finish_reason) is str)
        and type(turn.refusal) is type(turn.dialect) is type(turn.model) is str
        and type(turn.response_id) is type(turn.request_id) is str
    )


def _is_usual_usage(usage: Usage) -> bool:
    if type(usage) is not Usage or type(usage.raw) is not dict or type(usage.estimated) is not bool:
        return False
    for count in (
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
    ):
        if count is not None and (type(count) is not int or not 0 <= count < MOST):
            return False
    return True


def fault_of_message(given: Message) -> str:
    """Return the fault of a message of a history."""
    if given.role != "user" and given.role != "assistant":
        role = repr(given.role) if isinstance(given.role, str) else kind_of(given.role)
        return f" has the role {role}, expected 'user' or 'assistant'; a system prompt is no message"
    parts: object = given.parts
    if not isinstance(parts, (tuple, list)):
        return f".parts are {kind_of(parts)}, expected a list or a tuple"
    if not isinstance(given.dialect, str):
        return f".dialect is {kind_of(given.dialect)}, expected a string"
    for part in cast("tuple[object, ...]", parts):
        fault = fault_of_part(part)
        if fault:
            return f".parts[{_position(parts, part)}]{fault}"
    return ""


def fault_of_part(part: object) -> str:
    """Return the fault of a part of a message or a turn."""
    kind = type(part)
    # The common cases first, without calls, because this runs for every turn.
    if kind is TextPart and isinstance(part, TextPart):
        if type(part.text) is str and part.signature is None and part.kind == "text" and part.citations == ():
            return ""
    elif kind is ToolCall and isinstance(part, ToolCall):
        if (
            type(part.id) is type(part.name) is str
            and part.bad_arguments is part.signature is None
            and type(part.made_up_id) is bool
            and part.kind == "tool_call"
        ):
            return _fault_of_data(part.arguments, "arguments")
    elif kind not in _KINDS:
        return f" is {kind_of(part)}, expected a part, such as TextPart or ToolCall"
    return _fault_of_rare_part(part, kind)


def fault_of_result(given: object) -> str:
    """Return the fault of a tool result."""
    if type(given) is not ToolResult:
        return f" is {kind_of(given)}, expected a ToolResult"
    if (
        type(given.content) is type(given.call_id) is type(given.name) is str
        and given.is_error is False
        and given.error_kind == ""
        and given.parts == ()
    ):
        return ""  # the common case
    return _fault_of_rare_part(given, ToolResult)


def fault_of_usage(usage: object) -> str:
    """Return the fault of a turn's usage."""
    if not isinstance(usage, Usage):
        return f"its usage is {kind_of(usage)}, expected a Usage"
    if fault := _fault_of_count(usage):
        return fault
    if not isinstance(usage.estimated, bool):
        return f"usage.estimated is {kind_of(usage.estimated)}, expected True or False"
    return "" if isinstance(usage.raw, Mapping) else f"usage.raw is {kind_of(usage.raw)}, expected a mapping"


def _fault_of_count(usage: Usage) -> str:
    for name in COUNTS:
        count: object = getattr(usage, name)
        if count is None:
            continue
        if not isinstance(count, int) or isinstance(count, bool):
            return f"usage.{name} is {kind_of(count)}, expected a whole number or None"
        if not 0 <= count < MOST:
            return f"usage.{name} is {count if count < 0 else 'above 2**63'}, expected at least 0 and below 2**63"
    return ""


def kind_of(value: object) -> str:
    """Return the type of a value in words."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _position(parts: tuple[object, ...] | list[object], part: object) -> int:
    return next(position for position, each in enumerate(parts) if each is part)


def _fault_of_rare_part(part: object, kind: type) -> str:
    for name in _TEXTS[kind]:
        if not isinstance(value := getattr(part, name), str):
            return f".{name} is {kind_of(value)}, expected a string"
    for name in _TEXTS_OR_NONE.get(kind, ()):
        if (value := getattr(part, name)) is not None and not isinstance(value, str):
            return f".{name} is {kind_of(value)}, expected a string or None"
    if cast(TextPart, part).kind != _KINDS[kind]:
        return f".kind is {cast(TextPart, part).kind!r}, expected {_KINDS[kind]!r}"
    flag, data = _FLAGS.get(kind), _MAPPINGS.get(kind)
    fault = _fault_of_flag(part, flag, kind) if flag else ""
    if not fault and data:
        fault = _fault_of_data(getattr(part, data), data)
    if not fault and isinstance(part, TextPart):
        return _fault_of_citations(part.citations)
    return fault or (_fault_of_kind_and_parts(part) if isinstance(part, ToolResult) else "")


def _fault_of_citations(citations: object) -> str:
    if not isinstance(citations, tuple):
        return f".citations are {kind_of(citations)}, expected a tuple"
    for each in cast("tuple[object, ...]", citations):
        if not isinstance(each, Citation):
            return f".citations hold {kind_of(each)}, expected Citation"
        for name in ("title", "url", "quote"):
            if not isinstance(value := getattr(each, name), str):
                return f".citations.{name} is {kind_of(value)}, expected a string"
        for name in ("start", "end"):
            place: object = getattr(each, name)
            if place is not None and (type(place) is not int or not 0 <= place < MOST):
                return f".citations.{name} is {kind_of(place)}, expected a position or None"
        if fault := _fault_of_data(each.raw, "citations.raw"):
            return fault
    return ""


def _fault_of_kind_and_parts(result: ToolResult) -> str:
    kind: object = result.error_kind
    if not isinstance(kind, str) or kind not in _ERROR_KINDS:
        return f".error_kind is {kind!r}, expected one of {', '.join(map(repr, get_args(ToolErrorKind)))}"
    parts: object = result.parts
    if not isinstance(parts, tuple):
        return f".parts are {kind_of(parts)}, expected a tuple"
    for part in cast("tuple[object, ...]", parts):
        if not isinstance(part, (ImagePart, FilePart)):
            return f".parts hold {kind_of(part)}, expected ImagePart or FilePart"
        if fault := fault_of_part(part):
            return f".parts{fault}"
    return ""


def _fault_of_flag(part: object, name: str, kind: type) -> str:
    if type(value := getattr(part, name)) is not bool:
        return f".{name} is {kind_of(value)}, expected True or False"
    return "" if cast(TextPart, part).kind == _KINDS[kind] else f".kind is no {_KINDS[kind]!r}"


def _fault_of_data(data: object, name: str) -> str:
    if type(data) is not dict and not isinstance(data, Mapping):  # the isinstance check is slow
        return f".{name} is {kind_of(data)}, expected a mapping"
    for key, value in cast("Mapping[object, object]", data).items():
        kind = type(value)
        if type(key) is str and (kind is str or kind is bool or value is None):
            continue
        if kind is int and type(key) is str and -MOST < cast(int, value) < MOST:
            continue
        # Errors do not quote all arguments of a tool, because they may hold words of users.
        if fault := not_json({key: value}, f".{name}"):
            return f"{fault}, which JSON cannot carry"
    return ""


def _fault_of_words(turn: ModelTurn) -> str:
    reason: object = turn.finish_reason
    if not isinstance(reason, str) or reason not in _REASONS:
        expected = ", ".join(map(repr, get_args(FinishReason)))
        return f"its finish_reason is {reason!r}, expected one of {expected}"
    raw: object = turn.raw_finish_reason
    if raw is not None and not isinstance(raw, str):
        return f"its raw_finish_reason is {kind_of(raw)}, expected a string or None"
    for name in ("refusal", "dialect", "model", "response_id", "request_id"):
        if not isinstance(value := getattr(turn, name), str):
            return f"its {name} is {kind_of(value)}, expected a string"
    return ""


def checked_input(given: object) -> str | tuple[Part, ...]:
    """Return what the user says: text, or parts.

    Raises:
        TypeError: it is neither.
        ValueError: there are no parts.
    """
    if isinstance(given, str):
        return given
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray)):
        kind = kind_of(given)
        hint = "; the values of a workflow are its parameters=" if isinstance(given, Mapping) else ""
        raise TypeError(f"input must be text or a sequence of parts, got {kind}{hint}")
    parts = tuple(cast("Sequence[Part]", given))
    if not parts:
        raise ValueError("input must hold at least one part, got none")
    for position, part in enumerate(parts):
        if fault := fault_of_part(part):
            raise TypeError(f"input[{position}]{fault}")
    return parts


_NONE: tuple[Message, ...] = ()  # Most runs pass the one empty tuple: a cheaper test than that for an Iterable.


def checked_history(given: Iterable[Message]) -> list[Message]:
    """Return the messages that went before.

    Raises:
        TypeError: something is no message, or holds what is no part.
        ValueError: a role is neither `user` nor `assistant`.
    """
    if given is _NONE:
        return []
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"history must be a sequence of Message objects, got {kind_of(given)}")
    messages = list(given)
    for position, message in enumerate(messages):
        if not isinstance(message, Message):
            raise TypeError(f"history must hold Message objects, got {type(message).__name__}")
        if fault := fault_of_message(message):
            wrong_role = isinstance(message.role, str) and " role " in fault
            raise (ValueError if wrong_role else TypeError)(f"history[{position}]{fault}")
    return messages


def check_turn(given: ModelTurn) -> None:
    """Raise `TypeError` unless this is a well-formed `ModelTurn`."""
    if fault := fault_of_turn(given):
        raise TypeError(f"a model response is no turn: {fault}")


def check_results(given: Sequence[ToolResult]) -> None:
    """Raise `TypeError` unless these are well-formed tool results."""
    for position, result in enumerate(given):
        if fault := fault_of_result(result):
            raise TypeError(f"tool results[{position}]{fault}")


def check_texts(where: str, given: Mapping[int, str]) -> None:
    """Raise `TypeError` unless all values of a mapping are texts."""
    for position, text in given.items():
        checked_text(f"{where}[{position!r}]", text)


def check_text_or_none(where: str, given: str | None) -> None:
    """Raise `TypeError` unless this is a text or None."""
    if given is not None and not isinstance(given, str):
        raise TypeError(f"{where} must be a string or None, got {kind_of(given)}")


def check_resolutions(given: Mapping[int, Resolution]) -> None:
    """Raise `TypeError` unless all values are resolutions."""
    for position, resolution in given.items():
        where = f"resolutions[{position!r}]"
        match resolution:
            case RetryTurn(feedback=text) | SkipCall(reason=text) | StopRun(reason=text):
                checked_text(f"{where}: its text", text)
            case RepairCall(name=name, arguments=arguments):
                check_text_or_none(f"{where}: name", name)
                if arguments is not None:
                    checked_json(f"{where}: arguments", arguments)
            case FailRun():
                pass
            case _:
                raise TypeError(
                    f"{where} must be RetryTurn, RepairCall, SkipCall, FailRun or StopRun, got {kind_of(resolution)}"
                )


def check_rulings(given: Mapping[str, Ruling]) -> None:
    """Raise `TypeError` unless all values are rulings."""
    for call_id, ruling in given.items():
        check_ruling(ruling, f"rulings[{call_id!r}]")


def check_ruling(given: Ruling, where: str = "a ruling") -> None:
    """Raise `TypeError` unless this is a ruling."""
    if not isinstance(given, Ruling):
        raise TypeError(f"{where} must be a Ruling, got {kind_of(given)}")
    checked_text(f"{where}: by", given.by)


def check_pauses(saved: str, given: Sequence[Pause]) -> None:
    """Check the saved run of a child, and its pauses.

    Raises:
        TypeError: something is of the wrong type.
        ValueError: a pause has neither a question nor calls.
    """
    checked_text("the saved run of a child", saved)
    for position, pause in enumerate(given):
        where = f"pauses[{position}]"
        if not isinstance(pause, Pause):
            raise TypeError(f"{where} must be a Pause, got {kind_of(pause)}")
        checked_text(f"{where}: id", pause.id)
        check_text_or_none(f"{where}: question", pause.question)
        if pause.question is None and not pause.calls:
            raise ValueError(f"{where} waits for nothing: it has neither a question nor calls")
        for call in pause.calls:
            if fault := fault_of_part(call):
                raise TypeError(f"{where}: a call{fault}")


def check_spent(usage: Usage | None, cost_usd: float | None, turns: int, tool_calls: int, seconds: float) -> None:
    """Check the arguments of `AgentRun.charge`.

    Raises:
        TypeError: something is no number, or no `Usage`.
        ValueError: a number is negative or not finite.
    """
    if usage is not None and (fault := fault_of_usage(usage)):
        raise TypeError(f"charge: {fault}")
    for name, number in {"turns": turns, "tool_calls": tool_calls}.items():
        _check_amount(name, checked_whole(f"charge: {name}", number, 0))
    for name, amount in {"cost_usd": 0 if cost_usd is None else cost_usd, "seconds": seconds}.items():
        _check_amount(name, checked_number(f"charge: {name}", amount))


def _check_amount(name: str, amount: float) -> None:
    if not 0 <= amount < MOST:
        raise ValueError(f"charge: {name} must be at least 0 and below 2**63")
