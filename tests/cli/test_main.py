"""`main` in this process: what it prints, where, and the status it returns."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import understudy as us
from tests.support.spec_examples import FORMAT
from understudy.cli import COMMANDS, main
from understudy.commandline.commands.printing import print_as_log_lines
from understudy.diagnostics import log

TOOLS = '''
from pathlib import Path
import understudy as us

def find(word: str) -> str:
    """Find a word."""
    print("looking")
    return f"{word} is in line 7\\nand in line 9"

def boom(n: int) -> str:
    raise KeyError(n)

@us.tool(approval=True)
def refund(order: str, cents: int) -> str:
    return "done"

@us.tool(isolation="caller")
def held(order: str) -> str:
    return "done"

def opaque(bag: object.__class__) -> str:
    return ""

def loose(word): ...
'''

SPEC = """\
agents:
  - {id: clerk, model: rehearsal, tools: [find]}
  - {id: clumsy, model: rehearsal, tools: [boom]}
  - {id: cashier, model: rehearsal, tools: [refund]}
  - {id: hasty, model: rehearsal, tools: [find], max_iterations: 0}
  - {id: keyless, model: 'anthropic:claude-haiku-4-5', tools: [find]}
  - {id: silent, model: rehearsal}
"""


@pytest.fixture
def own_log() -> Iterator[None]:
    """Begin with a silent logger, and take back what `--log` does to it."""
    handlers, level, propagate = log.handlers[:], log.level, log.propagate
    log.handlers[:] = [logging.NullHandler()]  # others are of earlier commands, whose standard error is closed
    yield
    log.handlers[:], log.propagate = handlers, propagate
    log.setLevel(level)
    print_as_log_lines(False)


@pytest.fixture
def shop(folder: Path) -> Path:
    """A folder with a spec and tools, which is the current one."""
    (folder / "shop.yaml").write_text(SPEC)
    (folder / "tools.py").write_text(TOOLS)
    return folder


def run(id: str, *options: str, input: str = "hello") -> int:
    return main(["run", "shop.yaml", id, input, "--tools", "tools.py", *options])


@pytest.mark.usefixtures("shop")
class TestARun:
    def test_prints_the_answer_and_tells_of_its_progress_aside(self, capsys: pytest.CaptureFixture[str]) -> None:
        status = run("clerk")

        out, err = capsys.readouterr()
        assert status == 0
        assert out == (
            "(rehearsal) 1 of 1 tools were called:\n- find(word='text') gave: text is in line 7 and in line 9\n"
        )
        assert "looking" in err
        # The tool prints on its own thread, so its line may come anywhere, even inside of another.
        lines = re.sub(r"\d+\.\d+ s", "TIME", err.replace("looking", "")).splitlines()
        assert [line for line in lines if line] == [
            "turn 1: asking the model",
            "  call find(word='text')",
            "  find gave, after TIME: text is in line 7",
            "turn 2: asking the model",
            "2 turns, 1 tool call, TIME",
        ]

    def test_in_json_is_one_object_and_nothing_else(self, capsys: pytest.CaptureFixture[str]) -> None:
        status = run("clerk", "--json")

        out, err = capsys.readouterr()
        report = json.loads(out)
        assert status == 0
        assert out.count("\n") == 1
        assert err == "looking\n"
        assert report.pop("run_id")
        assert report == {
            "outcome": "complete",
            "agent": "clerk",
            "text": "(rehearsal) 1 of 1 tools were called:\n- find(word='text') gave: text is in line 7 and in line 9",
            "output": "(rehearsal) 1 of 1 tools were called:\n- find(word='text') gave: text is in line 7 and in line 9",
            "completion_reason": "the model answered",
            "finish_reason": "stop",
            "iterations": 1,
            "turns": 2,
            "usage": {"input_tokens": None, "output_tokens": None, "total_tokens": None},
            "cost_usd": None,
            "model": "rehearsal",
            "tool_calls": [
                {
                    "name": "find",
                    "arguments": {"word": "text"},
                    "result": "text is in line 7\nand in line 9",
                    "is_error": False,
                }
            ],
        }

    def test_goes_on_when_a_tool_fails(self, capsys: pytest.CaptureFixture[str]) -> None:
        status = run("clumsy", "--json")

        (call,) = json.loads(capsys.readouterr().out)["tool_calls"]
        assert status == 0
        assert (call["name"], call["is_error"]) == ("boom", True)

    def test_rehearses_what_has_a_model_of_its_own(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("keyless", "--rehearse") == 0
        assert capsys.readouterr().out.startswith("(rehearsal) 1 of 1 tools")

    def test_without_a_key_says_which_is_missing_and_how_to_rehearse(self, capsys: pytest.CaptureFixture[str]) -> None:
        status = run("keyless")

        out, err = capsys.readouterr()
        assert status == 1
        assert out == ""
        assert "ANTHROPIC_API_KEY" in err
        assert "--rehearse" in err
        assert "Traceback" not in err

    def test_that_failed_is_told_in_json_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        status = run("keyless", "--json")

        report = json.loads(capsys.readouterr().out)
        assert status == 1
        assert (report["outcome"], report["error"]["type"]) == ("error", "AuthenticationError")
        assert report["tool_calls"] == []

    def test_that_met_a_limit_names_the_limit(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("hasty") == 1
        assert "MaxIterationsExceeded" in (err := capsys.readouterr().err)
        assert "max_iterations" in err

    def test_that_waits_for_a_person_says_what_for(self, capsys: pytest.CaptureFixture[str]) -> None:
        status = run("cashier")

        out, err = capsys.readouterr()
        assert status == 3
        assert out == ""
        assert "waits for a person to approve:\n  refund(order='text', cents=1)\n" in err

    def test_that_waits_for_a_person_is_told_in_json_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("cashier", "--json") == 3
        report = json.loads(capsys.readouterr().out)
        assert report["outcome"] == "needs_approval"
        assert report["text"] is None
        assert report["waiting"] == [{"name": "refund", "arguments": {"order": "text", "cents": 1}}]

    def test_reads_its_input_from_standard_input(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("what is new?\n"))

        assert run("silent", input="-") == 0
        assert capsys.readouterr().out == "(rehearsal) You said: what is new?\n"

    def test_takes_an_input_that_begins_with_a_dash_after_two_dashes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "shop.yaml", "--tools", "tools.py", "--", "silent", "-x"]) == 0
        assert capsys.readouterr().out == "(rehearsal) You said: -x\n"

    def test_a_rehearsal_ends_by_the_agent_s_criterion(self, shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (shop / "format.yaml").write_text(FORMAT)

        assert main(["run", "format.yaml", "summarizer", "hello", "--rehearse", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["completion_reason"] == "keyword 'DONE' found in response"

    def test_may_find_its_tools_through_the_spec(self, shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (shop / "own.yaml").write_text("agents: [{id: a, model: rehearsal, tools: ['tools.py:find']}]")

        assert main(["run", "own.yaml", "a", "hello"]) == 0
        assert capsys.readouterr().out.startswith("(rehearsal) 1 of 1 tools")


MISTAKES: list[tuple[list[str], str]] = [
    (["run", "shop.yaml", "clark", "x", "--tools", "tools.py"], "shop.yaml: no runner 'clark'; it has clerk, clumsy"),
    (["run", "shop.yaml", "clark", "x", "--tools", "tools.py"], "did you mean 'clerk'?"),
    (["run", "shop.yml", "clerk", "x"], "shop.yml: there is no such file; did you mean 'shop.yaml'?"),
    (["run", "shop.yaml", "clerk", "x"], "shop.yaml:2:43: agent 'clerk': no tool 'find'"),
    (["run", "shop.yaml", "clerk", "x"], "--tools FILE.py"),
    (["run", "broken.yaml", "clerk", "x"], "broken.yaml:2:1: a tab cannot indent YAML; use spaces"),
    (["run", "loose.yaml", "a", "x", "--tools", "tools.py"], "parameter 'word' has no type annotation"),
    (["run", "opaque.yaml", "a", "x", "--tools", "tools.py"], "tool 'opaque': "),
    (["run", "held.yaml", "a", "x", "--tools", "tools.py"], "tool 'held' has isolation='caller'"),
    (["run", "shop.yaml", "clerk", "x", "--tools", "gone.py"], "gone.py: there is no such file; expected a Python"),
    (["run", "shop.yaml", "clerk", "x", "--tools", "bad.py"], "bad.py:2: ZeroDivisionError: division by zero"),
    (["run", "shop.yaml", "clerk", "x", "--tools", "tools.py", "--tools", "more.py"], "already registered as 'find'"),
    (["run", "shop.yaml", "clerk", "  ", "--tools", "tools.py"], "the input is empty"),
    (["run", "shop.yaml", "clerk", "x", "--timeout", "0"], "expected a number of seconds above 0, got '0'"),
    (["run", "shop.yaml", "clerk", "x", "--timeout", "nan"], "expected a number of seconds above 0, got 'nan'"),
    (["run", "shop.yaml", "clerk", "--tools", "tools.py"], "the following arguments are required: INPUT, for 'clerk'"),
    (["run", "shop.yaml", "clerk", "x", "--api-key", "k"], "unrecognized arguments: --api-key"),
    (["run", "shop.yaml", "clerk", "x", "--api-key", "k"], "'understudy run --help' explains more"),
    (["run", "watched.yaml", "desk", "x"], "'desk' is a supervisor, which a system spawns and nothing runs"),
    (["run", "link.yaml", "a", "x"], "link.yaml: this is a link to a file that is not there"),
    (["--hlep"], "there is no option '--hlep'. Did you mean '--help'?"),
    (["rum"], "there is no command 'rum'. Did you mean 'run'?"),
    (["run", "shop.yaml", "clerk", "x", "--rehears"], "unrecognized arguments: --rehears. Did you mean '--rehearse'?"),
    (["run", "shop.yaml", "clerk", "x", "--model", "gpt-4o"], "Did you mean 'openai:gpt-4o'?"),
    (
        ["run", "shop.yaml", "clerk", "x", "--tools", "tools.py", "--model", "clrk=openai:gpt-4o"],
        "there is no agent 'clrk'; there are clerk",
    ),
    (
        ["run", "shop.yaml", "clerk", "x", "--tools", "tools.py", "--model", "openai:gpt-4o", "--rehearse"],
        "expected one of them",
    ),
    ([], "no command was given. Begin with: understudy demo"),
]


@pytest.mark.parametrize(("argv", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_a_mistake_of_the_users_has_status_2_and_no_traceback(
    shop: Path, capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    (shop / "broken.yaml").write_text("agents:\n\t- id: a\n")
    (shop / "loose.yaml").write_text("agents: [{id: a, model: rehearsal, tools: [loose]}]")
    (shop / "opaque.yaml").write_text("agents: [{id: a, model: rehearsal, tools: [opaque]}]")
    (shop / "held.yaml").write_text("agents: [{id: a, model: rehearsal, tools: [held]}]")
    (shop / "watched.yaml").write_text(
        "{agents: [{id: a, model: rehearsal}], supervisors: [{id: desk, children: [a]}]}"
    )
    (shop / "link.yaml").symlink_to("nowhere.yaml")
    (shop / "bad.py").write_text("x = 0\nx = 1 / x\n")
    (shop / "more.py").write_text("def find(word: str) -> str: return word\n")

    status = main(argv)

    out, err = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert says in err
    assert err.startswith("understudy: ")
    assert "Traceback" not in err


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("argv", [["run", "shop.yaml", "clerk", "--json"], ["run", "gone.yaml", "a", "x", "--json"]])
def test_a_mistake_is_told_in_json_too(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    status = main(argv)

    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (status, err) == (2, "")
    assert report["outcome"] == "error"
    assert report["error"]["message"]


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"understudy {version('understudy')}\n"


def test_help_teaches_by_example_and_tells_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "understudy demo --into shop" in capsys.readouterr().out

    assert main(["run", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--rehearse" in out
    assert "130  interrupted" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_prose_of_help_fits_a_terminal_of_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main([command, "--help"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("  understudy ")] == []


def test_an_interrupt_while_a_run_begins_is_said_as_one_while_it_runs(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(us.Agent, "submit", interrupted)

    status = run("silent")

    assert status == 130
    assert capsys.readouterr().err.endswith("understudy: interrupted; the run was cancelled\n")


def test_debug_prints_the_traceback_of_a_tool_and_of_the_runs_error(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "strict.yaml").write_text("agents: [{id: a, model: rehearsal, tools: [boom], on_tool_error: raise}]")

    assert main(["run", "strict.yaml", "a", "x", "--tools", "tools.py", "--debug"]) == 1

    err = capsys.readouterr().err
    assert "raise KeyError(n)" in err
    assert "understudy.errors.ToolError: " in err


def test_a_named_model_answers_for_one_agent_or_for_all(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("keyless", "--model", "rehearsal") == 0
    assert run("keyless", "--model", "openai:gpt-4o", "--model", "keyless=rehearsal") == 0
    capsys.readouterr()

    assert run("keyless", "--model", "clerk=rehearsal") == 1

    assert "no key for anthropic" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("=rehearsal", "expected an agent's id before '=', got '=rehearsal'"),
        ("cleck=rehearsal", "there is no agent 'cleck'; there are"),
        ("cleck=rehearsal", "did you mean 'clerk'?"),
    ],
)
def test_a_model_for_no_agent_is_refused_with_the_nearest_one(
    given: str, told: str, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("keyless", "--model", given) == 2

    assert told in capsys.readouterr().err


def test_a_named_model_that_lacks_a_setting_of_the_agent_is_refused(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "seeded.yaml").write_text("agents: [{id: a, model: rehearsal, settings: {seed: 1}}]")

    assert main(["run", "seeded.yaml", "a", "x", "--model", "anthropic:claude-opus-5"]) == 2

    told = "--model anthropic:claude-opus-5: agent 'a': settings: anthropic has no seed; leave it out"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "f.__globals__", "__builtins__", "_hidden"])
@pytest.mark.parametrize(
    "command", [("run", "odd.yaml", "a", "x"), ("check", "odd.yaml"), ("check", "odd.yaml", "--allow-code")]
)
def test_a_file_is_not_run_for_a_name_that_is_no_public_function(
    command: tuple[str, ...], name: str, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "odd_tools.py").write_text("from pathlib import Path\nPath('ran').touch()\ndef f() -> str: return ''\n")
    (shop / "odd.yaml").write_text(f"agents: [{{id: a, model: rehearsal, tools: ['odd_tools.py:{name}']}}]")

    assert main(list(command)) == 2

    assert "names no function: expected FILE.py:FUNCTION, with a public name" in capsys.readouterr().err
    assert not (shop / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("clerk", "--rehearse"), 0, ("rehearsal: ", "looking")),
        (("keyless",), 1, ("understudy: ",)),
        (("clerk", "--timeout", "soon"), 2, ("understudy: ",)),
        (("cashier", "--rehearse", "--debug"), 3, ("understudy: ",)),
        (("clumsy", "--json"), 0, ()),
    ],
)
@pytest.mark.usefixtures("own_log")
def test_with_a_json_log_each_line_on_standard_error_is_json(
    arguments: tuple[str, ...], status: int, told: tuple[str, ...], shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments, "--log", "json") == status

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    texts = [line["message"] for line in lines if line["event"] in ("notice", "printed")]
    assert [any(text.startswith(begin) for text in texts) for begin in told] == [True] * len(told)


@pytest.mark.usefixtures("own_log")
def test_after_a_json_log_the_next_command_prints_text_again(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("keyless", "--log=json") == 1
    capsys.readouterr()

    assert run("nobody") == 2

    assert capsys.readouterr().err.startswith("understudy: ")
