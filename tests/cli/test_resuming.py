"""`understudy resume`: a run that waits goes on in another process, from the store that the first one left it in."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

import understudy as us
from tests.cli.test_main import TOOLS
from tests.support.commands import report_of, resume_made, run_made
from tests.support.paths import ROOT
from tests.support.terminals import on_terminal
from understudy import InvalidOutput
from understudy.cli import main
from understudy.commandline.report import for_people
from understudy.testing import ScriptedModel, says

SPEC = """\
agents:
  - {id: cashier, model: rehearsal, tools: [refund]}
  - {id: clerk, model: rehearsal, tools: [find], max_iterations: 0}
"""
HANGS = """
import threading
import understudy as us

def find(word: str) -> str:
    return word

@us.tool(approval=True)
def refund(order: str, cents: int) -> str:
    threading.Event().wait()
    return "never"
"""
STORE = ("--store", "sqlite:///shop.db")


@pytest.fixture(autouse=True)
def shop(folder: Path) -> Path:
    """A folder with a spec and tools, which is the current one."""
    (folder / "shop.yaml").write_text(SPEC)
    (folder / "tools.py").write_text(TOOLS)
    return folder


def run(id: str, *options: str) -> int:
    return main(["run", "shop.yaml", id, "hello", "--tools", "tools.py", *options])


def resume(token: str, *options: str) -> int:
    return main(["resume", token, "shop.yaml", "--tools", "tools.py", *options])


def paused(capsys: pytest.CaptureFixture[str]) -> str:
    """Let a run wait for an approval, and return its token."""
    assert run("cashier", *STORE, "--json") == 3
    return str(report_of(capsys)["token"])


PROGRESS = [
    "  call refund(order='text', cents=1)",
    "  refund gave, after TIME: done",
    "turn 2: asking the model",
    "2 turns, 1 tool call, TIME",
]


def shown(err: str) -> list[str]:
    """Return the lines of progress, without how long things took."""
    return re.sub(r"\d+\.\d+ s", "TIME", err).splitlines()


def test_a_run_that_waits_in_a_store_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    status = run("cashier", *STORE)

    *_, call, yes, no = capsys.readouterr().err.splitlines()
    assert status == 3
    assert call == "  refund(order='text', cents=1)"
    assert yes.startswith("Go on with: understudy resume understudy-")
    assert yes.endswith(" shop.yaml --tools tools.py --store sqlite:///shop.db --approve")
    assert no.endswith(' shop.yaml --tools tools.py --store sqlite:///shop.db --reject "REASON"')


@pytest.mark.parametrize("way", [-2, -1])
def test_the_commands_that_go_on_can_be_used_as_they_are_told(way: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cashier", *STORE, "--rehearse") == 3
    told = capsys.readouterr().err.splitlines()[way]

    _, command = told.split(" understudy ", 1)

    assert main(shlex.split(command)) == 0


def test_the_buyer_of_the_example_waits_for_an_approval(capsys: pytest.CaptureFixture[str]) -> None:
    ledger = ROOT / "examples" / "ledger"
    options = ("--tools", str(ledger / "tools.py"), *STORE, "--rehearse")

    assert main(["run", str(ledger / "agent.yaml"), "buyer", "Order what we run out of", *options, "--json"]) == 3
    paused = report_of(capsys)
    assert main(["resume", str(paused["token"]), str(ledger / "agent.yaml"), *options, "--approve"]) == 0

    assert paused["waiting"] == [{"name": "place_order", "arguments": {"sku": "D-402", "units": 6}}]
    assert "- place_order(sku='D-402', units=6) gave: Lumo is to send 6 x D-402 front light" in capsys.readouterr().out


def test_a_run_that_waits_nowhere_has_no_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cashier") == 3
    assert "with --store sqlite:///FILE.db it could be answered later" in capsys.readouterr().err
    assert run("cashier", "--json") == 3
    assert "token" not in report_of(capsys)


@pytest.mark.parametrize("option", ["", "?durability=full"])
def test_a_store_that_is_not_there_is_refused_and_not_made(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = paused(capsys)

    assert main(["resume", token, "shop.yaml", "--store", f"sqlite:///{tmp_path}/typo.db{option}", "--approve"]) == 2

    assert f"understudy: {tmp_path}/typo.db: there is no such store" in capsys.readouterr().err
    assert not (tmp_path / "typo.db").exists()


def test_an_approval_lets_the_run_go_on_to_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    token = paused(capsys)

    status = resume(token, *STORE, "--approve")

    out, err = capsys.readouterr()
    assert (status, shown(err)) == (0, PROGRESS)
    assert out.startswith("(rehearsal) 1 of 1 tools were called:")


def test_a_rejection_is_read_by_the_model_and_stands_in_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    token = paused(capsys)

    status = resume(token, *STORE, "--reject", "too much", "--json")

    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    assert json.loads(out)["tool_calls"] == [
        {
            "name": "refund",
            "arguments": {"order": "text", "cents": 1},
            "result": "Rejected: too much",
            "is_error": True,
        }
    ]


@us.tool(approval=True)
def pay(order: str) -> str:
    """Pay back."""
    return f"paid {order}"


def look(order: str) -> str:
    """Look an order up."""
    return f"order {order}"


def call(name: str, order: str, id: str = "c1") -> us.ModelTurn:
    """Make a turn with one call; models may give calls of several turns the same id."""
    return us.ModelTurn((us.ToolCall(id, name, {"order": order}),))


def made(*turns: us.ModelTurn | Exception) -> us.Agent:
    return us.Agent("clerk", model=ScriptedModel(turns), tools=[pay, look])


def told(calls: object) -> list[tuple[object, object]]:
    """Return the names and results of the calls of a report."""
    assert isinstance(calls, list)
    return [(each["name"], each["result"]) for each in cast("list[dict[str, object]]", calls)]


def test_calls_made_before_and_after_the_pause_are_in_the_report_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    both = call("pay", "3") + call("look", "4", "c2")
    agent = made(call("look", "1"), call("look", "2"), both, call("look", "5"), says("ok"))
    assert run_made(agent, "go", *STORE, "--json") == 3
    waiting = report_of(capsys)

    assert resume_made(agent, str(waiting["token"]), *STORE, "--approve", "--json") == 0

    assert told(waiting["tool_calls"]) == [("look", "order 1"), ("look", "order 2"), ("look", "order 4")]
    assert told(report_of(capsys)["tool_calls"]) == [
        ("look", "order 1"),
        ("look", "order 2"),
        ("look", "order 4"),
        ("pay", "paid 3"),
        ("look", "order 5"),
    ]


def test_calls_that_wait_again_are_not_reported_as_made(capsys: pytest.CaptureFixture[str]) -> None:
    agent = made(call("pay", "1"), call("pay", "2"))
    assert run_made(agent, "go", *STORE, "--json") == 3

    assert resume_made(agent, str(report_of(capsys)["token"]), *STORE, "--approve", "--json") == 3

    again = report_of(capsys)
    assert told(again["tool_calls"]) == [("pay", "paid 1")]
    assert again["waiting"] == [{"name": "pay", "arguments": {"order": "2"}}]


def test_a_run_that_fails_after_its_pause_says_what_it_did_since(capsys: pytest.CaptureFixture[str]) -> None:
    agent = made(call("pay", "1"), us.BadReply("lost"))
    assert run_made(agent, "go", *STORE, "--json") == 3

    assert resume_made(agent, str(report_of(capsys)["token"]), *STORE, "--approve", "--json") == 1

    failed = report_of(capsys)
    assert failed["outcome"] == "error"
    assert told(failed["tool_calls"]) == [("pay", "paid 1")]


def test_an_interrupt_cancels_a_run_that_goes_on_and_progress_is_live(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich")
    (shop / "tools.py").write_text(HANGS)
    token = paused(capsys)

    with on_terminal("resume", token, "shop.yaml", "--tools", "tools.py", *STORE, "--approve", cwd=shop) as screen:
        screen.wait_for("running refund")
        screen.type("\x03")

        assert screen.status() == 130
        assert "interrupted; the run was cancelled" in screen.screen
        assert screen.has_cursor


def test_a_limit_goes_on_when_it_is_raised(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("clerk", *STORE, "--json") == 1
    token = str(report_of(capsys)["token"])

    assert resume(token, *STORE, "--max-iterations", "3") == 0


LIMITED = """\
agents:
  - {id: turns, model: rehearsal, tools: [find], max_turns: 1}
  - {id: budget, model: rehearsal, tools: [find], budget: {tool_calls: 0}}
  - id: pattern
    model: rehearsal
    criteria: [{type: structured_output, schema: {type: string, pattern: ^no rehearsal looks at it$}}]
    max_continues: 1
