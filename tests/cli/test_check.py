"""`understudy check`: what a spec holds, or all that is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import understudy as us
from tests.cli.test_main import SPEC, TOOLS
from tests.support.commands import spec_of
from understudy.cli import main
from understudy.commandline.commands.check import check
from understudy.vocabulary.presets import PRESETS


@pytest.fixture(autouse=True)
def shop(folder: Path) -> Path:
    """A folder with a spec and tools, which is the current one."""
    (folder / "shop.yaml").write_text(SPEC)
    (folder / "bad.yaml").write_text("agents: [{id: a, model: rehearsal, tols: []}, {id: a, model: nobody}]")
    (folder / "tools.py").write_text(TOOLS)
    return folder


def test_a_spec_without_problems_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "shop.yaml", "--tools", "tools.py"]) == 0

    out, err = capsys.readouterr()
    assert err == ""
    assert out == (
        "shop.yaml: all is well\n"
        "  agents: clerk, clumsy, cashier, hasty, keyless, silent\n"
        "  tools: find, boom, refund (with approval)\n"
        "  note: ANTHROPIC_API_KEY is not set, so anthropic cannot be called\n"
    )


def test_supervisors_are_told_apart_from_what_can_be_run(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "watched.yaml").write_text(
        "{agents: [{id: a, model: rehearsal}], supervisors: [{id: desk, children: [a]}]}"
    )

    assert main(["check", "watched.yaml"]) == 0
    assert capsys.readouterr().out == "watched.yaml: all is well\n  agents: a\n  supervisors: desk\n"
    assert main(["check", "watched.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"][0]["supervisors"] == ["desk"]


def test_a_place_that_is_not_set_is_told_and_one_that_is_given_is_not(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AZURE_OPENAI_ENDPOINT", "GOOGLE_CLOUD_PROJECT", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "some-key")
    agents = (
        "[{id: a, model: azure:my-gpt%s}, {id: b, model: vertex:gemini-2.5-flash%s}, {id: c, model: ollama:llama3.2}]"
    )
    (shop / "nowhere.yaml").write_text(f"agents: {agents % ('', '')}")
    (shop / "there.yaml").write_text(f"agents: {agents % (', endpoint: https://a.example', ', project: p')}")

    assert main(["check", "nowhere.yaml", "there.yaml"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "agents" not in line] == [
        "nowhere.yaml: all is well",
        "  note: AZURE_OPENAI_ENDPOINT is not set, so azure cannot be called",
        "  note: GOOGLE_CLOUD_PROJECT is not set, so vertex takes the project of Google's default credentials",
        "there.yaml: all is well",
    ]
    assert main(["check", "nowhere.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["files"][0]["missing_places"]
    assert told == {"azure": "AZURE_OPENAI_ENDPOINT", "vertex": "GOOGLE_CLOUD_PROJECT"}


def test_a_model_that_was_given_its_key_misses_none(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("OPENAI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (shop / "own.py").write_text(
        "import understudy as us\n"
        "with_key = us.OpenAI('gpt-4o', api_key=lambda: 'k')\n"
        "without = us.OpenAI('llama', preset='groq')\n"
    )
    (shop / "own.yaml").write_text("agents: [{id: a, model: {name: with_key}}, {id: b, model: {name: without}}]")

    assert main(["check", "own.yaml", "--tools", "own.py"]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "note" in line]
    assert notes == ["  note: GROQ_API_KEY is not set, so groq cannot be called"]


def test_of_compatible_servers_only_those_that_need_a_key_miss_one(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in {variable for preset in PRESETS.values() for variable in preset.key_variables}:
        monkeypatch.delenv(name, raising=False)
    (shop / "own.py").write_text(
        "import understudy as us\n"
        "own = us.OpenAI('m', preset=us.Preset(name='own', address='http://127.0.0.1:1', needs_key=False))\n"
    )
    by_name = [f"{{id: a{number}, model: '{name}:m'}}" for number, name in enumerate(PRESETS)]
    spare = f"{{id: b, model: ollama:m, fallback: {[f'{name}:m' for name in PRESETS if name != 'ollama']}}}"
    (shop / "servers.yaml").write_text(f"agents: [{', '.join(by_name)}, {spare}, {{id: c, model: {{name: own}}}}]")
    needed = {name: [*preset.key_variables] for name, preset in PRESETS.items() if preset.needs_key}

    assert main(["check", "servers.yaml", "--tools", "own.py", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["files"]
    assert (told["missing_keys"], told["missing_places"]) == (needed, {})
    assert main(["check", "servers.yaml", "--tools", "own.py"]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "note" in line]
    assert notes == [
        f"  note: {' or '.join(variables)} is not set, so {name} cannot be called" for name, variables in needed.items()
    ]


def test_a_key_that_is_set_is_not_missed_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "plain-canary-words")

    assert main(["check", "shop.yaml", "--tools", "tools.py"]) == 0

    out, err = capsys.readouterr()
    assert "note" not in out
    assert "canary" not in out + err


def test_all_problems_of_all_files_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "bad.yaml", "shop.yaml", "gone.yaml", "--tools", "tools.py"]) == 2

    out, err = capsys.readouterr()
    assert out.startswith("shop.yaml: all is well\n")
    assert "bad.yaml:1:36: agent 'a'" in err
    assert "Did you mean 'tools'?" in err
    assert "understudy: gone.yaml: there is no such file" in err
    assert all(line.startswith("understudy: ") for line in err.splitlines())


@pytest.mark.parametrize("tool", ["opaque", "loose", "held"])
def test_a_tool_that_no_run_could_use_is_a_problem(shop: Path, tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "one.yaml").write_text(f"agents: [{{id: a, model: rehearsal, tools: [{tool}]}}]")

    assert main(["check", "one.yaml", "--tools", "tools.py"]) == 2
    assert tool in capsys.readouterr().err


def test_in_json_there_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "bad.yaml", "shop.yaml", "--tools", "tools.py", "--json"]) == 2

    out, err = capsys.readouterr()
    bad, good = json.loads(out)["files"]
    assert err == ""
    assert (bad["ok"], good["ok"], good["problems"]) == (False, True, [])
    assert len(bad["problems"]) > 1
    assert good["runners"]["agents"][0] == "clerk"
    assert good["tools"] == ["find", "boom", "refund"]
    assert good["missing_keys"] == {"anthropic": ["ANTHROPIC_API_KEY"]}


def test_groups_are_told_by_kind_with_what_workflows_need() -> None:
    a = us.Agent("a", model="rehearsal")
    panel = us.ParallelAgent("panel", [a])
    lead = us.Agent("lead", model=us.OpenAI("gpt-4o"), sub_agents=[a])
    brief = us.Workflow("brief", [us.Task("t", panel, prompt="${topic} for ${reader}"), us.Task("u", lead)])

    found = check(spec_of(us.SequentialAgent("all", [brief])), "made.yaml")

    assert found.problems == []
    assert found.lines() == [
        "  agents: a, lead",
        "  sequences: all",
        "  parallel groups: panel",
        "  workflows: brief (--set reader, topic)",
        "  note: OPENAI_API_KEY is not set, so openai cannot be called",
    ]


def test_tasks_that_are_told_of_their_dependencies_unasked_are_named(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "flow.yaml").write_text("""\
agents: [{id: a, model: rehearsal}]
workflows:
  - id: report
    type: workflow
    tasks:
      - {id: fetch, agent: a}
      - {id: check, agent: a, prompt: "Check ${fetch}", dependencies: [fetch]}
      - {id: write, agent: a, prompt: Write a report, dependencies: [fetch, check]}
