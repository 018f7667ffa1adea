"""Asks a person, line by line, for the answers that a paused run waits for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TypeAlias, cast

from understudy.commandline.report import WIDEST_ASKED, one_line, shown_call
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonObject, ToolCall
from understudy.vocabulary.runs.outcomes import Approve, Decision, Pause, PauseAnswer, Reject

Read: TypeAlias = Callable[[str], str | None]
"""Reads a line, after a prompt; None at the end of the input."""
Say: TypeAlias = Callable[[str], None]

HOW = "y lets it run; n, or n REASON, does not; e edits the arguments first, or e JSON gives them"


def answers_to(pauses: Iterable[Pause], read: Read, say: Say) -> dict[str, PauseAnswer] | None:
    """Ask for all answers, by the ids of the pauses; None if the input ended first.

    Args:
        pauses: the pauses of the run.
        read: reads a line.
        say: prints a question.
    """
    answers: dict[str, PauseAnswer] = {}
    for pause in pauses:
        answer = _answered(pause, read, say) if pause.question is not None else _decided(pause, read, say)
        if answer is None:
            return None
        answers[pause.id] = answer
    return answers


def _answered(pause: Pause, read: Read, say: Say) -> str | None:
    say(f"{_who(pause)}{pause.question}")
    while (line := read("? ")) is not None:
        if line.strip():
            return line
    return None


def _decided(pause: Pause, read: Read, say: Say) -> dict[str, Decision] | None:
    decisions: dict[str, Decision] = {}
    for call in pause.calls:
        why = pause.reasons.get(call.id, "")
        shown = shown_call(call, WIDEST_ASKED)
        say(f"{_who(pause)}may this run? {shown}{f' ({one_line(why)})' if why else ''}")
        decision = _decision(call, read, say)
        if decision is None:
            return None
        decisions[call.id] = decision
    return decisions


def _who(pause: Pause) -> str:
    return f"{' > '.join(pause.path)}: " if len(pause.path) > 1 else ""


def _decision(call: ToolCall, read: Read, say: Say) -> Decision | None:
    while (line := read("[y/N/e] ")) is not None:
        word, _, rest = line.strip().partition(" ")
        match word.lower():
            case "y" | "yes":
                return Approve()
            case "" | "n" | "no":
                return Reject(rest.strip())
            case "e" | "edit":
                arguments = _edited(call, rest.strip(), read, say)
                if arguments is not None:
                    return Approve(arguments=arguments)
            case _:
                say(HOW)
    return None


def _edited(call: ToolCall, given: str, read: Read, say: Say) -> JsonObject | None:
    """Return the given arguments, or None if they are not a JSON object."""
    if not given:
        say(f"the arguments are {json.dumps(dict(call.arguments), ensure_ascii=False, default=str)}")
        given = read("arguments as JSON: ") or ""
    try:
        arguments: object = parse(given)
    except ValueError as error:
        say(f"that is no JSON: {error}")
        return None
    if not isinstance(arguments, dict):
        say('expected a JSON object, such as {"order": "7"}')
        return None
    return cast(JsonObject, arguments)
