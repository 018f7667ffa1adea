"""`understudy chat`: in a pipe, and at a terminal."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import understudy as us
from tests.support.commands import chat_made
from tests.support.terminals import on_terminal
from understudy.testing import FunctionModel, ScriptedModel, calls, says

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put lines into standard input."""

    def put(*lines: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join([f"{line}\n" for line in lines])))

    return put


Typed = Callable[..., None]


def counting(id: str, memory: us.Memory | None = None) -> us.Agent:
    """Make an agent that says what it was told, in all runs that it knows of."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says(" ".join([message.text for message in request.messages if message.role == "user"]))

    return us.Agent(id, model=FunctionModel(answer), memory=memory)


@us.tool(approval=True)
def refund(order: str) -> str:
    """Pay back."""
    return f"paid {order}"


def cashier() -> us.Agent:
    return us.Agent("cashier", model=ScriptedModel([calls("refund", order="7"), says("done")]), tools=[refund])


def test_each_line_is_a_run_that_knows_the_lines_before(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed("one", "", "two")

    assert chat_made(counting("clerk")) == 0

    out, err = capsys.readouterr()
    assert out == "one\none two\n"
    assert err == "clerk has no memory in the spec; here it remembers until the chat ends\n"


def test_an_agent_with_a_memory_keeps_it_and_the_conversation_may_be_named(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = counting("clerk", us.InMemoryMemory())
    typed("one")
    assert chat_made(agent, "--conversation", "c-42") == 0
    typed("two")
    assert chat_made(agent, "--conversation", "c-42") == 0

    assert capsys.readouterr() == ("one\none two\n", "")


def test_a_reset_begins_another_conversation(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed("one", "/reset", "two", "/help", "/nothing", "//quit", "/etc is a folder", "/quit", "never")

    assert chat_made(counting("clerk")) == 0

    out, err = capsys.readouterr()
    assert out.splitlines() == ["one", "two", "two /quit", "two /quit /etc is a folder"]
    assert "there is no command /nothing" in err
    assert "/reset  begin another conversation" in err


def test_the_next_line_answers_a_question(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    asking = us.Agent("clerk", model=ScriptedModel([says("__ask_user__: who?"), says("hello Ada")]))
    typed("hi", "", "Ada")

    assert chat_made(asking) == 0

    assert capsys.readouterr().out == "who?\nhello Ada\n"


@pytest.mark.parametrize(
    ("lines", "result"),
    [
        (("y",), "paid 7"),
        (("n",), "Rejected"),
        (("",), "Rejected"),
        (("no too much",), "Rejected: too much"),
        (('e {"cents": 5}', "y"), "paid 7"),
        (('e {"order": "8"}',), "paid 8"),
        (("e", '{"order": "8"}'), "paid 8"),
        (("e [1]", "what?", "e {", "yes"), "paid 7"),
        (('e {"order": 1e999}', 'e {"order": NaN}', "yes"), "paid 7"),
        (('e {"order": ' + "[" * 5000 + "]" * 5000 + "}", "yes"), "paid 7"),
    ],
)
def test_a_call_is_allowed_refused_or_edited(
    typed: Typed, capsys: pytest.CaptureFixture[str], lines: tuple[str, ...], result: str
) -> None:
    agent = cashier()
    typed("pay", *lines)

    assert chat_made(agent, "--json") == 0

    out, err = capsys.readouterr()
    (call,) = json.loads(out)["tool_calls"]
    assert call["result"].startswith(result)
    assert "may this run? refund(order='7')" in err


def test_pauses_inside_of_a_group_are_asked_for_one_after_another(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = us.Agent("clerk", model=ScriptedModel([says("__ask_user__: who?"), says("hello Ada")]))
    typed("hi", "Ada", "y")

    assert chat_made(us.ParallelAgent("desk", [asking, cashier()])) == 0

    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "desk > clerk: who?",
        "desk > cashier: may this run? refund(order='7')",
        "done",
    ]
    assert "no agent of desk has a memory" in err


def test_what_a_group_did_before_and_after_its_pauses_is_in_its_report(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(order: str) -> str:
        return f"order {order}"

    paying = calls("look", order="1") + calls("refund", order="2") + calls("refund", order="3")
    model = ScriptedModel([paying, calls("refund", order="4"), calls("look", order="5"), says("done")])
    payer = us.Agent("payer", model=model, tools=[look, refund])
    lead = us.Agent("lead", model=ScriptedModel([calls("payer", input="x"), says("all done")]), sub_agents=[payer])
    typed("pay", "n too much", 'e {"order": "30"}', "y")

    assert chat_made(us.SequentialAgent("desk", [lead]), "--json") == 0

    report = json.loads(capsys.readouterr().out)
    assert [(call["path"][-1], call["name"], call["result"]) for call in report["tool_calls"]] == [
        ("lead", "payer", "done"),
        ("payer", "look", "order 1"),
        ("payer", "refund", "Rejected: too much"),
        ("payer", "refund", "paid 30"),
        ("payer", "refund", "paid 4"),
        ("payer", "look", "order 5"),
    ]
    assert [(child["path"], child["status"], child["text"]) for child in report["children"]] == [
        (["desk", "lead"], "complete", "all done")
    ]


def test_what_was_done_before_a_failure_is_in_the_report_across_the_pause(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel([calls("refund", order="1"), calls("refund", order="2"), us.BadReply("lost")])
    agent = us.Agent("cashier", model=model, tools=[refund])
    typed("pay", "y", "y")

    assert chat_made(agent, "--json") == 1

    report = json.loads(capsys.readouterr().out)
    assert report["outcome"] == "error"
    assert [call["result"] for call in report["tool_calls"]] == ["paid 1", "paid 2"]


def test_lines_that_end_in_a_question_leave_a_run_that_waits(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed("pay")

    assert chat_made(cashier(), "--store", "sqlite:///shop.db") == 3

    assert "Go on with: understudy resume understudy-" in capsys.readouterr().err


def test_a_run_that_fails_is_told_and_the_chat_goes_on(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    agent = us.Agent("clerk", model=ScriptedModel([us.BadReply("lost"), says("back")]))
    typed("one", "two")

    assert chat_made(agent) == 1

    out, err = capsys.readouterr()
    assert out == "back\n"
    assert "BadReply: agent 'clerk' (ScriptedModel): lost" in err


def test_a_workflow_takes_its_parameters(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    flow = us.Workflow("brief", [us.Task("a", counting("x", us.InMemoryMemory()), prompt="${topic}: ${input}")])
    typed("one", "two")

    assert chat_made(flow, "--set", "topic=tides") == 0

    assert capsys.readouterr() == ("tides: one\ntides: one tides: two\n", "")


TOOLS = '''
import threading
import understudy as us

@us.tool(approval=True)
def refund(order: str) -> str:
    """Pay back."""
    return f"paid {order}"

@us.tool(approval=True)
def stall() -> str:
    threading.Event().wait()
    return "never"

def hang() -> str:
    print("hanging", flush=True)
    threading.Event().wait()
    return "never"
'''
SPEC = """\
agents:
  - {id: cashier, model: rehearsal, tools: ['tools.py:refund']}
  - {id: clerk, model: rehearsal}
  - {id: slow, model: rehearsal, tools: ['tools.py:hang']}
  - {id: staller, model: rehearsal, tools: ['tools.py:stall']}
