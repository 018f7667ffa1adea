"""Files that a spec is made of, and values of the environment in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from understudy import SpecError, load_spec, load_spec_text
from understudy.testing import ScriptedModel, says


def write(folder: Path, **files: str) -> Path:
    """Write files, `__` in a name for `/` and `_yaml` at its end for `.yaml`; return the one called `spec`."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_yaml", ".yaml").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "spec.yaml"


def errors_of(file: Path) -> list[str]:
    """Return the lines of the error, without the folder."""
    with pytest.raises(SpecError) as caught:
        load_spec(file)
    return [line.replace(f"{file.parent}{os.sep}", "") for line in str(caught.value).splitlines()]


def test_included_files_are_one_spec(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        spec_yaml="include: [staff/agents.yaml, flows.yaml]\nagents: [{id: boss, model: rehearsal, sub_agents: [line]}]\n",
        staff__agents_yaml="include: [more.yaml]\nmemories: {desk: {type: in_memory}}\n",
        staff__more_yaml="agents: [{id: clerk, model: rehearsal, memory: desk}]\n",
        flows_yaml="workflows: [{id: line, type: sequential, steps: [{ref: clerk}]}]\n",
    )

    loaded = load_spec(file)

    assert list(loaded.runners) == ["boss", "clerk", "line"]
    assert loaded.sequential("line").steps == (loaded.agent("clerk"),)
    assert loaded.source == str(file)


def test_the_problems_of_each_file_are_told_with_its_name_in_the_order_of_reading(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        spec_yaml="include: [b.yaml, a.yaml]\nagents: [{id: x, model: rehearsal, max_turns: 0}]\n",
        a_yaml="agents: [{id: x, model: rehearsal}]\n",
        b_yaml="agents:\n  - {id: y, model: opnai:m}\nworkflows: [{id: w, type: sequential, steps: [{ref: z}]}]\n",
    )

    assert [line.partition(": ")[0] for line in errors_of(file)] == [
        "spec.yaml:2:47",
        "b.yaml:2:20",
        "b.yaml:3:53",
        "a.yaml:1:15",
    ]
    assert errors_of(file)[-1].endswith("this id stands twice, first in line 2 of spec.yaml")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../out.yaml", "leads out of the folder of the spec"),
        ("/etc/passwd", "expected a file relative to the spec, got '/etc/passwd'"),
        ("link.yaml", "leads out of the folder of the spec"),
        ("agnts.yaml", "agnts.yaml: there is no such file; did you mean 'agents.yaml'?"),
        ("folder", "folder: this is a folder"),
        ("latin.yaml", "latin.yaml:1:2: byte 0xe9 is not UTF-8"),
        ('"a\\0b"', "is no name of a file"),
        ("pipe", "is no plain file"),
        ("''", "expected a file relative to the spec"),
    ],
)
def test_an_included_file_that_cannot_be_read_is_told_where_it_is_named(tmp_path: Path, name: str, says: str) -> None:
    inside = tmp_path / "inside"
    file = write(inside, spec_yaml=f"include:\n  - {name}\n", agents_yaml="agents: []\n")
    (tmp_path / "out.yaml").write_text("agents: [{id: a, model: rehearsal}]")
    (inside / "link.yaml").symlink_to(tmp_path / "out.yaml")
    (inside / "folder").mkdir()
    (inside / "latin.yaml").write_bytes(b"#\xe9\n")
    os.mkfifo(inside / "pipe")

    (line,) = errors_of(file)

    assert line.startswith("spec.yaml:2:5: ")
    assert says in line


def test_files_that_include_one_another_are_told(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        spec_yaml="include: [a.yaml]\nagents: [{id: x, model: rehearsal}]\n",
        a_yaml="include: [b.yaml]\n",
        b_yaml="include: [a.yaml, spec.yaml]\n",
    )

    assert errors_of(file) == [
        "b.yaml:1:11: this file includes itself: a.yaml -> b.yaml -> a.yaml",
        "b.yaml:1:19: this file includes itself: spec.yaml -> a.yaml -> b.yaml -> spec.yaml",
    ]


def test_a_file_is_included_once(tmp_path: Path) -> None:
    file = write(tmp_path, spec_yaml="include: [a.yaml, ./a.yaml]\n", a_yaml="agents: [{id: x, model: rehearsal}]\n")

    assert errors_of(file) == ["spec.yaml:1:19: './a.yaml' is included twice, first by spec.yaml:1"]


def test_a_memory_is_named_once_in_all_files(tmp_path: Path) -> None:
    memory = "memories: {m: {type: in_memory}}\n"
    file = write(
        tmp_path, spec_yaml=f"include: [a.yaml]\nagents: [{{id: x, model: rehearsal}}]\n{memory}", a_yaml=memory
    )

    assert errors_of(file) == ["a.yaml:1:12: the memory 'm' stands in spec.yaml too"]


