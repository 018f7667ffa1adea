"""`understudy erase`: what it removes, when it asks, and what it refuses."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import understudy as us
from understudy.cli import main
from understudy.testing import ScriptedModel, says

URL = "sqlite:///shop.db"


@pytest.fixture(autouse=True)
def shop(folder: Path) -> Path:
    """A folder with a store that knows ada in two apps; it is the current one."""
    for app in ("shop", "bank"):
        with us.ActorSystem(app, store=URL) as system:
            agent = us.Agent("clerk", model=ScriptedModel([says("hi")]), memory=us.PersistentMemory())
            agent.run("hello", system=system, user_id="ada", conversation_id="c-42")
    return folder


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def turns(app: str) -> int:
    return len(us.PersistentMemory(URL).read(us.ConversationKey(app, "ada", "c-42")))


def test_with_yes_it_erases_without_a_question_and_prints_how_much(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["erase", "ada", "--store", URL, "--yes"]) == 0

    said = capsys.readouterr().out
    assert said == "erased: 2 conversations, 2 turns, 0 summaries, 0 values, 0 waiting runs\n"
    assert (turns("shop"), turns("bank")) == (0, 0)


def test_an_app_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_STORE", URL)

    assert main(["erase", "ada", "--app", "shop", "--yes"]) == 0
    assert (turns("shop"), turns("bank")) == (0, 1)


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("yes\n", 0), ("\n", 1), ("no\n", 1), ("", 1)])
def test_it_asks_on_a_terminal_and_only_a_yes_erases(
    answer: str, left: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))

    assert main(["erase", "ada", "--store", URL]) == 0

    assert "Erase user 'ada' in all apps" in capsys.readouterr().err
    assert turns("shop") == left


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ada", "--store", URL], "pass --yes"),
        (["ada", "--yes"], "no store is named"),
        (["", "--store", URL, "--yes"], "USER must not be empty"),
        (["ada", "--store", "sqlite:///other.db", "--yes"], "there is no such store"),
        (["ada", "--store", "mysql://x", "--yes"], "expected 'memory:'"),
    ],
)
def test_a_mistake_erases_nothing(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    assert main(["erase", *arguments]) == 2

    assert says in " ".join(capsys.readouterr().err.split())
    assert turns("shop") == 1


def test_everything_goes_also_of_another_version_and_other_tables_stay(capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect("shop.db")) as file, file:
        file.execute("CREATE TABLE orders (id INTEGER)")
        file.execute("UPDATE understudy_schema SET version = 1")
    with pytest.raises(us.StoreError, match="erase --everything"):
        us.ActorSystem("shop", store=URL)

    assert main(["erase", "--everything", "--store", URL, "--yes"]) == 0

    tables = int(capsys.readouterr().out.removeprefix("erased: ").removesuffix(" tables\n"))
    assert tables > 8
    with closing(sqlite3.connect("shop.db")) as file:
        rows = file.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
    assert rows == [("orders",)]
    us.ActorSystem("shop", store=URL)
    assert turns("shop") == 0


def test_it_asks_before_it_erases_everything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("\n"))

    assert main(["erase", "--everything", "--store", URL]) == 0

    assert (
        f"Erase everything that understudy has in sqlite:///{Path('shop.db').absolute()}? [y/N]"
        in capsys.readouterr().err
    )
    assert turns("shop") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--everything", "ada"], "not allowed with argument"),
        (["--everything", "--app", "shop"], "--everything has no --app"),
        ([], "USER --everything is required"),
    ],
)
def test_everything_stands_alone(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["erase", *words, "--store", URL, "--yes"]) == 2

    assert said in capsys.readouterr().err
    assert turns("shop") == 1
