"""What `configure_logging` prints, and what is printed and imported without it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import understudy as us
from understudy.commandline.commands.run import watch
from understudy.diagnostics import emit
from understudy.testing import ScriptedModel, says

RUN = """
import understudy as us
from understudy.testing import ScriptedModel, calls, says

def look(sku: str) -> str:
    raise KeyError(sku)

model = ScriptedModel([calls("look", sku="A-113"), says("None.")])
us.Agent("clerk", model=model, tools=[look], callbacks=[us.LoggingCallback()]).run("How many?", timeout=60)
"""


def own(printed: str) -> str:
    """Return the lines of this file's run: threads of earlier tests may print lines of theirs."""
    return "".join(line for line in printed.splitlines(keepends=True) if "r-1" in line)


def test_a_run_in_a_program_without_logging_prints_nothing(tmp_path: Path) -> None:
    done = python(RUN, tmp_path)

    assert (done.stdout, done.stderr) == ("", "")


def test_a_silent_run_imports_no_structlog(tmp_path: Path) -> None:
    done = python(RUN, tmp_path, "-X", "importtime")

    assert "understudy.actors" in done.stderr
    assert "structlog" not in done.stderr


def test_configuring_imports_structlog(tmp_path: Path) -> None:
    done = python("import understudy as us; us.configure_logging()", tmp_path, "-X", "importtime")

    assert "structlog" in done.stderr


def test_a_line_in_json_has_the_event_and_each_value(capsys: pytest.CaptureFixture[str]) -> None:
    us.configure_logging("json")

    emit(logging.INFO, "run_finished", {"run_id": "r-1", "turns": 2})

    out, err = capsys.readouterr()
    line = json.loads(own(err))
    assert out == ""
    assert {name: line[name] for name in ("event", "level", "logger", "run_id", "turns")} == {
        "event": "run_finished",
        "level": "info",
        "logger": "understudy",
        "run_id": "r-1",
        "turns": 2,
    }
    assert "message" not in line


def test_a_line_with_words_of_its_own_has_both_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    us.configure_logging("json")

    emit(logging.WARNING, "run_crashed", {"run_id": "r-1"}, "run %s failed", "r-1")

    line = json.loads(own(capsys.readouterr().err))
    assert (line["event"], line["message"], line["run_id"]) == ("run_crashed", "run r-1 failed", "r-1")


def test_a_line_for_people_names_event_and_values_without_colors_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    us.configure_logging()

    emit(logging.INFO, "run_finished", {"run_id": "r-1", "turns": 2})

    out, err = capsys.readouterr()
    assert out == ""
    assert own(err).count("\n") == 1
    assert all(part in own(err) for part in ("run_finished", "run_id=r-1", "turns=2"))
    assert "\x1b" not in err


@pytest.mark.parametrize("format", ["console", "json"])
def test_a_traceback_shows_no_values_of_variables(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    us.configure_logging(format)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    hidden = "4711".center(8, "#")

    try:
        assert not len(hidden) / 0
    except ZeroDivisionError:
        emit(logging.ERROR, "run_crashed", {}, "it failed", exc_info=True)

    err = capsys.readouterr().err
    assert "ZeroDivisionError" in err
    assert hidden not in err


def test_a_second_call_replaces_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    us.configure_logging("console", "debug")
    us.configure_logging("json", logging.WARNING)

    emit(logging.INFO, "run_started", {"run_id": "r-1"})
    emit(logging.WARNING, "work_abandoned", {"run_id": "r-1"})

    (line,) = own(capsys.readouterr().err).splitlines()
    assert json.loads(line)["event"] == "work_abandoned"


def test_lines_are_printed_once_beside_a_root_handler(capsys: pytest.CaptureFixture[str]) -> None:
    root, handler = logging.getLogger(), logging.StreamHandler(sys.stderr)
    root.addHandler(handler)
    try:
        us.configure_logging("json")
        emit(logging.WARNING, "work_abandoned", {"run_id": "r-1"})
    finally:
        root.removeHandler(handler)

    assert len(own(capsys.readouterr().err).splitlines()) == 1


@pytest.mark.parametrize("level", ["debug", "INFO", "Warning", 0, 30])
def test_a_level_is_a_name_or_a_number(level: int | str, logger: logging.Logger) -> None:
    us.configure_logging(level=level)

    assert logger.level == (level if isinstance(level, int) else logging.getLevelNamesMapping()[level.upper()])


@pytest.mark.parametrize(
    ("format", "level", "words"),
    [
        ("yaml", "info", "format must be 'console' or 'json', got 'yaml'"),
        (None, "info", "format must be 'console' or 'json', got None"),
        ("json", "loud", "level must be one of debug, info, warning, error, critical, or a number; got 'loud'"),
        ("json", -1, "level must be at least 0"),
        ("json", None, "level must be a whole number"),
        ("json", True, "level must be a whole number"),
    ],
)
def test_an_unknown_format_or_level_changes_nothing(
    format: object, level: object, words: str, logger: logging.Logger
) -> None:
    before = logger.handlers[:], logger.level, logger.propagate

    with pytest.raises((TypeError, ValueError), match=words):
        us.configure_logging(format, level)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert (logger.handlers[:], logger.level, logger.propagate) == before


def test_a_line_is_said_to_come_from_the_code_that_wrote_it(caplog: pytest.LogCaptureFixture) -> None:
    emit(logging.WARNING, "run_crashed", {"run_id": "r-1"})

    (record,) = [each for each in caplog.records if getattr(each, "run_id", "") == "r-1"]
    assert record.filename == "test_log_output.py"
    assert record.getMessage() == "run_crashed run_id='r-1'"


COMMAND = "from understudy.cli import main; main(['demo', '--log', 'json', '--json', *{more}])"


@pytest.mark.parametrize("more", [[], ["--debug"]])
def test_the_command_line_prints_the_log_beside_the_answer(more: list[str], tmp_path: Path) -> None:
    code = "from understudy.diagnostics import emit; " + COMMAND.format(more=more)
    code += "; emit(10, 'turn_started', {}); emit(20, 'run_finished', {})"

    done = python(code, tmp_path)

    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert events[-1] == "run_finished"
    assert ("turn_started" in events) is ("--debug" in more)
    assert json.loads(done.stdout)["outcome"] == "complete"


def test_the_log_in_json_has_no_closing_line_for_people_behind_it(tmp_path: Path) -> None:
    demo = "from understudy.cli import main; main(['demo', '--log', '{}'])"
    in_json, for_people = (python(demo.format(form), tmp_path).stderr.splitlines() for form in ("json", "console"))

    after_the_greeting = in_json[1:]
    assert "run_finished" in [json.loads(line)["event"] for line in after_the_greeting]  # each line is JSON
    assert "5 tool calls" in for_people[-1]


def python(code: str, cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-I", *options, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("turn", [says("ok"), us.RateLimited("slow down")], ids=["complete", "failed"])
def test_the_last_line_of_a_run_is_written_before_the_command_line_goes_on(turn: us.ModelTurn | Exception) -> None:
    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            event = getattr(record, "event", "")
            if event in {"run_finished", "run_failed"} and getattr(record, "agent", "") == "last-line":
                threading.Event().wait(0.2)
                written.append(event)

    written = list[str]()
    logging.getLogger("understudy").addHandler(Slow())
    logging.getLogger("understudy").setLevel(logging.INFO)

    watch(lambda: us.Agent("last-line", model=ScriptedModel([turn])).submit("go"))

    assert len(written) == 1
