"""What is wrong with a spec is told with its place, every problem in one error: what the files of `broken/` do not have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.spec_objects import web_search
from understudy import SpecError, load_spec, load_spec_text


class Broken(NamedTuple):
    name: str
    text: str
    line: int
    column: int
    says: str


AGENT = "agents:\n  - id: clerk\n    model: rehearsal\n"

BROKEN = [
    Broken("empty", "", 1, 1, "there is no spec here"),
    Broken("no agents", "{}\n", 1, 1, "'agents' is missing"),
    Broken("agents empty", "agents: []\n", 1, 9, "'agents' must hold at least one agent"),
    Broken("an agent a string", "agents:\n  - clerk\n", 2, 5, "must be a mapping, got the text 'clerk'"),
    Broken(
        "id a boolean", "agents:\n  - id: on\n    model: rehearsal\n", 2, 9, "got on, which YAML reads as true or false"
    ),
    Broken("id with space", "agents:\n  - id: ' a'\n    model: rehearsal\n", 2, 9, "without edges of space; got ' a'"),
    Broken("nobody's model", "agents:\n  - {id: a, model: zephyr}\n", 2, 20, "no provider for 'zephyr'; add provider"),
    Broken("another provider", "agents:\n  - {id: a, provider: zephyr, model: m}\n", 2, 23, "provider: openai with"),
    Broken("provider twice", "agents:\n  - {id: a, provider: openai, model: openai:m}\n", 2, 38, "write model: m"),
    Broken(
        "prompt nothing",
        AGENT + "    system_prompt:\n",
        4,
        19,
        "'system_prompt' must be text, 'file: FILE', or 'name: NAME' of a registered function, got nothing",
    ),
    Broken(
        "prompt a list",
        AGENT + "    system_prompt: [a]\n",
        4,
        20,
        "must be text, 'file: FILE', or 'name: NAME' of a registered function, got a list",
    ),
    Broken("limit a boolean", AGENT + "    max_turns: yes\n", 4, 16, "must be a whole number, got yes"),
    Broken("setting not finite", AGENT + "    settings: {temperature: .nan}\n", 4, 29, ".nan is not a finite number"),
    Broken(
        "choice of no tool", AGENT + "    settings: {tool_choice: find}\n", 4, 29, "must be one of auto, none, required"
    ),
    Broken("choice without tools", AGENT + "    settings: {tool_choice: required}\n", 4, 29, "the agent has no tools"),
    Broken("unknown tool", AGENT + "    tools: [web_serch]\n", 4, 13, "did you mean 'web_search'?"),
    Broken("unknown tool by name", AGENT + "    tools:\n      - name: find\n", 5, 9, "no tool 'find' is registered"),
    Broken(
        "tool a number",
        AGENT + "    tools: [3]\n",
        4,
        13,
        "must be a tool's name, or a mapping with 'name: NAME', got 3",
    ),
    Broken(
        "key of others",
        AGENT + "    instructions: Help.\n",
        4,
        5,
        "has no key 'instructions'. Did you mean 'system_prompt'?",
    ),
    Broken(
        "name as id", "agents:\n  - name: ada\n    model: rehearsal\n", 2, 5, "has no key 'name'. Did you mean 'id'?"
    ),
    Broken("tool with more", AGENT + "    tools: [{name: web_search, x: 1}]\n", 4, 32, "a tool has no key 'x'"),
    Broken("criteria", AGENT + "    criteria: [{type: keyword}]\n", 4, 16, "'criteria[0].keyword' is missing"),
    Broken(
        "workflows",
        AGENT + "workflows: [{id: x}]\n",
        4,
        13,
        "workflow 'x': 'workflows[0]' must be a mapping with 'type'",
    ),
    Broken("control character", "agents:\n  - id: a\x07b\n", 2, 10, "the character U+0007 is not allowed"),
    Broken("python tag", "agents: !!python/name:os.system x\n", 1, 9, "the tag !!python/name:os.system is not allowed"),
    Broken("own tag", "agents: !env KEY\n", 1, 9, "the tag !env is not allowed"),
    Broken("endless alias", "agents: &a [*a]\n", 1, 13, "would never end"),
    Broken("false tag", AGENT + "    max_turns: !!int x\n", 4, 16, "'x' is not what its tag says"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=[broken.name for broken in BROKEN])
def test_a_broken_spec_is_told_with_its_place(broken: Broken) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec_text(broken.text, tools={"web_search": web_search})

    lines = str(caught.value).splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"<text>:{broken.line}:{broken.column}: "), lines
    assert broken.says in lines[0]


def test_all_problems_are_told_at_once_in_the_order_of_the_text() -> None:
    text = """\
