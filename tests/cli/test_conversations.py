"""Conversations of `run` and `chat` that a store keeps from one command to the next."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

import understudy as us
from tests.support.commands import chat_made, run_made
from tests.support.terminals import on_terminal
from understudy.cli import main
from understudy.testing import FunctionModel, says

pytestmark = pytest.mark.usefixtures("folder")

URL = "sqlite:///shop.db"
STORE = ("--store", URL)
ADA = ("--user", "ada", "--conversation", "c-42")


def repeating(memory: us.Memory | None = None) -> us.Agent:
    """Make an agent that answers with all that users said in its conversation."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says(" ".join([message.text for message in request.messages if message.role == "user"]))

    return us.Agent("clerk", model=FunctionModel(answer), memory=memory)


def lines_of(text: str) -> list[str]:
    """Return the lines without the progress of a run."""
    return [line for line in text.splitlines() if not re.match(r"turn \d|\d+ turn", line)]


def test_runs_and_chats_of_one_user_and_conversation_go_on_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clerk = repeating(us.PersistentMemory())

    assert run_made(clerk, "one", *STORE, *ADA) == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("two\n"))
    assert chat_made(clerk, *STORE, *ADA) == 0
    assert run_made(clerk, "three", *STORE, *ADA, "--user", "bob") == 0

    out, err = capsys.readouterr()
    assert out == "one\none two\nthree\n"
    assert lines_of(err) == []


def test_what_a_command_leaves_of_a_user_can_be_erased(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_made(repeating(us.PersistentMemory()), "one", *STORE, *ADA) == 0

    assert main(["erase", "ada", *STORE, "--app", "understudy", "--yes"]) == 0

    assert "erased: 1 conversation, 1 turn," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("memory", "words", "told"),
    [
        (
            us.PersistentMemory(),
            ["--conversation", "c-42"],
            "clerk has a persistent memory; without --store it forgets everything when the command ends",
        ),
        (
            None,
            ["--conversation", "c-42", *STORE],
            "no agent of clerk has a memory: the conversation is neither known nor kept",
        ),
        (us.PersistentMemory(URL), ["--conversation", "c-42"], None),
        (us.PersistentMemory(), [], None),
    ],
)
def test_a_run_says_why_its_conversation_is_not_kept(
    memory: us.Memory | None, words: list[str], told: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_made(repeating(memory), "one", *words) == 0

    assert lines_of(capsys.readouterr().err) == ([] if told is None else [told])


def test_a_chat_with_a_persistent_memory_and_no_store_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\n"))

    assert chat_made(repeating(us.CompactedMemory(us.PersistentMemory()))) == 0

    assert "without --store it forgets everything" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--user", "--conversation"])
def test_an_empty_id_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "shop.yaml", "clerk", "hello", option, " "]) == 2

    assert f"argument {option}: expected an id, got an empty text" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_chat_on_a_terminal_names_the_conversation_that_a_store_keeps(folder: Path) -> None:
    (folder / "shop.yaml").write_text("agents:\n  - {id: clerk, model: rehearsal, memory: {type: persistent}}\n")

    with on_terminal("chat", "shop.yaml", "clerk", *STORE, "--conversation", "c 42", cwd=folder) as screen:
        screen.wait_for("--conversation 'c 42' goes on with this conversation later")
        screen.wait_for("> ")
        screen.type("/reset\n")
        screen.wait_for("another conversation begins")
        screen.wait_for("--conversation chat-")
        screen.wait_for("> ")
        screen.type("/quit\n")
        assert screen.status() == 0
