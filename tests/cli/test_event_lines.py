"""`--events`: a run as lines of JSON."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support.commands import chat_made, run_made
from tests.support.streaming import StreamedScript, text_turn
from tests.support.tools import look
from understudy.cli import main
from understudy.commandline.piece_writer import OutputFailed
from understudy.testing import ScriptedModel, calls, says

from .test_streamed_text import Out

pytestmark = pytest.mark.usefixtures("folder")


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_event_is_a_line_and_the_last_one_has_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    model = StreamedScript([[us.CallPiece(0, '{"word": "x"}', "c1", "look"), us.TurnEnd()], text_turn("Seven.")])

    assert run_made(us.Agent("clerk", model=model, tools=[look]), "go", "--events") == 0

    out, err = capsys.readouterr()
    told = lines_of(out)
    assert err == ""
    assert [each["type"] for each in told if not each["type"].endswith("_delta")] == [
        "turn_started",
        "turn_finished",
        "tool_started",
        "tool_finished",
        "turn_started",
        "turn_finished",
        "run_finished",
    ]
    assert "".join([each["text"] for each in told if each["type"] == "text_delta"]) == "Seven."
    assert (told[-1]["outcome"]["status"], told[-1]["outcome"]["text"]) == ("complete", "Seven.")


def test_events_of_runs_inside_have_their_path(capsys: pytest.CaptureFixture[str]) -> None:
    group = us.SequentialAgent("both", [us.Agent("one", model=ScriptedModel([says("1")]))])

    assert run_made(group, "go", "--events") == 0

    told = lines_of(capsys.readouterr().out)
    assert [each["path"] for each in told if each["type"] == "turn_started"] == [["both", "one"]]
    assert (told[-1]["type"], told[-1]["path"]) == ("run_finished", ["both"])


def test_a_failure_is_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    agent = us.Agent("clerk", model=ScriptedModel([us.RateLimited("slow down")]))

    assert run_made(agent, "go", "--events") == 1

    out, err = capsys.readouterr()
    last = lines_of(out)[-1]
    assert err == ""
    assert (last["type"], last["error"]["type"], last["error"]["message"]) == ("run_failed", "RateLimited", "slow down")
    assert "token" not in last["error"]


@pytest.mark.parametrize("store", [(), ("--store", "sqlite:///shop.db")])
def test_a_run_that_waits_has_a_token_if_a_store_keeps_it(
    capsys: pytest.CaptureFixture[str], store: tuple[str, ...]
) -> None:
    @us.tool(approval=True)
    def refund(order: str) -> str:
        """Pay back."""
        return order

    agent = us.Agent("cashier", model=ScriptedModel([calls("refund", order="7")]), tools=[refund])

    assert run_made(agent, "go", "--events", *store) == 3

    outcome = lines_of(capsys.readouterr().out)[-1]["outcome"]
    assert outcome["status"] == "needs_approval"
    assert ("token" in outcome) == bool(store)


def test_a_mistake_before_the_run_is_told_to_people(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "spec.yaml").write_text("agents: [{id: a, model: rehearsal}]")

    assert main(["run", "spec.yaml", "b", "go", "--events"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert "'b'" in err


def test_it_is_not_both_events_and_one_object(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "spec.yaml").write_text("agents: [{id: a, model: rehearsal}]")

    assert main(["run", "spec.yaml", "a", "go", "--events", "--json"]) == 2
    assert "not allowed with argument --events" in capsys.readouterr().out


def test_lines_that_cannot_be_written_fail_the_command_and_people_get_the_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> Iterator[None]:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Out(full))
    agent = us.Agent("clerk", model=ScriptedModel([us.RateLimited("slow down")]))

    with pytest.raises(OutputFailed, match="No space left"):
        run_made(agent, "go", "--events", "--store", "sqlite:///shop.db")

    assert "Go on with: understudy resume" in capsys.readouterr().err


def test_each_line_of_a_chat_is_a_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("hi\nAda\n"))
    asking = us.Agent("clerk", model=ScriptedModel([says("__ask_user__: who?"), says("hello Ada")]))

    assert chat_made(asking, "--events") == 0

    out, err = capsys.readouterr()
    ends = [each["outcome"]["status"] for each in lines_of(out) if each["type"] == "run_finished"]
    assert ends == ["needs_input", "complete"]
    assert "who?" in err
