"""Runs that were left by another definition: `migrate` gives each the state with which it goes on, or leaves it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

import understudy as us
from tests.support.killing import Effects, Runner, killed, worker
from tests.support.scripts import WAIT, finished, needs_approval
from understudy.actors.stores.open_store import open_store

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")

Migrate = Callable[[us.ChangedRun], str | None]


def renamed(run: us.ChangedRun) -> str:
    """Call the tool `act` by its new name."""
    return run.state.replace('"name": "act"', '"name": "do"').replace('"name":"act"', '"name":"do"')


def leave(runner: Runner, store: str, effects: Effects, deadly: int = 1) -> None:
    effects.deadly = deadly
    assert killed(lambda: runner.run("go", system=us.ActorSystem("shop", store=store)))
    effects.deadly = 0


def recover(runner: Runner, store: str, migrate: Migrate | None) -> us.Outcome[object]:
    (handle,) = us.ActorSystem("shop", store=store).recover(runners=[runner], migrate=migrate)
    return handle.result(timeout=WAIT)


def test_a_run_goes_on_with_the_state_that_migrate_returns(effects: Effects, store: str) -> None:
    leave(worker("clerk", effects.tool(), ["a", "b", "c"]), store, effects, 2)
    told: list[us.ChangedRun] = []

    def migrate(run: us.ChangedRun) -> str:
        told.append(run)
        return renamed(run)

    after = worker("clerk", effects.tool("do", idempotent=True), ["a", "b", "c"])
    outcome = finished(recover(after, store, migrate))

    assert outcome.text == "did a; did b; did c"
    assert [call.name for message in outcome.messages for call in message.tool_calls] == ["do", "do", "do"]
    assert [effects.noted.count(key) for key in dict.fromkeys(effects.noted)] == [1, 2, 1]
    (run,) = told
    assert (run.run_id, run.runner_id) == (outcome.run_id, "clerk")
    assert "tool act" in run.why or "act" in run.why
    assert json.loads(run.state)["state"]["turns"] == 2


def test_a_call_in_doubt_that_keeps_its_name_waits_for_a_person(effects: Effects, store: str) -> None:
    leave(worker("clerk", effects.tool(), ["a"]), store, effects)
    after = worker("clerk", effects.tool(), ["a"]).replace(system_prompt="Be brief.")

    waits = needs_approval(recover(after, store, lambda run: run.state))

    assert waits.pauses[0].in_doubt == ("c0",)


def test_a_run_of_the_present_definition_is_not_migrated(effects: Effects, store: str) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave(agent, store, effects)

    assert finished(recover(agent, store, lambda run: pytest.fail("asked"))).text == "did a"


def raises(run: us.ChangedRun) -> str:
    raise us.StoreError("no such table")


WRONG: list[tuple[Callable[[us.ChangedRun], Any], str]] = [
    (lambda run: None, "migrate returned None for 'clerk'"),
    (lambda run: 7, "migrate must return the state as a text, or None; got 7"),
    (lambda run: json.loads(run.state), "migrate must return the state as a text, or None"),
    (raises, "migrate: StoreError: no such table"),
    (lambda run: "", "the text that it returned for 'clerk' is of no use"),
    (lambda run: '{"format": 1}', "the text that it returned for 'clerk' is of no use"),
    (
        lambda run: json.dumps({**json.loads(run.state), "format": 9}),
        "the text that it returned for 'clerk' is of no use",
    ),
]


@pytest.mark.parametrize(("migrate", "why"), WRONG)
def test_a_run_that_is_not_migrated_is_left_and_goes_on_later(
    migrate: Any, why: str, effects: Effects, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    leave(worker("clerk", effects.tool(), ["a"]), store, effects)
    after = worker("clerk", effects.tool("do", idempotent=True), ["a"])

    assert us.ActorSystem("shop", store=store).recover(runners=[after], migrate=migrate) == []

    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "run_not_recovered"]
    assert why in line.getMessage()
    assert finished(recover(after, store, renamed)).text == "did a"


def test_a_run_that_cannot_be_migrated_does_not_keep_the_others(effects: Effects, store: str) -> None:
    before = worker("clerk", effects.tool(), ["a"])
    for deadly in (1, 2):
        leave(before, store, effects, deadly)
    after = worker("clerk", effects.tool("do", idempotent=True), ["a"])
    asked: list[str] = []

    def migrate(run: us.ChangedRun) -> str | None:
        asked.append(run.run_id)
        return None if len(asked) == 1 else renamed(run)

    assert finished(recover(after, store, migrate)).run_id == asked[1]


def test_each_run_inside_that_has_changed_is_migrated(effects: Effects, store: str) -> None:
    def lead(tool: us.Tool[..., object]) -> us.Agent:
        one = worker("one", tool, ["a", "b"])
        return worker("lead", effects.tool("mark", idempotent=True), ["x", "one", "y"], [one])

    leave(lead(effects.tool()), store, effects, 2)
    told: list[str] = []

    def migrate(run: us.ChangedRun) -> str:
        told.append(run.runner_id)
        return renamed(run)

    outcome = finished(recover(lead(effects.tool("do", idempotent=True)), store, migrate))

    assert outcome.text == "did x; did a; did b; did y"
    assert told[-1] == "one"


def test_a_group_is_migrated_with_its_children(effects: Effects, store: str) -> None:
    def group(tool: us.Tool[..., object]) -> Runner:
        return us.SequentialAgent("seq", [worker("one", tool, ["a"]), worker("two", tool, ["b", "c"])])

    leave(group(effects.tool()), store, effects, 3)

    assert finished(recover(group(effects.tool("do", idempotent=True)), store, renamed)).text == "did b; did c"
    assert [effects.noted.count(key) for key in dict.fromkeys(effects.noted)] == [1, 1, 2]


def shortened(run: us.ChangedRun) -> str:
    """Leave out the first round, which leaves fewer messages than the rows have."""
    data = json.loads(renamed(run))
    del data["state"]["messages"][1:3]
    return json.dumps(data)


def test_what_migrate_left_out_does_not_come_back_when_the_process_dies_again(effects: Effects, store: str) -> None:
    leave(worker("clerk", effects.tool(), ["a", "b", "c"]), store, effects, 3)
    after = worker("clerk", effects.tool("do", idempotent=True), ["a", "b", "c"])
    effects.deadly = 4
    assert killed(lambda: recover(after, store, shortened))
    effects.deadly = 0

    outcome = finished(recover(after, store, lambda run: pytest.fail("it is of the present definition by now")))

    words = [call.arguments["word"] for message in outcome.messages for call in message.tool_calls]
    assert words == ["b", "c", "c"]


async def later(run: us.ChangedRun) -> str:
    return run.state


@pytest.mark.parametrize("migrate", [later, "text", 7])
def test_migrate_is_a_plain_function(migrate: Any, store: str) -> None:
    with pytest.raises(TypeError, match="migrate must be a plain function"):
        us.ActorSystem("shop", store=store).recover(migrate=migrate)


@pytest.mark.parametrize("adopt", ["no", [1], 5, 0, None])
def test_adopt_is_true_or_false(adopt: Any, store: str) -> None:
    with pytest.raises(TypeError, match="adopt must be True or False"):
        us.ActorSystem("shop", store=store).recover(adopt=adopt)


def test_to_adopt_and_to_migrate_exclude_each_other(store: str) -> None:
    with pytest.raises(ValueError, match="not both"):
        us.ActorSystem("shop", store=store).recover(migrate=renamed, adopt=True)


def test_a_run_with_an_event_of_a_newer_version_is_left_for_a_process_of_that_version(
    effects: Effects, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave(agent, store, effects)
    rename(store, "TurnTaken", "Dreamt")

    assert us.ActorSystem("shop", store=store).recover(runners=[agent]) == []
    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "run_not_recovered"]
    assert "no event is named 'Dreamt' in this version of understudy: a newer one wrote the line" in line.getMessage()

    rename(store, "Dreamt", "TurnTaken")  # as the newer version reads it
    assert finished(recover(agent, store, None)).text == "did a"


def rename(store: str, kind: str, other: str) -> None:
    """Give events of a kind another name, in all lines of a store."""
    database = open_store(store).database
    assert database is not None
    statement = "UPDATE understudy_run_rows SET body = replace(body, :kind, :other) WHERE kind = 'line'"
    names = {"kind": f'"{kind}"', "other": f'"{other}"'}
    assert database.write(lambda sql: sql.execute(statement, names).rowcount) > 0