def test_a_prompt_may_stand_in_a_file(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        spec_yaml="include: [staff/a.yaml]\nagents: [{id: x, model: rehearsal, system_prompt: {file: prompts/x.md}}]\n",
        prompts__x_md="Be brief.\n${env:NOT_READ}\n",
        staff__a_yaml="agents: [{id: y, model: rehearsal, system_prompt: {file: y.md}}]\n",
        staff__y_md="\ufeffGrüß.\n",
    )

    loaded = load_spec(file)

    assert loaded.agent("x").system_prompt == "Be brief.\n${env:NOT_READ}\n"
    assert loaded.agent("y").system_prompt == "Grüß.\n"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../out.md", "leads out of the folder of the spec"),
        ("prmpt.md", "prmpt.md: there is no such file; did you mean 'prompt.md'?"),
        ("large.md", "the file is too large"),
    ],
)
def test_a_prompt_file_that_cannot_be_read_is_told_where_it_is_named(tmp_path: Path, name: str, says: str) -> None:
    spec = f"agents: [{{id: x, model: rehearsal, system_prompt: {{file: {name}}}}}]\n"
    file = write(tmp_path / "inside", spec_yaml=spec, prompt_md="x")
    (tmp_path / "out.md").write_text("secret")
    with (tmp_path / "inside" / "large.md").open("wb") as stream:
        stream.truncate(2**33)

    (line,) = errors_of(file)

    assert line.startswith("spec.yaml:1:58: agent 'x': ")
    assert says in line


def test_text_names_no_files() -> None:
    with pytest.raises(SpecError) as caught:
        load_spec_text("include: [a.yaml]\nagents: [{id: x, model: rehearsal, system_prompt: {file: x.md}}]")

    assert str(caught.value).splitlines() == [
        "<text>:1:11: a spec that is no file has no folder to include files from",
        "<text>:2:58: agent 'x': a spec that is no file has no folder to read prompts from; write the text here",
    ]


# --- the environment

VALUES = """\
agents:
  - id: clerk
    model: ${env:SHOP_MODEL}
    max_turns: ${env:SHOP_TURNS}
    system_prompt: You work for ${env:SHOP_NAME}, not for $${env:SHOP_NAME}.
    description: "${env:SHOP_TURNS}"
workflows:
  - id: flow
    type: workflow
    tasks: [{id: one, agent: clerk, prompt: "${topic} at ${env:SHOP_NAME} $${env:X}"}]
"""


def test_values_of_the_environment_stand_where_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SHOP_MODEL", "openai:gpt-4o"), ("SHOP_TURNS", "7"), ("SHOP_NAME", "Cog & ${Co}")):
        monkeypatch.setenv(name, value)

    loaded = load_spec_text(VALUES)

    clerk = loaded.agent("clerk")
    assert str(clerk.model) == "openai:gpt-4o"
    assert clerk.max_turns == 7
    assert clerk.system_prompt == "You work for Cog & ${Co}, not for ${env:SHOP_NAME}."
    assert clerk.description == "7"  # in quotes it stays text
    flow = loaded.workflow("flow")
    assert flow.parameters == {"topic"}
    heard = ScriptedModel([says("ok")])
    with clerk.override(model=heard):
        flow.run(parameters={"topic": "Tides"})
    assert heard.requests[0].messages[-1].text == "Tides at Cog & ${Co} ${env:X}"


def test_a_value_is_read_as_yaml_would_read_it_and_then_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TURNS", "many")

    with pytest.raises(SpecError, match="'max_turns' must be a whole number, got the text 'many'"):
        load_spec_text("agents:\n  - id: a\n    model: rehearsal\n    max_turns: ${env:SHOP_TURNS}\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "${env:SHOP_MODLE}",
            "the environment has no SHOP_MODLE; set it before the spec is loaded; did you mean 'SHOP_MODEL'?",
        ),
        ("${env:OPENAI_API_KEY}", "looks like a secret"),
        ("${env:MY_TOKEN}", "looks like a secret"),
        ("${env:db_password}", "looks like a secret"),
        ("${env:SHOP_SECRET}", "looks like a secret"),
        ("${env:}", "names no variable; expected ${env:NAME}"),
        ("${env:A B}", "names no variable"),
        ("a ${env:SHOP_MODEL", "names no variable"),
    ],
)
def test_what_cannot_be_read_from_the_environment_is_told(
    monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    for name in ("OPENAI_API_KEY", "MY_TOKEN", "db_password", "SHOP_SECRET"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("SHOP_MODEL", "rehearsal")

    with pytest.raises(SpecError) as caught:
        load_spec_text(f"agents:\n  - id: a\n    model: rehearsal\n    description: '{text}'\n")

    (line,) = str(caught.value).splitlines()
    assert line.startswith("<text>:4:18: ")
    assert says in line
    assert "hidden" not in line


def test_names_with_tokens_in_another_sense_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_TOKENS", "5")

    text = "agents:\n  - id: a\n    model: rehearsal\n    settings:\n      max_tokens: ${env:MAX_TOKENS}\n"
    assert load_spec_text(text).agent("a").settings.max_tokens == 5
