"""`understudy runs resume` and the answers for calls in doubt, which `resume` takes too."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import understudy as us
from tests.support.commands import report_of
from tests.support.killing import killed
from understudy.cli import main
from understudy.commandline.report import how_to_answer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")

STORE = ("--store", "sqlite:///shop.db")
SPEC = """\
agents:
  - {id: clerk, model: rehearsal, tools: [pay]}
  - {id: cashier, model: rehearsal, tools: [refund]}
"""
TOOLS = """\
import os, signal
from pathlib import Path
import understudy as us

@us.tool
def pay(ctx: us.ToolContext, order: str = "7") -> str:
    with open("paid", "a") as file:
        file.write("x")
    with open("keys", "a") as file:
        file.write(f"{ctx.call_key}\\n")
    if not Path("lives").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "it is paid"

@us.tool(approval=True)
def refund(order: str = "7") -> str:
    return "it is refunded"
"""


@pytest.fixture(autouse=True)
def shop(folder: Path) -> Path:
    """A folder with a spec and tools, which is the current one."""
    (folder / "shop.yaml").write_text(SPEC)
    (folder / "tools.py").write_text(TOOLS)
    return folder


def left(shop: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Have a process die in a tool call; return the id of its run."""
    assert killed(lambda: main(["run", "shop.yaml", "clerk", "go", "--tools", "tools.py", *STORE]))
    (shop / "lives").touch()
    capsys.readouterr()
    assert main(["runs", *STORE, "--json"]) == 0
    (run,) = report_of(capsys)["runs"]
    assert run["phase"] == "left"
    return str(run["run_id"])


def resume(run_id: str, *words: str) -> int:
    return main(["runs", "resume", run_id, "shop.yaml", "--tools", "tools.py", *STORE, *words])


