"""`understudy erase`: what it removes, when it asks, and what it refuses."""

from __future__ import annotations

import io
import sqlite3
import threading
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
    assert said == "erased: 2 conversations, 2 turns, 0 summaries, 0 values, 0 waiting runs, 0 unfinished runs\n"
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
        file.execute('CREATE TABLE "understudy_my notes" (x TEXT)')
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
    assert rows == [("orders",), ("understudy_my notes",)]
    us.ActorSystem("shop", store=URL)
    assert turns("shop") == 0


def test_a_reader_that_keeps_the_erased_text_in_the_file_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("understudy.actors.stores.sqlite_writer.PATIENCE", 0.1)
    with closing(sqlite3.connect("shop.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM understudy_turns").fetchall()

        assert main(["erase", "--everything", "--store", URL, "--yes"]) == 1
        assert "still has what was deleted" in capsys.readouterr().err

    assert main(["erase", "--everything", "--store", URL, "--yes"]) == 0
    assert b"hello" not in Path("shop.db").read_bytes()


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
        (["--everything", "ada"], "--everything has no USER and no --app"),
        (["--everything", "--app", "shop"], "--everything has no USER and no --app"),
        (["--everythin"], "--everythin"),
        ([], "expected USER, or --everything"),
    ],
)
def test_everything_stands_alone(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["erase", *words, "--store", URL, "--yes"]) == 2

    assert said in capsys.readouterr().err
    assert turns("shop") == 1


def test_a_store_in_which_a_living_process_drives_a_run_keeps_everything(capsys: pytest.CaptureFixture[str]) -> None:
    asked, answered = threading.Event(), threading.Event()

    def answer(_: us.ModelRequest) -> us.ModelTurn:
        asked.set()
        answered.wait(10)
        return says("hi")

    with us.ActorSystem("shop", store=URL) as system:
        handle = us.Agent("slow", model=us.FunctionModel(answer)).submit("go", system=system)
        assert asked.wait(10)

        assert main(["erase", "--everything", "--store", URL, "--yes"]) == 2

        assert "living processes drive runs in" in capsys.readouterr().err
        answered.set()
        assert handle.result(10).status == "complete"
    assert main(["erase", "--everything", "--store", URL, "--yes"]) == 0


def test_a_database_that_is_no_store_gets_no_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect("other.db")) as file, file:
        file.execute("CREATE TABLE orders (id INTEGER)")

    assert main(["erase", "ada", "--store", "sqlite:///other.db", "--yes"]) == 2

    assert "no system has had this database as its store" in capsys.readouterr().err
    with closing(sqlite3.connect("other.db")) as file:
        assert file.execute("SELECT name FROM sqlite_master").fetchall() == [("orders",)]
