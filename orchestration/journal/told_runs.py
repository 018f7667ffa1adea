"""What a run that is kept in a store has done, for people: its calls and its pauses, without its definition. Loads pydantic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from understudy.orchestration.agent import snapshot as of_agent
from understudy.orchestration.agent.pauses import pauses_of, pauses_of_child
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.agent.state import RunState
from understudy.orchestration.group import snapshot as of_group
from understudy.orchestration.saving.saved_run import SavedRun
from understudy.vocabulary.messages import ToolCall, ToolResult
from understudy.vocabulary.runs.outcomes import Pause

from .line_rows import Rows, put_in_doubt, stored_line
from .places import key_of_call, place_of_call
from .rows import DEFINITION, RUN

CallStanding: TypeAlias = Literal["finished", "under way", "in doubt", "waiting", "open"]
"""`in doubt`: it began, and nobody knows its result. `waiting`: a person decides. `open`: it has not begun, or a run inside goes on."""


@dataclass(frozen=True, slots=True)
class ToldCall:
    """One tool call of a run."""

    call: ToolCall
    standing: CallStanding
    result: ToolResult | None = None
    key: str = ""
    """The `call_key` that its tool sees; empty for a finished call."""


@dataclass(frozen=True, slots=True)
class ToldRun:
    """One run, or a run inside of it."""

    path: tuple[str, ...]
    """Ids of the runners, from the outermost one."""
    run_id: str
    turns: int
    calls: tuple[ToldCall, ...] = ()
    """Of an agent: in the order in which the model asked for them."""


def told_of_saved(saved: SavedRun) -> list[ToldRun]:
    """Return what a run that waits has done, and then each run inside of it that is not over.

    Raises:
        ValueError: it holds no run.
    """
    return list(_told(saved, ()))


def _told(saved: SavedRun, outer: tuple[str, ...]) -> Iterator[ToldRun]:
    path = (*outer, saved.runner_id)
    if _is_agent(saved.machine):
        state = of_agent.look(saved.machine)
        yield ToldRun(path, saved.run_id, state.turns, tuple(_calls(state, saved.run_id)))
        children = [] if state.round is None else list(state.round.children.values())
    else:
        group = of_group.look(saved.machine)
        yield ToldRun(path, saved.run_id, 0)
        children = [child.paused for child in group.children if child.paused is not None]
    for child in children:
        yield from _told(SavedRun.from_json(child.saved), path)


def pauses_in(saved: SavedRun) -> tuple[Pause, ...]:
    """Return the pauses in which a run waits, as its outcome had them; empty after an error, for it waits for no person.

    Raises:
        ValueError: it holds no run.
    """
    if saved.by_error:
        return ()
    if _is_agent(saved.machine):
        return pauses_of(saved.runner_id, of_agent.look(saved.machine))
    children = of_group.look(saved.machine).children
    paused = [(at, each.paused) for at, each in enumerate(children) if each.phase == "paused"]
    path = (saved.runner_id,)
    return tuple([pause for at, child in paused if child is not None for pause in pauses_of_child(at, child, path)])


def told_of_rows(runs: Mapping[str, Rows], *, driven: bool) -> list[ToldRun]:
    """Return what a run under way has done, and each run inside of it that has rows.

    Args:
        runs: path of each run -> its rows.
        driven: whether a living process drives it: then no call is in doubt.

    Raises:
        ValueError, KeyError: the rows are not those of a run.
    """
    told: dict[str, ToldRun] = {}
    for path in sorted(runs):
        rows = runs[path]
        if (DEFINITION, "") not in rows:
            continue
        saved = SavedRun.from_json(rows[RUN, ""])
        outer = told.get(path.rpartition("/")[0])
        way = (*(() if outer is None or not path else outer.path), saved.runner_id)
        machine = put_in_doubt(stored_line(rows), {}).state.machine
        if isinstance(machine, AgentRun):
            state = machine.state
            inside = {each[len(path) + 1 :] for each in runs if each.startswith(f"{path}/")}
            calls = tuple(_going_on(_calls(state, saved.run_id), state.turns, inside, driven=driven))
            told[path] = ToldRun(way, saved.run_id, state.turns, calls)
        else:
            told[path] = ToldRun(way, saved.run_id, 0)
    return list(told.values())


def _going_on(calls: Iterable[ToldCall], turn: int, inside: set[str], *, driven: bool) -> Iterator[ToldCall]:
    """Return calls with those of sub-agents as open: their runs have rows of their own, and go on."""
    for each in calls:
        if each.standing == "in doubt" and place_of_call(turn, each.call.id) in inside:
            yield replace(each, standing="open")
        elif each.standing == "in doubt" and driven:
            yield replace(each, standing="under way")
        else:
            yield each


def _is_agent(machine: str) -> bool:
    try:
        data: object = json.loads(machine)
    except ValueError:
        data = None
    state = cast("dict[str, object]", data).get("state") if isinstance(data, dict) else None
    if isinstance(state, dict):
        return "messages" in state
    raise ValueError("not a saved run: it has no state")


def _calls(state: RunState, run_id: str) -> Iterator[ToldCall]:
    last: list[ToolCall] = []
    for message in state.messages[state.start :]:
        results = {result.call_id: result for result in message.tool_results}
        yield from [ToldCall(call, "finished", results[call.id]) for call in last if call.id in results]
        last = [*message.tool_calls]
    round_ = state.round
    if round_ is None:
        return
    for call in round_.calls:
        result = round_.results.get(call.id)
        if result is not None:
            yield ToldCall(call, "finished", result)
            continue
        standing: CallStanding = "waiting" if round_.waits(call.id) else "open"
        if call.id in round_.in_doubt:
            standing = "in doubt"
        yield ToldCall(call, standing, key=key_of_call(run_id, state.turns, call.id))