"""


@pytest.mark.parametrize(
    ("id", "told", "raised", "status"),
    [
        ("turns", "--max-turns 2", "--max-turns=2", 0),
        ("budget", "--budget tool_calls=1", "--budget=tool_calls=1", 0),
        ("pattern", "--max-continues 10", "--max-continues=2", 1),
    ],
)
def test_a_run_at_a_limit_names_the_option_that_raises_it(
    id: str, told: str, raised: str, status: int, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "shop.yaml").write_text(LIMITED)
    assert run(id, *STORE) == 1
    go_on = capsys.readouterr().err.splitlines()[-1].strip()
    token = go_on.split()[5]

    assert go_on.startswith("Go on with: understudy resume ")
    assert go_on.endswith(told)
    assert resume(token, *STORE, raised) == status
    assert resume(token, *STORE, raised) == 2, "the token was used"


def test_an_answer_that_did_not_fit_is_asked_for_again_by_raising_its_limit() -> None:
    _, aside = for_people(InvalidOutput("no answer fits", problems=("a", "b", "c"), token="t"), "shop.yaml")

    assert aside.endswith("Go on with: understudy resume t shop.yaml --max-output-retries 6")


@pytest.mark.parametrize("limit", ["tool_calls", "tool_calls=many", "tool_calls=nan", "calls=3", "tool_calls=2.5"])
def test_a_limit_that_is_none_leaves_the_token(limit: str, shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "shop.yaml").write_text(LIMITED)
    assert run("budget", *STORE, "--json") == 1
    token = str(report_of(capsys)["token"])

    assert resume(token, *STORE, "--budget", limit) == 2
    assert "--budget" in capsys.readouterr().err
    assert resume(token, *STORE, "--budget", "tool_calls=1") == 0


def test_another_process_finds_the_store_in_the_environment(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_STORE", "sqlite:///shop.db")
    assert run("cashier", "--json") == 3
    token = str(report_of(capsys)["token"])

    done = subprocess.run(
        [sys.executable, "-m", "understudy", "resume", token, "shop.yaml", "--tools", "tools.py", "--approve"],
        cwd=shop,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, shown(done.stderr)) == (0, PROGRESS)


@pytest.mark.usefixtures("shop")
def test_a_wrong_store_in_the_environment_is_told_by_the_name_of_the_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_STORE", "shop.db")

    assert run("cashier") == 2
    assert capsys.readouterr().err.startswith("understudy: UNDERSTUDY_STORE: store 'shop.db': expected")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((*STORE, "--answer", "Ada"), "pass Approve() or Reject"),
        (STORE, "got None\n  here: --answer TEXT to a question; --approve, or --reject REASON, for calls"),
        (("--approve",), "expected --store sqlite:///FILE.db or the variable UNDERSTUDY_STORE"),
        (("--store", "shop.db", "--approve"), "--store: store 'shop.db': expected"),
        ((*STORE, "--approve", "--answer", "Ada"), "not allowed with argument"),
        ((*STORE, "--pause", "approval"), "--pause approval: no answer to it follows"),
        ((*STORE, "--approve", "--pause", "approval"), "--pause approval: no answer to it follows"),
        ((*STORE, "--pause", "one", "--pause", "approval", "--approve"), "--pause one: no answer to it follows"),
    ],
)
def test_what_is_wrong_with_the_command_leaves_the_token(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    token = paused(capsys)

    assert resume(token, *options) == 2
    assert says in capsys.readouterr().err
    assert resume(token, *STORE, "--approve") == 0


def test_without_a_key_nothing_is_resumed(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (shop / "shop.yaml").write_text(SPEC.replace("model: rehearsal", "model: openai:gpt-4o"))
    assert run("cashier", *STORE, "--rehearse", "--json") == 3
    token = str(report_of(capsys)["token"])

    assert resume(token, *STORE, "--approve") == 1
    assert "set OPENAI_API_KEY" in capsys.readouterr().err
    assert resume(token, *STORE, "--approve", "--rehearse") == 0


def test_a_token_works_once_and_only_if_it_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    token = paused(capsys)

    assert resume(f"{token}x", *STORE, "--approve") == 2
    assert "no paused run with this token in sqlite:///" in (err := capsys.readouterr().err)
    assert err.endswith("shop.db. Check the token and the --store.\n")
    assert resume(token, *STORE, "--approve") == 0
    assert resume(token, *STORE, "--approve") == 2
    assert "this token has been used" in capsys.readouterr().err


def test_the_password_of_a_store_is_never_printed(postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    url = postgres_url.replace("@", ":canary-secret@")
    assert run("cashier", "--store", url) == 3
    assert resume("shop-1-none", "--store", url) == 2

    told = "".join(capsys.readouterr())
    assert "no paused run with this token in postgresql://" in told
    assert "understudy resume" in told
    assert "canary-secret" not in told


def test_another_definition_is_refused_unless_it_is_adopted(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = paused(capsys)
    (shop / "shop.yaml").write_text(SPEC.replace("id: cashier,", "id: cashier, system_prompt: Be kind.,"))

    assert resume(token, *STORE, "--approve") == 2
    assert "\n  here: --adopt\n" in capsys.readouterr().err
    assert resume(token, *STORE, "--approve", "--adopt") == 0


def test_a_store_that_cannot_be_opened_is_an_error_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cashier", "--store", "sqlite:////nowhere/at/all.db") == 1
    assert "understudy: StoreError: store sqlite:////nowhere/at/all.db: there is no folder" in capsys.readouterr().err
