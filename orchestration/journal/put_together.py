"""A run put together from the rows of its journal, with the runs inside of it.

Each run has a path: the outermost one "", and a run inside of another one the path of that one, a slash and its place
there. A place is the number of a group's child, or the turn and the id of a call of a sub-agent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from understudy.errors import SpecChanged
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.definitions.agent import Agent
from understudy.orchestration.definitions.groups import Group
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.definitions.sub_agent import SubAgent
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.runs.events import Changes
from understudy.orchestration.saving.machines import loaded, runner_at
from understudy.orchestration.saving.saved_run import SavedRun
from understudy.vocabulary.context.artifacts import Artifact
from understudy.vocabulary.runs.stored_runs import ChangedRun

from .line_rows import Rows, StoredLine, put_in_doubt, stored_line, take_in
from .places import place_of_call
from .rows import ARTIFACT, DEFINITION, RUN, SAVED, SavedValue

Migrate: TypeAlias = Callable[[ChangedRun], str]
"""Returns the new state of a run that has another definition; raises to leave the whole run."""

M = TypeVar("M")


def put_together(
    runner: Runner[object],
    path: str,
    runs: Mapping[str, Rows],
    *,
    adopt: bool = False,
    migrate: Migrate | None = None,
    lines: Mapping[str, StoredLine] | None = None,
) -> SavedRun | None:
    """Return a run as it stands in its rows; None if it had not written its first step.

    Args:
        runner: whose run it is.
        path: of the run.
        runs: path of each run -> its rows.
        adopt: go on even if the run has another definition.
        lines: what each run has come to, by path; None to find out.
        migrate: asked for the state of each run here, inside too, that has another definition; then `adopt` says nothing.

    Raises:
        SpecChanged: the run has another definition, `adopt` is false, and there is no `migrate`.
        ValueError, KeyError: the rows are not those of a run.
    """
    if lines is None:
        lines = {each: stored_line(rows) for each, rows in runs.items() if (DEFINITION, "") in rows}
        take_in(lines)
    line = lines.get(path)
    if line is None:
        return None
    rows = runs[path]
    saved = SavedRun.from_json(rows[RUN, ""])
    inside = {each[len(path) + 1 :] for each in runs if each.startswith(f"{path}/")}
    places = sorted({each for each in inside if "/" not in each})
    load = _Load(saved, adopt, migrate)

    def inside_of(inner: Runner[object], place: str) -> SavedRun | None:
        return put_together(inner, f"{path}/{place}", runs, adopt=True, migrate=migrate, lines=lines)

    if isinstance(runner, Agent):
        repeats = {name: tool.idempotent or isinstance(tool, SubAgent) for name, tool in runner.tools_by_name.items()}
        machine = _agent(runner, put_in_doubt(line, repeats), repeats, places, load, inside_of)
    else:
        assert isinstance(runner, (Group, Workflow))
        machine = _group(runner, line, places, load, inside_of)
    artifacts = [Artifact(**json.loads(body)) for (kind, _), body in rows.items() if kind == ARTIFACT]
    saved = replace(saved, machine=machine, artifacts=tuple(artifacts), events=line.next_event)
    if line.changes != Changes():
        saved = with_changes(saved, line.changes, is_inner=bool(path))
    return without_saved(saved, json.loads(rows.get((SAVED, ""), "{}")))


def without_saved(run: SavedRun, saved: Mapping[str, SavedValue]) -> SavedRun:
    """Return a run that knows which values of its session are stored; one that it changed since is not."""
    seen = {**run.seen, **{key: version for key, (version, _, _) in saved.items()}}
    done = {
        key
        for key, (_, value, is_removed) in saved.items()
        if (key not in run.session if is_removed else key in run.session and run.session[key] == value)
    }
    return replace(run, seen=seen, unsaved=tuple([key for key in run.unsaved if key not in done]))


def with_changes(saved: SavedRun, changes: Changes, *, is_inner: bool) -> SavedRun:
    """Return a saved run with more changes of its session.

    Args:
        saved: the run.
        changes: the newer ones.
        is_inner: whether the run is a part of another one, so that its session has its changes alone.
    """
    session = {**saved.session, **changes.values}
    for key in changes.removed:
        session.pop(key, None)
    changed = {*changes.values, *changes.removed}
    if is_inner:
        removed = (set(saved.removed) - changes.values.keys()) | {*changes.removed}
        return replace(saved, session=session, removed=tuple(sorted(removed)))
    return replace(saved, session=session, unsaved=tuple(sorted({*saved.unsaved, *changed})))


@dataclass(frozen=True, slots=True)
class _Load:
    """Loads the machine of one run from its text, which is migrated first if need be."""

    run: SavedRun
    adopt: bool
    migrate: Migrate | None

    def __call__(self, text: str, read: Callable[[str, bool], M]) -> M:
        if self.migrate is None:
            return read(text, self.adopt)
        try:
            return read(text, False)
        except SpecChanged as changed:
            run = ChangedRun(self.run.run_id, self.run.runner_id, text, str(changed))
        new = self.migrate(run)
        try:
            return read(new, True)
        except ValueError as error:
            raise ValueError(
                f"migrate: the text that it returned for {run.runner_id!r} is of no use: {error}"
            ) from None


_Inside: TypeAlias = Callable[[Runner[object], str], SavedRun | None]
"""Returns the run of a runner at a place inside; None if it had not begun."""


def _agent(
    agent: Agent[object],
    line: StoredLine,
    repeats: Mapping[str, bool],
    places: Iterable[str],
    load: _Load,
    inside_of: _Inside,
) -> str:
    run = load(line.machine, lambda text, adopt: AgentRun.from_json(text, agent.run_spec, adopt=adopt))
    again = {call.id: None for call in run.in_doubt if repeats.get(call.name, False)}
    if again:  # in the rows, their tool has another name
        run.reconcile(again)
    round_ = run.state.round
    for call in () if round_ is None else round_.pending():
        place, tool = place_of_call(run.state.turns, call.id), agent.tools_by_name.get(call.name)
        if place in places and isinstance(tool, SubAgent):
            child = inside_of(tool.runner, place)
            if child is not None:
                run.child_stopped(call.id, child.to_json())
    return run.to_json()


def _group(group: Group | Workflow, line: StoredLine, places: Iterable[str], load: _Load, inside_of: _Inside) -> str:
    machine = load(line.machine, lambda text, adopt: loaded(group, text, adopt=adopt))
    for place in places:
        position = int(place)
        if machine.expects(position):
            child = inside_of(runner_at(group, machine, position), place)
            if child is not None:
                machine.child_kept(position, child.to_json())
    return machine.to_json()


def by_path(rows: Iterable[tuple[str, str, str, str]]) -> dict[str, dict[tuple[str, str], str]]:
    """Return rows by the path of their run; each is path, kind, key and body, and the newest comes last."""
    found: dict[str, dict[tuple[str, str], str]] = {}
    for path, kind, key, body in rows:
        found.setdefault(path, {})[kind, key] = body
    return found
