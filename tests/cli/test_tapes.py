"""`--record` and `--replay` of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.tapes import lines_of
from understudy.cli import main

TOOLS = '''
def find(word: str) -> str:
    """Find a word."""
    print("looking")
    return f"{word} is in line 7"
'''

SPEC = """\
agents:
  - {id: clerk, model: rehearsal, tools: [find]}
  - {id: keyless, model: 'anthropic:claude-haiku-4-5', tools: [find]}
  - {id: silent, model: rehearsal}
"""


@pytest.fixture(autouse=True)
def shop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a spec and tools, which is the current one; no network."""
    (folder / "shop.yaml").write_text(SPEC)
    (folder / "tools.py").write_text(TOOLS)
    monkeypatch.setenv("UNDERSTUDY_OFFLINE", "1")
    return folder


def run(id: str, *options: str, input: str = "hello") -> int:
    return main(["run", "shop.yaml", id, input, "--tools", "tools.py", *options])


def test_what_was_recorded_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("clerk", "--record", "tape.jsonl") == 0
    recorded, err = capsys.readouterr()
    assert "recorded 2 model calls in tape.jsonl" in err.splitlines()

    assert run("clerk", "--replay", "tape.jsonl") == 0
    replayed, err = capsys.readouterr()
    assert replayed == recorded
    assert "find(word='text') gave: text is in line 7" in replayed
    lines = err.splitlines()
    assert lines[0] == "replay: the tools really run, tape.jsonl answers for rehearsal"
    assert "looking" in err
    assert "replayed 2 of 2 model calls in tape.jsonl" in lines


def test_a_tape_answers_for_models_on_the_network_and_without_a_key(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("clerk", "--record", "tape.jsonl") == 0
    expected = capsys.readouterr().out

    assert run("keyless", "--replay", "tape.jsonl") == 0

    assert capsys.readouterr().out == expected


def test_all_agents_of_the_spec_are_recorded_under_the_names_of_their_models(shop: Path) -> None:
    assert run("keyless", "--record", "tape.jsonl") == 1  # it is offline

    (line,) = lines_of(shop / "tape.jsonl")
    assert line["model"] == "anthropic:claude-haiku-4-5"


def test_an_error_that_was_recorded_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("keyless", "--record", "tape.jsonl") == 1
    assert "recorded 1 model call in tape.jsonl" in capsys.readouterr().err

    assert run("keyless", "--replay", "tape.jsonl", "--json") == 1

    error = json.loads(capsys.readouterr().out)["error"]
    assert error["type"] == "ProviderError"
    assert "UNDERSTUDY_OFFLINE is set" in error["message"]


def test_in_json_nothing_is_said_aside(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("silent", "--record", "tape.jsonl", "--json") == 0
    recorded, err = capsys.readouterr()
    assert err == ""

    assert run("silent", "--replay", "tape.jsonl", "--json") == 0
    replayed, err = capsys.readouterr()
    assert err == ""
    assert json.loads(recorded)["text"] == json.loads(replayed)["text"] == "(rehearsal) You said: hello"


def test_another_input_is_not_on_the_tape(capsys: pytest.CaptureFixture[str]) -> None:
    run("silent", "--record", "tape.jsonl")
    capsys.readouterr()

    assert run("silent", "--replay", "tape.jsonl", input="hullo") == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert "(tape.jsonl:2) differs: message 1; message 1 was 'user: hello', and is 'user: hullo'" in err
    assert "replayed 0 of 1 model call in tape.jsonl" in err
    assert "Traceback" not in err


def test_a_tape_whose_recording_was_cut_off_says_so(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("silent", "--record", "tape.jsonl")
    with (shop / "tape.jsonl").open("a") as tape:
        tape.write('{"request": {"dig')
    capsys.readouterr()

    assert run("silent", "--replay", "tape.jsonl") == 0
    assert "tape.jsonl ends in the middle of a line, which is left out" in capsys.readouterr().err


def test_secrets_of_the_environment_stay_out_of_the_tape(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "plain-canary-words")

    assert run("clerk", "--record", "tape.jsonl", input="my key is plain-canary-words") == 0

    assert "canary" not in (shop / "tape.jsonl").read_text()
    assert "my key is [redacted]" in (shop / "tape.jsonl").read_text()


MISTAKES: list[tuple[list[str], str]] = [
    (["--replay", "gone.jsonl"], "--replay gone.jsonl: there is no such file; --record makes a tape"),
    (["--replay", "."], "--replay .: the file cannot be read: Is a directory"),
    (["--replay", "shop.yaml"], "--replay: shop.yaml:1: not a tape: "),
    (["--replay", "empty.jsonl"], "--replay: empty.jsonl: the file is empty; expected a tape"),
    (
        ["--replay", "new.jsonl"],
        "new.jsonl:1: a tape of format 9; this version reads format 1; a newer version wrote it",
    ),
    (["--replay", "bad.jsonl"], "bad.jsonl:2: a broken line: "),
    (["--record", "shop.yaml"], "--record shop.yaml: there is such a file already, and it is left alone; name another"),
    (["--record", "no/tape.jsonl"], "--record no/tape.jsonl: the file cannot be made: No such file or directory"),
    (["--record", "t.jsonl", "--replay", "t.jsonl"], "argument --replay: not allowed with argument --record"),
    (["--rehearse", "--replay", "t.jsonl"], "argument --replay: not allowed with argument --rehearse"),
    (["--record", "t.jsonl", "--rehearse"], "argument --rehearse: not allowed with argument --record"),
    (["--record"], "argument --record: expected one argument"),
]


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the files of a folder; the interpreter makes folders beside the tools for its own ends."""
    return {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(("options", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_a_mistake_of_the_users_has_status_2_and_changes_no_file(
    shop: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    (shop / "empty.jsonl").write_text("")
    (shop / "new.jsonl").write_text('{"tape": "understudy", "format": 9}\n')
    (shop / "bad.jsonl").write_text('{"tape": "understudy", "format": 1}\n{}\n')
    before = contents(shop)

    status = run("silent", *options)

    out, err = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert says in err
    assert "Traceback" not in err
    assert contents(shop) == before


def test_other_mistakes_are_found_before_a_tape_is_made(shop: Path) -> None:
    assert run("nobody", "--record", "tape.jsonl") == 2
    assert run("silent", "--record", "tape.jsonl", input=" ") == 2
    assert not (shop / "tape.jsonl").exists()


def test_help_tells_of_tapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0

    out = capsys.readouterr().out
    assert "[--rehearse | --record TAPE | --replay TAPE]" in " ".join(out.split())
    assert "--record tape.jsonl" in out


def test_a_replay_may_take_the_time_of_the_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("silent", "--record", "tape.jsonl") == 0
    recorded = capsys.readouterr().out

    assert run("silent", "--replay", "tape.jsonl", "--speed", "2") == 0

    assert capsys.readouterr().out == recorded == "(rehearsal) You said: hello\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--speed", "1"), "--speed is that of a replay; expected --replay TAPE with it"),
        (("--replay", "tape.jsonl", "--speed", "0"), "expected a number above 0, got '0'"),
    ],
)
def test_a_speed_that_fits_nothing_is_a_mistake(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], says: str
) -> None:
    assert run("silent", *options) == 2
    assert says in capsys.readouterr().err
