"""`understudy runs show RUN`: what a run has done, what is in doubt, and what it waits for."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TextIO, cast

from understudy.actors.pauses.stored_pauses import Token
from understudy.commandline.report import (
    COMPLETE,
    SPEC,
    WIDEST_ASKED,
    UsageMistake,
    how_to_answer,
    one_line,
    shown_call,
    shown_pause,
)
from understudy.providers.tape.redaction import Redactor
from understudy.vocabulary.messages import ToolCall

from . import options
from .printing import put
from .runs_store import as_data, found, in_words, looked_at, store_option, time_in_words

if TYPE_CHECKING:
    from understudy.actors.stores.inspection.run_list import RunEntry
    from understudy.actors.stores.inspection.stored_runs import StoredRuns
    from understudy.orchestration.journal.told_runs import ToldCall, ToldRun
    from understudy.vocabulary.messages import JsonObject, JsonValue
    from understudy.vocabulary.runs.outcomes import Pause
    from understudy.vocabulary.runs.stored_runs import StoredRunStatus

ABOUT = """\
Tell where a run stands, and its tool calls: which are finished, which are in
doubt, and which wait. A call in doubt was under way when its process died, and
may have had its effect; one whose tool is idempotent or transactional, or can
reconcile, needs no person when the run goes on. Its call_key is the one that
the tool saw as ctx.call_key. What looks like a secret is hidden. If the run
waits, its token is printed, with which anybody who has the store goes on with
it.

examples:
  understudy runs show RUN --store sqlite:///shop.db
  understudy runs show RUN --store sqlite:///shop.db --json
"""


def add_arguments(show: argparse.ArgumentParser) -> None:
    """Add the arguments of `runs show`."""
    show.add_argument("run", metavar="RUN", type=options.text, help="the id of the run")
    options.add_store(show, again=True)
    options.add_json(show, "print one JSON object", again=True)


class Told(NamedTuple):
    """What a store tells of one run."""

    status: StoredRunStatus
    runs: list[ToldRun]
    """The run, and those inside of it that are not over."""
    pauses: tuple[Pause, ...]
    token: str
    """Empty if it does not wait."""


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Print what a run has done."""
    runs = looked_at(arguments)
    told = told_of(runs, found(runs, arguments))
    if arguments.json:
        put(json.dumps(_as_data(told), ensure_ascii=False, default=str), out)
    else:
        put("\n".join(_lines(told, arguments)), out)
    return COMPLETE


def told_of(runs: StoredRuns, entry: RunEntry) -> Told:
    """Return what a store tells of a run, with secrets.

    Raises:
        UsageMistake: what it has cannot be read.
    """
    from understudy.orchestration.journal.put_together import by_path
    from understudy.orchestration.journal.told_runs import pauses_in, told_of_rows, told_of_saved
    from understudy.orchestration.saving.saved_run import SavedRun

    status, waits, token = runs.status(entry), entry.waits, ""
    told: list[ToldRun] = []
    pauses: tuple[Pause, ...] = ()
    try:
        if entry.head is not None and entry.head.state != "over":
            rows = by_path(runs.list.rows(entry.head))
            told = told_of_rows(rows, driven=status.phase == "under_way")
        elif waits is not None:
            saved = SavedRun.from_json(waits.payload)
            told, pauses = told_of_saved(saved), pauses_in(saved)
            token = str(Token(entry.run_id, waits.revision, waits.nonce))
    except (ValueError, KeyError) as error:
        raise UsageMistake(f"what the store has of run {entry.run_id} cannot be read: {error}") from error
    return Told(status, told, pauses, token)


def _as_data(told: Told) -> dict[str, JsonValue]:
    hide = Redactor()
    data: dict[str, JsonValue] = {**as_data(told.status)}
    data["runs"] = [
        {
            "path": list(run.path),
            "run_id": run.run_id,
            "turns": run.turns,
            "calls": [_call_data(each, hide) for each in run.calls],
        }
        for run in told.runs
    ]
    data["pauses"] = [
        {
            "id": pause.id,
            "path": list(pause.path),
            "question": None if pause.question is None else hide.text(pause.question),
            "calls": [call.id for call in pause.calls],
            "in_doubt": list(pause.in_doubt),
        }
        for pause in told.pauses
    ]
    return {**data, "token": told.token or None}


def _call_data(told: ToldCall, hide: Redactor) -> dict[str, JsonValue]:
    result = None if told.result is None else hide.text(told.result.content)
    is_error = told.result is not None and told.result.is_error
    return {
        "id": told.call.id,
        "name": told.call.name,
        "arguments": hide.plain(told.call.arguments),
        "status": told.standing,
        "call_key": told.key or None,
        "result": result,
        "is_error": is_error,
    }


def _lines(told: Told, arguments: argparse.Namespace) -> Iterator[str]:
    status, hide = told.status, Redactor()
    yield one_line(f"{status.run_id}: {status.runner_id or 'unknown runner'}, system {status.system}")
    yield one_line(_standing(status))
    where = "" if status.conversation_id is None else f", conversation {status.conversation_id}"
    user = "no user" if status.user_id is None else f"user {status.user_id}"
    yield one_line(f"{user}{where}, takeovers: {status.takeovers}")
    for run in told.runs:
        yield f"{' > '.join(map(one_line, run.path))}{_turns(run.turns)}"
        for call in run.calls:
            yield f"  {_call_line(call, hide)}"
            if call.standing == "in doubt":
                yield f"    call_key: {one_line(call.key)}"
    for pause in told.pauses:
        yield f"waits for {hide.text(shown_pause(_hidden_pause(pause, hide)))} (pause {one_line(pause.id)})"
    if told.token:
        yield f"token: {told.token}"
    yield from _how_to_go_on(told, store_option(arguments))


def _standing(status: StoredRunStatus) -> str:
    when = time_in_words(status)
    if not when:
        return in_words(status)
    return f"{in_words(status)}{' ' if status.phase == 'waiting' else ', '}{when}"


def _turns(count: int) -> str:
    """Return the number of an agent's turns in words; empty for a group, which has none."""
    return f": {count} {'turn' if count == 1 else 'turns'}" if count else ""


def _call_line(told: ToldCall, hide: Redactor) -> str:
    call, standing = _hidden(told.call, hide), f"{told.standing} {one_line(told.call.id)}"
    if told.result is None:
        return f"{standing} {shown_call(call, WIDEST_ASKED)}"
    words = "failed" if told.result.is_error else "gave"
    return f"{standing} {shown_call(call)} {words}: {one_line(hide.text(told.result.content))}"


def _hidden(call: ToolCall, hide: Redactor) -> ToolCall:
    bad = None if call.bad_arguments is None else hide.text(call.bad_arguments)
    return replace(call, arguments=cast("JsonObject", hide.plain(call.arguments)), bad_arguments=bad)


def _hidden_pause(pause: Pause, hide: Redactor) -> Pause:
    return replace(pause, calls=tuple([_hidden(call, hide) for call in pause.calls]))


def _how_to_go_on(told: Told, store: str) -> Iterator[str]:
    """Yield the command that goes on, for each possible answer to the first pause."""
    if told.status.phase not in ("waiting", "left"):
        return
    command = f"understudy runs resume {told.status.run_id} {SPEC}{store}"
    if not told.pauses:
        yield f"Go on with: {command}"
        return
    for number, way in enumerate(how_to_answer(told.pauses[0], told.pauses)):
        yield f"{'  or with' if number else 'Go on with'}: {command} {way}"
