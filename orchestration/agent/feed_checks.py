"""Type checks of everything that callers feed to an agent's machine, made before its state changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from understudy.vocabulary.checks import checked_json, checked_number, checked_text, checked_whole
from understudy.vocabulary.messages import Message, ModelTurn, Part, ToolResult, Usage
from understudy.vocabulary.runs.outcomes import Pause

from .rulings import Ruling
from .steps import FailRun, RepairCall, Resolution, RetryTurn, SkipCall, StopRun
from .turn_checks import MOST, fault_of_message, fault_of_part, fault_of_result, fault_of_turn, fault_of_usage, kind_of


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