""")

    assert main(["check", "flow.yaml"]) == 0
    note = "note: the prompt of task 'write' in report names no task, so the text of fetch, check is put before it"
    assert capsys.readouterr().out == f"flow.yaml: all is well\n  agents: a\n  workflows: report\n  {note}\n"
    assert main(["check", "flow.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["files"][0]["handed_over"]
    assert told == {"report": {"write": ["fetch", "check"]}}


@pytest.fixture
def runs_code(shop: Path) -> Path:
    """What a file makes when it is run that only the spec `code.yaml` names."""
    (shop / "code.py").write_text("open('ran', 'w').close()\ndef look() -> int: return 1\n")
    (shop / "code.yaml").write_text("agents: [{id: a, model: rehearsal, tools: ['code.py:look']}]")
    return shop / "ran"


@pytest.mark.parametrize("tools", [[], ["--tools", "tools.py"]])
def test_code_that_only_the_spec_names_is_not_run_and_the_tool_is_named(
    runs_code: Path, tools: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "code.yaml", *tools]) == 0
    assert capsys.readouterr().out == (
        "code.yaml: all is well\n"
        "  agents: a\n"
        "  tools: look\n"
        "  note: code.py:look not loaded, for no code was run; --allow-code runs it\n"
    )
    assert main(["check", "code.yaml", "--json", *tools]) == 0
    assert json.loads(capsys.readouterr().out)["files"][0]["not_loaded"] == ["code.py:look"]
    assert main(["graph", "code.yaml", *tools]) == 0
    assert "look" in capsys.readouterr().out
    assert not runs_code.exists()


@pytest.mark.parametrize("command", ["check", "graph"])
@pytest.mark.parametrize("allowed", [["--allow-code"], ["--tools", "code.py"]])
def test_code_is_run_where_the_command_line_says_so(
    runs_code: Path, command: str, allowed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "code.yaml", *allowed]) == 0
    assert "not loaded" not in capsys.readouterr().out
    assert runs_code.exists()


@pytest.mark.parametrize("command", ["check", "graph", "run", "chat"])
def test_no_command_runs_code_outside_of_the_spec_s_folder(
    runs_code: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs_code.parent / "specs").mkdir()
    (runs_code.parent / "specs" / "bad.yaml").write_text(
        "agents: [{id: a, model: rehearsal, tools: ['../code.py:look']}]"
    )
    words = {"run": ["a", "hello"], "chat": ["a"], "check": ["--allow-code"], "graph": ["--allow-code"]}[command]

    assert main([command, "specs/bad.yaml", *words]) == 2

    assert "leads out of the folder of the spec" in capsys.readouterr().err
    assert not runs_code.exists()


BROKEN = Path(__file__).parent.parent / "specs" / "broken"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("unclosed-quote", ":5:20: this quote is never closed"),
        ("include-circle/spec", "b.yaml:2:5: this file includes itself: a.yaml -> b.yaml -> a.yaml"),
    ],
)
def test_mistakes_are_told_with_their_places_and_status_2(
    name: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BROKEN / f"{name}.yaml"

    assert main(["check", str(file)]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert all(line.startswith(f"understudy: {file.parent}/") for line in err.splitlines())
    assert "Traceback" not in err