"""


@pytest.fixture
def shop(folder: Path) -> Path:
    (folder / "tools.py").write_text(TOOLS)
    (folder / "shop.yaml").write_text(SPEC)
    return folder


def test_at_a_terminal_a_person_is_prompted(shop: Path) -> None:
    with on_terminal("chat", "shop.yaml", "cashier", cwd=shop) as screen:
        screen.wait_for("Ctrl-D ends")
        screen.wait_for("> ")
        screen.type("pay order 7\n")
        screen.wait_for("may this run? refund(order='text')")
        screen.wait_for("[y/N/e] ")
        screen.type("y\n")
        screen.wait_for("refund(order='text') gave: paid text")
        screen.wait_for("> ")
        screen.type("\x04")

        assert screen.status() == 0
        assert "Traceback" not in screen.screen


def test_an_interrupt_cancels_the_run_and_another_one_ends_the_chat(shop: Path) -> None:
    with on_terminal("chat", "shop.yaml", "slow", cwd=shop) as screen:
        screen.wait_for("> ")
        screen.type("wait\n")
        screen.wait_for("hanging")
        screen.type("\x03")
        screen.wait_for("the run was cancelled")
        screen.wait_for("Ctrl-C again")
        screen.wait_for("> ")
        screen.type("/help\n")
        screen.wait_for("/reset")
        screen.wait_for("> ")
        screen.interrupt("Ctrl-C again")
        screen.wait_for("> ")
        screen.interrupt()

        assert screen.status() == 130
        assert "Traceback" not in screen.screen


def test_after_an_answer_progress_is_live_and_an_interrupt_cancels_the_run(shop: Path) -> None:
    pytest.importorskip("rich")
    with on_terminal("chat", "shop.yaml", "staller", cwd=shop) as screen:
        screen.wait_for("> ")
        screen.type("wait\n")
        screen.wait_for("[y/N/e] ")
        assert screen.has_cursor
        screen.type("y\n")
        screen.wait_for("turn 1: running stall")
        assert not screen.has_cursor
        screen.type("\x03")
        screen.wait_for("the run was cancelled")
        screen.wait_for("Ctrl-C again")
        screen.wait_for("> ")
        screen.type("\x04")

        assert screen.status() == 0
        assert "Traceback" not in screen.screen


def test_a_line_can_be_edited_before_it_is_sent(shop: Path) -> None:
    pytest.importorskip("readline")
    with on_terminal("chat", "shop.yaml", "clerk", cwd=shop) as screen:
        screen.wait_for("> ")
        screen.type("hello\x01oh \n")  # to the beginning of the line
        screen.wait_for("(rehearsal) You said: oh hello")
        screen.wait_for("> ")
        screen.type("\x04")

        assert screen.status() == 0


def test_progress_on_a_terminal_is_live(shop: Path) -> None:
    pytest.importorskip("rich")
    with on_terminal("run", "shop.yaml", "slow", "hello", cwd=shop) as screen:
        screen.wait_for("running hang")
        screen.type("\x03")

        assert screen.status() == 130
        assert "interrupted; the run was cancelled" in screen.screen


def test_an_answer_cannot_steer_the_terminal(shop: Path) -> None:
    with on_terminal("run", "shop.yaml", "clerk", "one\x1b[2Jtwo", cwd=shop) as screen:
        screen.wait_for("(rehearsal) You said: one�[2Jtwo")

        assert screen.status() == 0


def test_of_a_call_that_is_asked_for_all_is_shown(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    order = f"{'x' * 500} for 9000 euros"
    agent = us.Agent("cashier", model=ScriptedModel([calls("refund", order=order), says("done")]), tools=[refund])
    typed("pay", "n")

    assert chat_made(agent) == 0

    assert f"may this run? refund(order='{order}')" in capsys.readouterr().out


@pytest.mark.parametrize("options", [(), ("--store", "sqlite:///shop.db")])
def test_a_run_that_an_interrupt_leaves_waiting_in_a_store_can_be_gone_on_with(
    shop: Path, options: tuple[str, ...]
) -> None:
    with on_terminal("chat", "shop.yaml", "cashier", *options, cwd=shop) as screen:
        screen.wait_for("> ")
        screen.type("pay order 7\n")
        screen.wait_for("[y/N/e] ")
        screen.interrupt("Ctrl-C again")

        assert ("Go on with: understudy resume" in screen.screen) == bool(options)
