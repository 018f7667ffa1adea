"""`understudy run` and `resume` of runs that an error ends which may pass: the token, the command that goes on, the status."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import understudy as us
from tests.support.commands import report_of, resume_made, run_made
from understudy.testing import ScriptedModel, says

STORE = ("--store", "sqlite:///shop.db")
Errors = Callable[[], Exception]

pytestmark = pytest.mark.usefixtures("folder")


def slow() -> Exception:
    return us.RateLimited("slow down")


def late() -> Exception:
    return us.ProviderTimeout("late")


def busy() -> Exception:
    return us.ProviderError("busy", retryable=True)


def made(*turns: us.ModelTurn | Exception) -> us.Agent:
    return us.Agent("clerk", model=ScriptedModel(turns))


def told_token(err: str) -> str:
    """Return the token of the last line, which is the command that goes on."""
    words = shlex.split(err.splitlines()[-1].strip().removeprefix("Go on with: "))
    assert words[:2] == ["understudy", "resume"]
    assert words[3:] == ["made.yaml", *STORE]
    return words[2]


@pytest.mark.parametrize("error", [slow, late, busy])
def test_an_error_that_may_pass_prints_the_command_that_goes_on(
    error: Errors, capsys: pytest.CaptureFixture[str]
) -> None:
    agent, failed = made(error(), says("Done.")), error()

    assert run_made(agent, "go", *STORE) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"understudy: {type(failed).__name__}: agent 'clerk' (ScriptedModel): {failed}\n" in err
    assert resume_made(agent, told_token(err), *STORE) == 0
    assert capsys.readouterr().out == "Done.\n"


def test_a_report_in_json_has_the_token_and_one_without_an_error_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    agent = made(slow(), slow(), says("Done."))

    assert run_made(agent, "go", *STORE, "--json") == 1
    first = report_of(capsys)
    assert resume_made(agent, first["token"], *STORE, "--json") == 1
    second = report_of(capsys)
    assert resume_made(agent, second["token"], *STORE, "--json") == 0
    last = report_of(capsys)

    assert [each["outcome"] for each in (first, second, last)] == ["error", "error", "complete"]
    assert first["token"] != second["token"]
    assert "token" not in last


def test_a_token_that_was_used_is_refused_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    agent = made(slow(), says("Done."))
    assert run_made(agent, "go", *STORE, "--json") == 1
    token = str(report_of(capsys)["token"])
    assert resume_made(agent, token, *STORE) == 0
    capsys.readouterr()

    assert resume_made(agent, token, *STORE) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "this token has been used" in err


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_an_error_has_no_token_where_none_can_be_used_later(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_made(made(slow()), "go", *option) == 1
    assert run_made(made(us.BadReply("half")), "go", *STORE, *option) == 1

    out, err = capsys.readouterr()
    assert "Go on with" not in err
    assert '"token"' not in out


def test_a_limit_of_a_sub_agent_is_raised_by_the_command_that_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def look() -> str:
        return "seen"

    writer = us.Agent("writer", model=ScriptedModel([us.calls("look"), says("text")]), tools=[look], max_iterations=0)
    turns = [us.calls("writer", input="x"), says("Done.")]
    lead = us.Agent("lead", model=ScriptedModel(turns), sub_agents=[writer], on_tool_error="raise")
    assert run_made(lead, "go", *STORE) == 1
    words = shlex.split(capsys.readouterr().err.splitlines()[-1].split("Go on with: ")[1])

    assert words[-2:] == ["--max-iterations", "1"]
    assert resume_made(lead, words[2], *words[4:]) == 0
    assert capsys.readouterr().out == "Done.\n"