def in_doubt(shop: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    """Have a run wait with a call in doubt; return the ids of the run and of the call, and the token."""
    run_id = left(shop, capsys)
    assert resume(run_id, "--json") == 3
    report = report_of(capsys)
    return run_id, str(report["pauses"][0]["in_doubt"][0]), str(report["token"])


@pytest.mark.parametrize(
    ("option", "text", "paid"),
    [
        ("--approve {}", "it is paid", 2),
        ("--reject '{}=leave it'", "Rejected: leave it", 1),
        ("--happened '{}=paid by hand'", "paid by hand", 1),
    ],
)
@pytest.mark.parametrize("by", ["run", "token"])
def test_a_call_in_doubt_is_decided_by_its_id(
    option: str, text: str, paid: int, by: str, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, call, token = in_doubt(shop, capsys)
    name, _, value = option.format(call).replace("'", "").partition(" ")
    words = (name, value)

    if by == "run":
        assert resume(run_id, *words) == 0
    else:
        assert main(["resume", token, "shop.yaml", "--tools", "tools.py", *STORE, *words]) == 0

    assert text in capsys.readouterr().out
    assert len((shop / "paid").read_text()) == paid


def test_the_commands_that_show_tells_name_the_call(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_id, call, _ = in_doubt(shop, capsys)

    assert main(["runs", "show", run_id, *STORE]) == 0

    told = capsys.readouterr().out
    assert f"in doubt {call} pay(" in told
    for way in (f"--approve {call}", f"--reject {call}=REASON", f"--happened {call}=RESULT"):
        assert f"understudy runs resume {run_id} FILE.yaml --store sqlite:///shop.db {way}" in told


@pytest.mark.parametrize("stands", [left, in_doubt])
def test_a_call_in_doubt_is_told_with_the_key_that_its_tool_has_written(
    stands: Callable[[Path, pytest.CaptureFixture[str]], object], shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stands(shop, capsys)
    (key,) = (shop / "keys").read_text().split()
    run_id = key.partition("/")[0]

    assert main(["runs", "show", run_id, *STORE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["runs", "show", run_id, *STORE, "--json"]) == 0
    (run,) = report_of(capsys)["runs"]

    assert f"    call_key: {key}" in lines
    assert [each["call_key"] for each in run["calls"] if each["status"] == "in doubt"] == [key]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "a decision about each of"),
        (["--approve"], "a decision about each of"),
        (["--reject", "why=because"], "a decision about each of"),
        (["--approve", "other"], "no call 'other'; it waits with: call-"),
        (["--happened", "other=done"], "no call 'other'"),
        (["--happened", "done"], "no call 'done'"),
        (["--happened", "{call}"], "the result is missing; expected --happened call-"),
        (["--approve", "{call}", "--reject", "{call}=no"], "there is an answer for"),
        (["--approve", "{call}", "--reject", "no"], "no other answer with it"),
        (["--approve", "{call}", "--reject", "x=y"], "no other answer with it"),
        (["--pause", "approval", "--approve"], "a decision about each of"),
    ],
)
def test_an_answer_that_does_not_decide_the_call_leaves_the_token(
    words: list[str], says: str, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, call, _ = in_doubt(shop, capsys)

    assert resume(run_id, *[word.format(call=call) for word in words]) == 2

    assert says in " ".join(capsys.readouterr().err.split())
    assert resume(run_id, "--pause", "approval", "--happened", f"{call}=paid") == 0


@pytest.mark.parametrize("words", [(), ("--approve",), ("--reject", "no"), ("--pause", "approval", "--approve")])
def test_the_options_that_decide_the_call_are_told_in_place_of_python(
    words: tuple[str, ...], shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, call, _ = in_doubt(shop, capsys)

    assert resume(run_id, *words) == 2

    told = capsys.readouterr().err
    assert f"here: --approve {call}, or --reject {call}=REASON, or --happened {call}=RESULT" in told
    assert "Approve()" not in told


def test_each_of_several_pauses_is_named_before_its_answers_for_their_calls_may_have_one_id() -> None:
    calls = (us.ToolCall("c0", "pay"), us.ToolCall("c1", "refund"))
    pauses = [us.Pause(id=f"child/{at}/approval", path=(), calls=calls, in_doubt=("c0",)) for at in (0, 1)]

    way, *_ = how_to_answer(pauses[1], pauses)

    assert way == "--pause child/1/approval --approve c0 --pause child/1/approval --approve c1"
    assert how_to_answer(pauses[1])[0] == "--approve c0 --approve c1"


def test_an_answer_for_an_unknown_pause_is_told_as_such(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_id, _, _ = in_doubt(shop, capsys)

    assert resume(run_id, "--pause", "other", "--approve") == 2

    assert "pauses: approval" in capsys.readouterr().err


def test_a_run_that_many_processes_have_died_of_goes_on_when_it_is_named(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = left(shop, capsys)
    with closing(sqlite3.connect(shop / "shop.db")) as file, file:
        file.execute("UPDATE understudy_runs SET takeovers = 50")

    assert resume(run_id) == 3

    assert "the run waits for a person" in capsys.readouterr().err


def test_a_run_that_was_left_takes_no_answer(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = left(shop, capsys)

    assert resume(run_id, "--approve") == 2

    assert "does not wait yet" in capsys.readouterr().err


def test_a_run_that_waits_for_an_approval_is_resumed_by_its_id_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "shop.yaml", "cashier", "go", "--tools", "tools.py", *STORE, "--json"]) == 3
    run_id = str(report_of(capsys)["run_id"])

    assert resume(run_id, "--approve") == 0
    assert "it is refunded" in capsys.readouterr().out
    assert resume(run_id, "--approve") == 2
    assert "is over (complete)" in capsys.readouterr().err


def test_a_word_after_approve_is_a_call_so_the_spec_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", "--approve", "token", "shop.yaml", *STORE]) == 2

    assert "expected --approve after FILE.yaml" in capsys.readouterr().err


def test_a_changed_definition_goes_on_with_adopt_alone(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = left(shop, capsys)
    (shop / "shop.yaml").write_text(SPEC.replace("tools: [pay]", "tools: [pay], system_prompt: Be brief."))

    assert resume(run_id) == 2
    assert "here: --adopt" in capsys.readouterr().err
    assert resume(run_id, "--adopt") == 3


def test_a_run_belongs_to_the_system_that_it_has(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clerk = us.Agent("clerk", model="rehearsal", tools=[pay])
    assert killed(lambda: clerk.run("go", system=us.ActorSystem("bank", store=STORE[1])))
    (shop / "lives").touch()
    assert main(["runs", *STORE, "--json"]) == 0
    (run,) = report_of(capsys)["runs"]

    assert (run["system"], run["phase"]) == ("bank", "left")
    assert resume(run["run_id"], "--adopt") == 3


def pay(order: str = "7") -> str:
    os.kill(os.getpid(), 9)
    return order
