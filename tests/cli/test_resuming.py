"""`understudy resume`: a run that waits goes on in another process, from the store that the first one left it in."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_main import TOOLS
from tests.support.paths import ROOT
from understudy.cli import main

SPEC = """\
agents:
  - {id: cashier, model: rehearsal, tools: [refund]}
  - {id: clerk, model: rehearsal, tools: [find], max_iterations: 0}
"""
STORE = ("--store", "sqlite:///shop.db")


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a spec and tools, which is the current one."""
    (tmp_path / "shop.yaml").write_text(SPEC)
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNDERSTUDY_STORE", raising=False)
    return tmp_path


def run(id: str, *options: str) -> int:
    return main(["run", "shop.yaml", id, "hello", "--tools", "tools.py", *options])


def resume(token: str, *options: str) -> int:
    return main(["resume", token, "shop.yaml", "--tools", "tools.py", *options])


def report(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def paused(capsys: pytest.CaptureFixture[str]) -> str:
    """Let a run wait for an approval, and return its token."""
    assert run("cashier", *STORE, "--json") == 3
    token = report(capsys)["token"]
    assert isinstance(token, str)
    return token


def test_a_run_that_waits_in_a_store_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    status = run("cashier", *STORE)

    *_, call, how = capsys.readouterr().err.splitlines()
    assert status == 3
    assert call == "  refund(order='text', cents=1)"
    assert how.startswith("Go on with: understudy resume understudy-")
    assert how.endswith(" shop.yaml --tools tools.py --store sqlite:///shop.db --approve, or --reject REASON")


def test_the_command_that_goes_on_can_be_used_as_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cashier", *STORE, "--rehearse") == 3
    told = capsys.readouterr().err.splitlines()[-1]

    command = told.removeprefix("Go on with: understudy ").removesuffix(", or --reject REASON")

    assert main(shlex.split(command)) == 0


def test_the_buyer_of_the_example_waits_for_an_approval(capsys: pytest.CaptureFixture[str]) -> None:
    ledger = ROOT / "examples" / "ledger"
    options = ("--tools", str(ledger / "tools.py"), *STORE, "--rehearse")

    assert main(["run", str(ledger / "agent.yaml"), "buyer", "Order what we run out of", *options, "--json"]) == 3
    paused = report(capsys)
    assert main(["resume", str(paused["token"]), str(ledger / "agent.yaml"), *options, "--approve"]) == 0

    assert paused["waiting"] == [{"name": "place_order", "arguments": {"sku": "D-402", "units": 6}}]
    assert "- place_order(sku='D-402', units=6) gave: Lumo is to send 6 x D-402 front light" in capsys.readouterr().out


def test_a_run_that_waits_nowhere_has_no_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cashier") == 3
    assert "with --store sqlite:///FILE.db it could be answered later" in capsys.readouterr().err
    assert run("cashier", "--json") == 3
    assert "token" not in report(capsys)


def test_an_approval_lets_the_run_go_on_to_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    token = paused(capsys)

    status = resume(token, *STORE, "--approve")

    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    assert out.startswith("(rehearsal) 1 of 1 tools were called:")


def test_a_rejection_is_read_by_the_model_and_stands_in_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    token = paused(capsys)

    status = resume(token, *STORE, "--reject", "too much", "--json")

    calls = report(capsys)["tool_calls"]
    assert status == 0
    assert calls == [
        {
            "name": "refund",
            "arguments": {"order": "text", "cents": 1},
            "result": "Rejected: too much",
            "is_error": True,
        }
    ]


def test_a_limit_goes_on_when_it_is_raised(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("clerk", *STORE, "--json") == 1
    token = report(capsys)["token"]
    assert isinstance(token, str)

    assert resume(token, *STORE, "--max-iterations", "3") == 0


def test_another_process_finds_the_store_in_the_environment(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_STORE", "sqlite:///shop.db")
    assert run("cashier", "--json") == 3
    token = report(capsys)["token"]
    assert isinstance(token, str)

    done = subprocess.run(
        [sys.executable, "-m", "understudy", "resume", token, "shop.yaml", "--tools", "tools.py", "--approve"],
        cwd=shop,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((*STORE, "--answer", "Ada"), "pass Approve() or Reject"),
        (STORE, "got None\n  here: --answer TEXT to a question; --approve, or --reject REASON, for calls"),
        (("--approve",), "expected --store sqlite:///FILE.db or the variable UNDERSTUDY_STORE"),
        (("--store", "shop.db", "--approve"), "--store: store 'shop.db': expected"),
        ((*STORE, "--approve", "--answer", "Ada"), "not allowed with argument"),
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
    token = str(report(capsys)["token"])

    assert resume(token, *STORE, "--approve") == 1
    assert "set OPENAI_API_KEY" in capsys.readouterr().err
    assert resume(token, *STORE, "--approve", "--rehearse") == 0


def test_a_token_works_once_and_only_if_it_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    token = paused(capsys)

    assert resume(f"{token}x", *STORE, "--approve") == 2
    assert "no run waits under this token" in capsys.readouterr().err
    assert resume(token, *STORE, "--approve") == 0
    assert resume(token, *STORE, "--approve") == 2
    assert "this token has been used" in capsys.readouterr().err


def test_another_definition_is_refused_unless_it_is_adopted(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = paused(capsys)
    (shop / "shop.yaml").write_text(SPEC.replace("id: cashier,", "id: cashier, system_prompt: Be kind.,"))

    assert resume(token, *STORE, "--approve") == 2
    assert "adopt" in capsys.readouterr().err
    assert resume(token, *STORE, "--approve", "--adopt") == 0


def test_a_store_that_cannot_be_opened_is_an_error_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cashier", "--store", "sqlite:////nowhere/at/all.db") == 1
    assert "understudy: StoreError: store sqlite:////nowhere/at/all.db: there is no folder" in capsys.readouterr().err
