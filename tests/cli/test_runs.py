"""`understudy runs`: lists the runs of a store, tells of one, exports and deletes runs, and changes nothing by a look."""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support.killing import Effects, killed, worker
from tests.support.scripts import needs_approval
from understudy.cli import main
from understudy.testing import ScriptedModel, calls, says

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")

URL = "sqlite:///shop.db"
KEY = "sk-abc123456789"


@pytest.fixture(autouse=True)
def here(folder: Path) -> Path:
    """An empty folder, which is the current one."""
    return folder


def understudy(*words: str) -> int:
    return main(["runs", *words, "--store", URL])


def waiting(order: str = "7") -> us.NeedsApproval:
    """Have a run wait for a person."""

    @us.tool(approval=True)
    def refund(order: str, api_key: str) -> str:
        """Pay money back."""
        return "paid"

    agent = us.Agent("cashier", model=ScriptedModel([calls("refund", order=order, api_key=KEY)]), tools=[refund])
    with us.ActorSystem("shop", store=URL) as system:
        return needs_approval(agent.run("go", system=system, user_id="ada"))


def ended() -> str:
    """Have a run end, and return its id."""
    with us.ActorSystem("bank", store=URL) as system:
        return us.Agent("teller", model=ScriptedModel([says("Hi.")])).run("go", system=system).run_id


def left(folder: Path) -> None:
    """Have a process die in the second call of a run."""
    clerk = worker("clerk", Effects(folder / "effects", 2).tool(), ["a", "b"])
    assert killed(lambda: clerk.run("go", system=us.ActorSystem("shop", store=URL)))


