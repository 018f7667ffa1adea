"""How the commands of `understudy runs` reach a store: to look at it, which changes nothing, or to change a run."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from understudy.actors.stores.inspection.look_at import look_at
from understudy.actors.stores.inspection.stored_runs import StoredRuns, runs_in
from understudy.actors.stores.open_store import MEMORY, open_store
from understudy.commandline.report import UsageMistake

from .options import usual_store
from .waiting import redacted, refuse_missing_store

if TYPE_CHECKING:
    from understudy.actors.stores.inspection.run_list import RunEntry
    from understudy.vocabulary.messages import JsonValue
    from understudy.vocabulary.runs.stored_runs import StoredRunStatus


def looked_at(arguments: argparse.Namespace) -> StoredRuns:
    """Return the runs of the named store, to look at: neither a file nor a table is made."""
    if arguments.store == MEMORY:
        raise UsageMistake("no store is named: pass --store URL, such as sqlite:///shop.db, or set UNDERSTUDY_STORE")
    refuse_missing_store(arguments.store)
    try:
        database = look_at(arguments.store)
    except (ValueError, ImportError) as error:
        raise UsageMistake(f"--store: {error}") from error
    assert database is not None, "only memory: has none"
    runs = runs_in(database)
    if not runs.list.has_tables:
        raise UsageMistake(f"{database!r} has no tables of runs: no system has had it as its store yet")
    return runs


def opened(arguments: argparse.Namespace) -> StoredRuns:
    """Return the runs of the named store, to change them; for a store that was looked at."""
    database = open_store(arguments.store).database
    assert database is not None, "it was looked at"
    return runs_in(database)


def found(runs: StoredRuns, arguments: argparse.Namespace) -> RunEntry:
    """Return what the store has of the named run."""
    entry = runs.list.entry(arguments.run)
    if entry is None:
        raise UsageMistake(
            f"no run {arguments.run!r} in {redacted(arguments.store)}; understudy runs --all lists those there are"
        )
    return entry


def store_option(arguments: argparse.Namespace) -> str:
    """Return the words that name the store in a command to type; empty if the environment names it."""
    return "" if arguments.store == usual_store() else f" --store {redacted(arguments.store)}"


def as_data(status: StoredRunStatus) -> dict[str, JsonValue]:
    """Return where a run stands, for programs."""
    return {**asdict(status), "since": moment(status.since) or None}


def moment(since: float | None) -> str:
    """Return a time as text, in UTC."""
    if since is None:
        return ""
    return datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_in_words(status: StoredRunStatus) -> str:
    """Return the time that a store has of a run, and what it is; empty if there is none.

    When a process died is not known: nobody writes that down.
    """
    if status.since is None:
        return ""
    word = {"waiting": "since", "over": "ended"}.get(status.phase, "began")
    return f"{word} {moment(status.since)}"


def in_words(status: StoredRunStatus) -> str:
    """Return where a run stands, for people."""
    match status.phase:
        case "under_way":
            return "under way, to be cancelled" if status.cancel_requested else "under way"
        case "left":
            return "left, to be cancelled" if status.cancel_requested else "left"
        case "waiting":
            return "waits after an error" if status.by_error else "waits"
        case "cannot_go_on":
            return f"cannot go on: {status.reason}"
        case "over":
            return f"over: {status.reason}" if status.reason else "over"
