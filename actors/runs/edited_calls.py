"""Whether the arguments that a person gives with `Approve(arguments=…)` fit the tools of the calls they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from understudy.orchestration import Agent
from understudy.vocabulary.messages import JsonObject, ToolCall
from understudy.vocabulary.runs.outcomes import Approve
from understudy.vocabulary.tools.parameters import BadArguments

if TYPE_CHECKING:
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.runs.outcomes import Pause, PauseAnswer
    from understudy.vocabulary.tools.definition import Tool


class UnfitArguments(ValueError):
    """Arguments that a person gave do not fit; names each."""


def check_edits(runner: Runner[object], pauses: Sequence[Pause], answers: Mapping[str, PauseAnswer]) -> None:
    """Refuse edited arguments that do not fit the tool, at whatever depth its call waits.

    Validators of the tool's parameters run on the calling thread, as they do when the model makes the call.

    Raises:
        UnfitArguments: some do not fit.
    """
    for pause in pauses:
        answer = answers.get(pause.id)
        if answer is None or pause.question is not None:
            continue
        for call in pause.calls:
            decision = answer.get(call.id) if isinstance(answer, Mapping) else answer
            if isinstance(decision, Approve) and decision.arguments is not None:
                _check_edit(runner, pause, call, decision.arguments)


def _check_edit(runner: Runner[object], pause: Pause, call: ToolCall, arguments: JsonObject) -> None:
    problems: list[str] = []
    for tool in _tools_named(call.name, runner, pause.path):
        problem = _problem(tool, arguments)
        if not problem:
            return
        problems.append(problem)
    if problems:
        raise UnfitArguments(f"Approve(arguments=…) for call {call.id!r} does not fit: {problems[0]}; the token stands")


def _tools_named(name: str, runner: Runner[object], path: Sequence[str]) -> Iterator[Tool[..., object]]:
    """Yield the tools of that name of all agents that a pause's path can mean: two children may have one id."""
    owners = [runner]
    for id in path[1:]:
        owners = [inner for owner in owners for inner in owner.inner_runners if inner.id == id]
    for owner in owners:
        if isinstance(owner, Agent) and name in owner.tools_by_name:
            yield owner.tools_by_name[name]


def _problem(tool: Tool[..., object], arguments: JsonObject) -> str:
    """Return what is wrong with the arguments; empty if they fit."""
    if tool.isolation == "process":  # its validators run in its worker alone
        return _wrong_names(tool, arguments)
    from understudy.vocabulary.tools.schemas import check_arguments

    try:
        check_arguments(tool.signature, tool.name, arguments)
    except BadArguments as error:
        return str(error)
    except Exception:  # a validator failed, and does so again when the call is made: as a failure of the tool
        return ""
    return ""


def _wrong_names(tool: Tool[..., object], arguments: JsonObject) -> str:
    parameters = {each.name: each.default is each.empty for each in tool.signature.parameters}
    missing = [
        f"argument {name!r}: field required" for name, needed in parameters.items() if needed and name not in arguments
    ]
    unknown = [f"argument {name!r}: there is none of this name" for name in arguments if name not in parameters]
    return f"tool {tool.name!r}: " + "; ".join([*missing, *unknown]) if missing or unknown else ""