Printed = Callable[[], dict[str, Any]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Return a function that reads what a command printed as JSON."""

    def read() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return read


# --- the list


def test_the_list_has_the_runs_that_are_not_over_and_with_all_the_others_too(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left(here)
    waits, over = waiting(), ended()

    assert understudy() == 0
    heads, *lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert understudy("--all", "--system", "bank") == 0
    _, of_bank = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert heads == ["RUN", "RUNNER", "STATUS", "TIME", "TAKEOVERS", "USER"]
    assert [(line[1], line[2], line[-1]) for line in lines] == [
        ("clerk", "left", "-"),
        ("cashier", "waits", "ada"),
    ]
    assert lines[1][0] == waits.run_id
    assert of_bank[:4] == [over, "teller", "over:", "complete"]


def test_as_json_the_list_is_one_object_without_tokens(printed: Printed) -> None:
    waits = waiting()

    assert understudy("--json") == 0

    (run,) = printed()["runs"]
    assert (run["run_id"], run["phase"], run["system"]) == (waits.run_id, "waiting", "shop")
    assert "token" not in run


def test_a_store_without_runs_is_an_empty_list(capsys: pytest.CaptureFixture[str], printed: Printed) -> None:
    us.ActorSystem("shop", store=URL)

    assert understudy() == 0
    assert "no runs" in capsys.readouterr().err
    assert understudy("--json") == 0
    assert printed() == {"runs": []}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no store is named"),
        (["--store", "sqlite:///missing.db"], "there is no such store"),
        (["--store", "mysql://x"], "expected 'memory:'"),
        (["--store", "sqlite:///empty.db"], "no tables of runs"),
        (["show", "--store", URL], "RUN"),
        (["show", "shop-1", "--store", URL], "no run 'shop-1'"),
        (["export", "shop-1", "--store", URL], "no run 'shop-1'"),
        (["delete", "shop-1", "--store", URL, "--yes"], "no run 'shop-1'"),
        (["delete", "--store", URL, "--yes"], "required"),
        (["delete", "shop-1", "--older-than", "1d", "--store", URL], "not allowed with"),
        (["delete", "shop-1", "--waiting", "--store", URL], "--older-than TIME"),
        (["delete", "--older-than", "soon", "--store", URL], "such as 30d"),
        (["mend", "--store", URL], "invalid choice"),
    ],
)
def test_a_mistake_makes_nothing(words: list[str], says: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    us.ActorSystem("shop", store=URL)
    (here / "empty.db").touch()

    assert main(["runs", *words]) == 2

    assert says in " ".join(capsys.readouterr().err.split())
    assert {each.name for each in here.glob("*.db")} == {"shop.db", "empty.db"}
    assert (here / "empty.db").stat().st_size == 0


# --- one run


def test_a_time_is_told_with_what_it_is(here: Path, capsys: pytest.CaptureFixture[str], printed: Printed) -> None:
    left(here)
    waiting()
    ended()
    assert understudy("--all", "--json") == 0
    runs = {run["phase"]: run for run in printed()["runs"]}

    assert understudy("--all") == 0
    table = capsys.readouterr().out

    for phase, words in {"left": "left  began", "waiting": "waits  since", "over": "over: complete  ended"}.items():
        assert f"{words} {runs[phase]['since']}" in re.sub(" {2,}", "  ", table)
        assert understudy("show", runs[phase]["run_id"]) == 0
        told = words.replace("  ", " " if phase == "waiting" else ", ")
        assert f"\n{told} {runs[phase]['since']}\n" in capsys.readouterr().out


def test_show_tells_which_calls_are_finished_and_which_are_in_doubt(
    here: Path, capsys: pytest.CaptureFixture[str], printed: Printed
) -> None:
    left(here)
    understudy("--json")
    (run,) = printed()["runs"]

    assert understudy("show", run["run_id"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert understudy("show", run["run_id"], "--json") == 0

    assert "  finished c0 act(word='a') gave: did a" in lines
    assert "  in doubt c1 act(word='b')" in lines
    (clerk,) = printed()["runs"]
    assert [(each["id"], each["status"]) for each in clerk["calls"]] == [("c0", "finished"), ("c1", "in doubt")]


def test_show_hides_secrets_and_has_the_token_of_a_run_that_waits(
    capsys: pytest.CaptureFixture[str], printed: Printed
) -> None:
    waits = waiting()

    assert understudy("show", waits.run_id) == 0
    text = capsys.readouterr().out
    assert understudy("show", waits.run_id, "--json") == 0
    data = printed()

    assert f"token: {waits.token}" in text
    assert "waits for an approval of refund(order='7', api_key='[redacted]')" in text
    assert KEY not in text
    assert KEY not in json.dumps(data)
    assert (data["token"], data["pauses"][0]["calls"]) == (waits.token, [waits.calls[0].id])


def test_export_writes_half_a_surrogate_pair(here: Path) -> None:
    waits = waiting("\ud83d")

    assert understudy("export", waits.run_id, "-o", "run.json") == 0

    text = (here / "run.json").read_text(encoding="utf-8")
    assert json.loads(text)["run_id"] == waits.run_id
    assert "\\ud83d" in text


def test_export_has_all_rows_without_secrets_and_without_the_token(here: Path, printed: Printed) -> None:
    left(here)
    waits = waiting()
    understudy("--json")
    run_id = printed()["runs"][0]["run_id"]

    assert understudy("export", run_id) == 0
    of_left = printed()
    assert understudy("export", waits.run_id, "-o", "run.json") == 0
    text = (here / "run.json").read_text()

    assert (of_left["phase"], of_left["user_id"], of_left["run"]["user_id"]) == ("left", None, None)
    (call,) = of_left["in_doubt"]
    assert (call["path"], call["id"], call["call_key"]) == (["clerk"], "c1", f"{run_id}/2.c1")
    assert of_left["run"]["runner_id"] == "clerk"
    assert {"definition", "line"} <= {row["kind"] for row in of_left["rows"]}
    of_waiting = json.loads(text)
    assert (of_waiting["phase"], of_waiting["run"]["state"], of_waiting["in_doubt"]) == ("waiting", "waiting", [])
    assert of_waiting["pause"]["payload"]["runner_id"] == "cashier"
    assert KEY not in text
    assert waits.token.rpartition(".")[2] not in text


def test_what_cannot_be_read_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waits = waiting()
    with closing(sqlite3.connect(here / "shop.db")) as file, file:
        file.execute("UPDATE understudy_pauses SET payload = 'no run'")

    assert understudy() == 0
    assert understudy("show", waits.run_id) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert understudy("export", waits.run_id) == 0


# --- deleting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def left_over(printed: Printed) -> set[str]:
    assert understudy("--all", "--json") == 0
    return {run["runner_id"] for run in printed()["runs"]}


@pytest.mark.parametrize(("answer", "stays"), [("y\n", False), ("\n", True), ("", True)])
def test_delete_asks_on_a_terminal(
    answer: str, stays: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], printed: Printed
) -> None:
    waits = waiting()
    monkeypatch.setattr("sys.stdin", Terminal(answer))

    assert understudy("delete", waits.run_id) == 0

    assert "Delete 1 run?" in capsys.readouterr().err
    assert left_over(printed) == ({"cashier"} if stays else set())


def test_without_a_terminal_delete_needs_yes_and_says_how_many_it_would_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended()
    ended()
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    assert understudy("delete", "--older-than", "0m") == 2
    assert "2 runs would be deleted" in capsys.readouterr().err
    assert understudy("delete", "--older-than", "0m", "--yes") == 0
    assert "deleted: 2 runs" in capsys.readouterr().out


def test_a_run_that_stands_elsewhere_once_the_question_is_answered_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], printed: Printed
) -> None:
    waits, terminal = waiting(), Terminal("y\n")
    answer = terminal.readline

    def cancel_and_answer(*_: object) -> str:
        assert understudy("cancel", waits.run_id) == 0
        return answer()

    monkeypatch.setattr(terminal, "readline", cancel_and_answer)
    monkeypatch.setattr("sys.stdin", terminal)

    assert understudy("delete", "--older-than", "0m", "--waiting") == 0

    assert f"run {waits.run_id} has gone on meanwhile, and stays" in " ".join(capsys.readouterr().err.split())
    assert left_over(printed) == {"cashier"}


@pytest.mark.parametrize(
    ("words", "stay"),
    [
        (["--older-than", "2d"], {"clerk", "cashier", "teller"}),
        (["--older-than", "0m"], {"clerk", "cashier"}),
        (["--older-than", "0m", "--ended"], {"clerk", "cashier"}),
        (["--older-than", "0m", "--waiting"], {"clerk", "teller"}),
        (["--older-than", "0m", "--system", "shop"], {"clerk", "cashier", "teller"}),
    ],
)
def test_old_runs_are_deleted_by_how_they_stand_and_runs_that_were_left_stay(
    words: list[str], stay: set[str], here: Path, capsys: pytest.CaptureFixture[str], printed: Printed
) -> None:
    left(here)
    waiting()
    ended()

    assert understudy("delete", *words, "--yes") == 0

    capsys.readouterr()
    assert left_over(printed) == stay


def test_a_run_that_waits_is_as_old_as_its_wait(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting()
    with closing(sqlite3.connect(here / "shop.db")) as file, file:
        file.execute("UPDATE understudy_pauses SET put_at = ?", (time.time() - 3 * 86_400,))

    assert understudy("delete", "--older-than", "4d", "--waiting", "--yes") == 0
    assert "no run is so old" in capsys.readouterr().err
    assert understudy("delete", "--older-than", "2d", "--waiting", "--yes") == 0
    assert "deleted: 1 run" in capsys.readouterr().out


def test_a_wait_of_unknown_length_is_told_and_stays(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting()
    with closing(sqlite3.connect(here / "shop.db")) as file, file:
        file.execute("UPDATE understudy_pauses SET put_at = NULL")

    assert understudy("delete", "--older-than", "0m", "--waiting", "--yes") == 0

    assert "does not say how long 1 run waited" in " ".join(capsys.readouterr().err.split())


def test_a_run_that_a_living_process_drives_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    statuses: list[int] = []

    def look(ctx: us.ToolContext) -> str:
        statuses.append(understudy("delete", ctx.run_id, "--yes"))
        return "done"

    with us.ActorSystem("shop", store=URL) as system:
        us.Agent("clerk", model=ScriptedModel([calls("look"), says("done")]), tools=[look]).run("go", system=system)

    assert statuses == [2]
    assert "a living process drives run" in capsys.readouterr().err


def test_options_may_come_before_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    waits = waiting()

    assert main(["runs", "--store", URL, "show", waits.run_id]) == 0
    assert main(["runs", "delete", "--store", URL, "--yes", waits.run_id]) == 0

    assert "deleted: 1 run" in capsys.readouterr().out


# --- cancelling


def test_a_run_that_waits_or_was_left_is_cancelled_at_once(
    here: Path, capsys: pytest.CaptureFixture[str], printed: Printed
) -> None:
    left(here)
    waiting()
    understudy("--json")
    for run in printed()["runs"]:
        assert understudy("cancel", run["run_id"]) == 0
        assert f"cancelled: {run['run_id']}" in capsys.readouterr().out
        assert understudy("cancel", run["run_id"]) == 2
        assert "is over" in capsys.readouterr().err

    assert understudy() == 0
    assert "no runs" in capsys.readouterr().err


def test_a_process_that_drives_a_run_is_asked_to_cancel_it(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []

    def look(ctx: us.ToolContext) -> str:
        assert understudy("cancel", ctx.run_id) == 0
        assert understudy() == 0
        told.append(capsys.readouterr().out)
        return "done"

    with us.ActorSystem("shop", store=URL) as system:
        us.Agent("clerk", model=ScriptedModel([calls("look"), says("done")]), tools=[look]).run("go", system=system)

    assert "asked the process that drives it" in told[0]
    assert "under way, to be cancelled" in told[0]
