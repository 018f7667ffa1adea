"""What a record writes into its journal beside its line: who runs, what the session began with, and the artifacts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from understudy.actors.run_view.event_count import EventCount
from understudy.actors.run_view.log import RunLog
from understudy.orchestration.journal.rows import ARTIFACT, RUN, JournalRow
from understudy.orchestration.runs.events import Changes, ResultCame
from understudy.vocabulary.checks import not_json
from understudy.vocabulary.context.artifacts import Artifacts
from understudy.vocabulary.context.overlays import SessionOverlay, lasting

from .run_journal import Beside, JournalPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.orchestration.definitions.port import RunOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.messages import JsonValue, ToolResult


class KnownValues(Protocol):
    """What a run knows of its session values in the store."""

    versions: dict[str, int]
    unsaved: set[str]


class JournaledRun(Protocol):
    """A run, as far as its journal needs it."""

    is_inner: bool
    keeps_events: bool

    @property
    def run_id(self) -> str: ...
    @property
    def runner(self) -> Runner[object]: ...
    @property
    def input_text(self) -> str: ...
    @property
    def options(self) -> RunOptions: ...
    @property
    def session(self) -> SessionOverlay: ...
    @property
    def artifacts(self) -> Artifacts: ...
    @property
    def log(self) -> RunLog: ...
    @property
    def stored(self) -> KnownValues | None: ...
    @property
    def revision(self) -> int: ...


def run_rows(run: JournaledRun, part: JournalPart) -> list[JournalRow]:
    """Return the rows of a run that are new or changed; nobody changes it meanwhile.

    Raises:
        TypeError: JSON cannot carry a value of the session.
    """
    stored, session = run.stored, run.session
    seen = {} if stored is None else dict(stored.versions)
    unsaved = frozenset[str]() if stored is None else frozenset(stored.unsaved)
    began_with = session.began_with() if run.is_inner and session.is_changed else {}
    beside = Beside(session.below, run.revision, seen, unsaved, began_with)
    if beside == part.beside:
        return artifact_rows(run, part)
    from understudy.orchestration.saving.saved_run import SavedRun

    values = lasting({} if run.is_inner else session.below)
    check_session(run.run_id, values)
    saved = SavedRun(
        run_id=run.run_id,
        runner_id=run.runner.id,
        input=run.input_text,
        machine="",
        session=values,
        began_with=began_with,
        seen=seen,
        unsaved=tuple(sorted(unsaved)),
        user_id=run.options.user_id,
        conversation_id=run.options.conversation_id,
        own_history=run.options.history is not None,
        under_way=True,
        revision=run.revision,
        of_map=run.options.of_map,
        keeps_events=run.keeps_events,
    )
    part.beside = beside
    return [JournalRow(RUN, "", saved.to_json()), *artifact_rows(run, part)]


def next_event(run: JournaledRun, part: JournalPart) -> int:
    """Return the number of the next event of a run."""
    if part.events is None:
        part.events = EventCount(run.log, is_inner=run.is_inner)
    return part.events.next_seq()


def early_result(run: JournaledRun, result: ToolResult, changes: SessionOverlay | None) -> ResultCame:
    """Return the event of a call that is done while others of its round run, with what it changed in the session.

    Raises:
        TypeError: JSON cannot carry a value.
    """
    if changes is None or not changes.is_changed:
        return ResultCame(result)
    values, removed = changes.lasting_changes()
    check_session(run.run_id, values)
    return ResultCame(result, Changes(values, tuple(sorted(removed))) if values or removed else None)


def check_session(run_id: str, values: Mapping[str, JsonValue]) -> None:
    """Raise `TypeError` if JSON cannot carry values of the session of a run."""
    strange = not_json(values, "session")
    if strange:
        raise TypeError(
            f"run {run_id}: {strange}, which JSON cannot carry, and the run has a journal; name the key 'temp:…', or make "
            "the system with journal=False"
        )


def artifact_rows(run: JournaledRun, part: JournalPart) -> list[JournalRow]:
    """Return the rows of artifacts that are not written yet."""
    found = run.artifacts.snapshot()
    if not found and not part.texts:  # as in most runs
        return []
    new = [each for each in found.values() if part.texts.get(each.id) is not each.text]
    part.texts = {each.id: each.text for each in found.values()}
    return [JournalRow(ARTIFACT, each.id, json.dumps(asdict(each))) for each in new]