agents:
  - id: clerk
    model: rehearsal
    tools: [nothing]
    max_turns: 0
  - id: clerk
    provider: opnai
    colour: red
    colour: blue
workflows: [{}]
"""

    with pytest.raises(SpecError) as caught:
        load_spec_text(text)

    places = [re.match(r"<text>:(\d+):(\d+): ", line) for line in str(caught.value).splitlines()]
    assert [place and (int(place[1]), int(place[2])) for place in places] == [
        (4, 13),
        (5, 16),
        (6, 9),
        (7, 15),
        (8, 5),
        (9, 5),
        (10, 13),
    ]


def test_aliases_that_expand_without_end_are_refused() -> None:
    levels = [f"    k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 10)}]" for n in range(1, 10)]
    text = AGENT + "    k0: &k0 [x]\n" + "\n".join(levels)

    with pytest.raises(SpecError, match="aliases expanded"):
        load_spec_text(text)


@pytest.mark.parametrize("value", ["!!int", "!!int ''", "!!int _", "!!float ''", "!!bool ''"])
def test_a_tag_whose_value_is_no_such_thing_is_told(value: str) -> None:
    with pytest.raises(SpecError, match=r"<text>:1:4: '_?' is not what its tag says"):
        load_spec_text(f"a: {value}\n")


@given(
    cut=st.integers(0, 200),
    drop=st.integers(0, 40),
    put=st.lists(st.sampled_from([*"\t\n -[]{}:'\"&*!|>?%@#,~", "&a", "*a", "!!int ", "<<: ", "---\n", "é", "\x00"])),
)
@example(cut=0, drop=200, put=["\x00"])
def test_whatever_the_text_is_nothing_but_a_spec_error_is_raised(cut: int, drop: int, put: list[str]) -> None:
    text = AGENT + "    settings: {stop: [END], extra: {a: 1.5}}\n    tools: [{name: web_search}]\n"
    text = text[:cut] + "".join(put) + text[cut + drop :]

    try:
        load_spec_text(text, tools={"web_search": web_search})
    except SpecError as error:
        for line in str(error).splitlines():
            assert re.match(r"<text>:\d+:\d+: \S", line)


def test_the_error_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(AGENT + "    max_turns: 0\n")

    with pytest.raises(SpecError) as caught:
        load_spec(file)

    assert str(caught.value) == f"{file}:4:16: agent 'clerk': 'max_turns' must be at least 1, got 0"


def test_a_missing_file_suggests_the_near_one(tmp_path: Path) -> None:
    (tmp_path / "newsroom.yaml").write_text(AGENT)

    with pytest.raises(SpecError, match="there is no such file; did you mean 'newsroom.yaml'"):
        load_spec(tmp_path / "newsrom.yaml")


def test_a_folder_is_no_spec(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="this is a folder; expected a YAML file"):
        load_spec(tmp_path)


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as stream:
        stream.truncate(2**33)

    with pytest.raises(SpecError, match="too large; expected at most 5,000,000 bytes"):
        load_spec(file)


def test_bytes_that_are_no_utf8_have_a_place(tmp_path: Path) -> None:
    file = tmp_path / "latin.yaml"
    file.write_bytes("agents:\n  - id: café\n".encode("latin-1"))

    with pytest.raises(SpecError, match=r"latin\.yaml:2:12: byte 0xe9 is not UTF-8"):
        load_spec(file)


def test_a_key_in_the_wrong_place_is_not_in_the_error_text() -> None:
    with pytest.raises(SpecError) as caught:
        load_spec_text(AGENT + "    api_key: sk-secret\n")

    assert "sk-secret" not in str(caught.value)
    assert "no key 'api_key'" in str(caught.value)


def test_a_list_of_what_there_is_leaves_out_what_has_no_name() -> None:
    with pytest.raises(SpecError) as caught:
        load_spec_text("agents: [{id: a, model: rehearsal, sub_agents: [zz]}, {model: rehearsal}]")

    assert "'zz' is defined nowhere in this spec; there are a\n" in str(caught.value)
