"""Texts and files that were made to do harm: each is refused, or loaded, within the limits that specs have."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from understudy import LoadedSpec, SpecError, load_spec, load_spec_text
from understudy.specs.reading import document, files
from understudy.specs.reading.files import read_spec_files
from understudy.specs.reading.problems import MAX_MESSAGE, MAX_PROBLEMS

A = "agents:\n  - {id: a, model: rehearsal}\n"
LONG = 400_000
"""Characters. Of so many, what takes quadratic time does not end within the limit of a test; 5,000,000 tell no more."""


def graph(tasks: list[str]) -> str:
    """Return a spec of one workflow."""
    return (
        A + "workflows:\n  - id: w\n    type: workflow\n    tasks:\n" + "".join([f"      - {task}\n" for task in tasks])
    )


def needing(task: int, needs: range) -> str:
    return f"{{id: task{task}, agent: a, dependencies: [{', '.join([f'task{each}' for each in needs])}]}}"


def told(load: Callable[[], object]) -> list[str]:
    """Return the lines of the error, which is bounded whatever the spec was."""
    with pytest.raises(SpecError) as caught:
        load()
    lines = str(caught.value).split("\n")
    assert len(lines) <= MAX_PROBLEMS + 1
    assert all(len(line) < MAX_MESSAGE + 300 for line in lines)
    return lines


def filled(text: str, size: int) -> str:
    """Return a text of that many bytes."""
    return text + "#" * (size - len(text) - 1) + "\n"


BIG = "a" * LONG
BOMBS = {
    "aliases": "x0: &a0 [l, o, l]\n"
    + "".join([f"x{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)]),
    "merge keys": "x0: &m0 {a: 1, b: 2}\n"
    + "".join([f"x{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 20)}]}}\n" for n in range(1, 20)]),
    "one long text": f"x: &a {'a' * 200_000}\ny: [{'*a, ' * 200}]\n",
    "one long alias": f"x: &a [{'a, ' * 400}]\ny: [{'*a, ' * 400}]\n",
}
REFUSED = {
    "brackets": ("[" * LONG, "1:50: this is nested more than 50 levels deep"),
    "braces": ("{" * LONG, "1:50: this is nested more than 50 levels deep"),
    "dashes": ("- " * LONG, "1:99: this is nested more than 50 levels deep"),
    "mappings in one another": (
        "".join([f"{' ' * n}a:\n" for n in range(1_000)]),
        "50:50: this is nested more than 50",
    ),
    "inline workflows in one another": (
        A + "workflows:\n- " + "{id: w, type: parallel, steps: [" * 1_000 + "]}" * 1_000,
        "4:770: this is nested more than 50 levels deep",
    ),
    "a merge key that needs itself": ("x: &a\n  <<: [*a]\n", "2:8: the alias '*a' stands inside of what it stands for"),
    "a list of merges that needs itself": ("<<: &a [*a]\n", "1:9: the alias '*a' stands inside of what it stands for"),
    "a character that is none": ('a: "\\UFFFFFFFF"\n', "1:7: this cannot be read: "),
    "half a character": ('agents: [{id: "\\ud83d", model: rehearsal}]\n', "1:15: this has half a character"),
    "half a character in a key": ('"\\ud83d": 1\n', "1:1: a key cannot have half a character"),
    "a version with endless digits": (f"%YAML {'1' * 10_000}.1\n---\n{A}", "1:7: this cannot be read: "),
    "a number of a million digits": (f"{A}version: 0x{'f' * 1_000_000}\n", "3:10: '0xfff"),
    "a number of a million minutes": (f"{A}version: 1{':0' * 1_000_000}\n", "3:10: '1:0:0"),
    "a number that is no float": (f"{A}version: 1{':0' * 45}.0e\n", "3:10: 'version' must be 1, got the text"),
    "a number beyond JSON": (f"{A}x-a: 99999999999999999999\n", "3:6: '99999999999999999999' is too large a number"),
    "a null byte": (f"{A}x-a: a\0b\n", "3:7: the character U+0000 is not allowed"),
    "an escape": (f"{A}x-a: \x1b[31m\n", "3:6: the character U+001B is not allowed"),
    "a character after other line ends": ("a: 1\rb: 2\r\nc: \x07\n", "3:4: the character U+0007 is not allowed"),
    "a character after Unicode line ends": ("a: 1\u2028b: 2\x85c: \x07\n", "3:4: the character U+0007 is not allowed"),
    "a tab": ("agents:\n\t- {id: a, model: rehearsal}\n", "2:1: a tab cannot indent YAML"),
    "a long id": (f"agents: [{{id: {BIG}, model: rehearsal}}]\n", "1:15: agent 'aaa"),
    "a long tool": (f"agents: [{{id: a, model: rehearsal, tools: [{BIG}]}}]\n", "1:44: agent 'a': no tool 'aaa"),
    "a pattern of brackets": (
        f"agents: [{{id: a, model: rehearsal, output_schema: {{pattern: '{'(' * 3_000}a{')' * 3_000}'}}}}]\n",
        "1:51: agent 'a': 'output_schema': the schema has a pattern that is nested too deeply",
    ),
    "a long name": (
        f"agents: [{{id: a, model: rehearsal, system_prompt: {{name: {BIG}}}}}]\n",
        "1:58: agent 'a': no function 'aaa",
    ),
    "many names": (
        "memories:\n" + "".join([f"  m{n}: {{name: n{n}}}\n" for n in range(2_000)]) + A,
        "2:14: no memory 'n0' is registered",
    ),
    "many classes of errors": (
        f"agents: [{{id: a, model: rehearsal, restart_on: [{'RateLimted, ' * 10_000}]}}]\n",
        "1:49: agent 'a': no class of errors 'RateLimted' is built in or registered",
    ),
    "many dots in a logger": (
        f"agents: [{{id: a, model: rehearsal, callbacks: [{{type: logging, logger: {'a.' * LONG}a}}]}}]\n",
        "1:72: agent 'a': 'callbacks[0].logger' must be letters",
    ),
    "a long tag": (f"version: !{BIG} b\n", "1:10: the tag !aaa"),
}


def load_text(text: str) -> LoadedSpec:
    return load_spec_text(text)


@pytest.mark.parametrize("name", BOMBS)
def test_what_expands_without_end_is_refused(name: str) -> None:
    (line,) = told(lambda: load_text(BOMBS[name] + A))

    assert re.search("beyond (100,000 values|20,000,000 characters), aliases expanded", line)


def test_more_values_than_the_limit_are_refused_without_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_VALUES", 1_000)

    assert "beyond 1,000 values, aliases expanded" in told(lambda: load_text("agents:\n" + "- a\n" * 1_100))[0]


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_text_is_refused_with_its_place(name: str) -> None:
    text, begins = REFUSED[name]

    assert told(lambda: load_text(text))[0].startswith(f"<text>:{begins}")


def test_a_spec_may_have_as_many_bytes_as_the_limit_says_and_not_one_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (document, files):
        monkeypatch.setattr(module, "MAX_BYTES", 5_000)
    file = tmp_path / "large.yaml"
    file.write_text(filled(A, 5_000))
    assert list(load_spec(file).runners) == ["a"]
    assert list(load_text(filled(A, 5_000)).runners) == ["a"]

    file.write_text(filled(A, 5_001))
    assert told(lambda: load_spec(file)) == [f"{file}: the file is too large; expected at most 5,000 bytes"]
    assert told(lambda: load_text(filled(A, 5_001)))[0].startswith("<text>:1:1: the spec has 5,001 bytes")


def test_one_text_may_fill_a_spec() -> None:
    assert load_text(f"agents: [{{id: a, model: rehearsal, system_prompt: '{BIG}'}}]\n").agent("a").system_prompt == BIG


def test_a_chain_of_agents_longer_than_the_stack_loads() -> None:
    agents = [f"- {{id: a{n}, model: rehearsal, sub_agents: [{f'a{n - 1}' if n else ''}]}}\n" for n in range(1_200)]

    assert len(load_text("agents:\n" + "".join(reversed(agents))).runners) == 1_200


def test_a_workflow_that_stands_twice_in_the_next_does_not_take_twice_the_time() -> None:
    steps = [f"- {{id: w{n}, type: parallel, steps: [{{ref: w{n - 1}}}, {{ref: w{n - 1}}}]}}\n" for n in range(1, 60)]

    assert (
        len(load_text(A + "workflows:\n- {id: w0, type: parallel, steps: [{ref: a}]}\n" + "".join(steps)).runners) == 61
    )


def test_a_chain_of_tasks_longer_than_the_stack_loads() -> None:
    tasks = [needing(n, range(max(0, n - 1), n)) for n in range(1_200)]

    loaded = load_text(graph(tasks[::-1]))

    assert len(loaded.workflow("w").tasks) == 1_200


def test_tasks_that_are_fully_joined_load_up_to_the_limit_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_VALUES", 10_000)

    assert len(load_text(graph([needing(n, range(n)) for n in range(120)])).workflow("w").tasks) == 120
    assert "beyond 10,000 values" in told(lambda: load_text(graph([needing(n, range(n)) for n in range(150)])))[0]


def test_a_prompt_may_have_thousands_of_references() -> None:
    names = [f"p{n}" for n in range(20_000)]

    loaded = load_text(graph([f"{{id: t, agent: a, prompt: '{' '.join([f'${{{name}}}' for name in names])}'}}"]))

    assert loaded.workflow("w").parameters == set(names)


def test_a_condition_with_a_long_gap_is_read() -> None:
    gap = " " * 200_000

    loaded = load_text(
        graph(["{id: s, agent: a}", f"{{id: t, agent: a, dependencies: [s], when: '${{s}} == a{gap}b'}}"])
    )

    assert loaded.workflow("w").tasks[1].when == f"${{s}} == a{gap}b"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (A + "x-a: 1\n" * 500, "the key 'x-a' stands twice"),
        (A + "".join([f"k{n}: 1\n" for n in range(500)]), "a spec has no key 'k0'"),
        ("agents:\n" + "- {id: a, model: rehearsal}\n" * 500, "this id stands twice"),
        (
            "agents:\n" + "".join([f"- {{id: a{n}, model: rehearsal, sub_agents: [b{n}]}}\n" for n in range(500)]),
            "nowhere",
        ),
        ("agents:\n" + "".join([f"- {{id: a{n}, model: 'opnai:m{n}'}}\n" for n in range(500)]), "did you mean"),
        (
            f"agents: [{{id: a, model: rehearsal, tools: [{', '.join([f't{n}' for n in range(500)])}]}}]",
            "no tool 't0'",
        ),
        (graph([needing(n, range(n + 20_000, n + 20_001)) for n in range(500)]), "which is no task"),
        (graph([f"{{id: t{n}, agent: a, prompt: '${{t{n - 1}}}'}}" for n in range(500)]), "none of its dependencies"),
    ],
    ids=["keys twice", "unknown keys", "ids twice", "references", "models", "tools", "dependencies", "prompts"],
)
def test_mistakes_by_the_hundred_are_told_up_to_a_limit(text: str, says: str) -> None:
    lines = told(lambda: load_text(text))

    assert len(lines) == MAX_PROBLEMS + 1
    assert says in lines[0]
    assert lines[-1] == f"… and more: only the first {MAX_PROBLEMS} problems are told"


def test_a_long_circle_is_told_in_short() -> None:
    agents = [f"- {{id: a{n}, model: rehearsal, sub_agents: [a{(n + 1) % 1_200}]}}\n" for n in range(1_200)]
    tasks = [needing(n, range(n + 1, n + 2) if n < 1_199 else range(1)) for n in range(1_200)]

    for text in ("agents:\n" + "".join(agents), graph(tasks)):
        (line,) = told(partial(load_text, text))
        assert " -> … -> " in line
        assert len(line) < 400


@pytest.mark.parametrize("id", ["clerk😀", "كاتب", "e\u0301", "a\u200db", "书记"])
def test_an_id_may_be_in_any_script(id: str) -> None:
    loaded = load_text(
        f"agents: [{{id: '{id}', model: rehearsal}}]\nworkflows: [{{id: w, type: sequential, steps: [{{ref: '{id}'}}]}}]"
    )

    assert list(loaded.runners) == [id, "w"]


def test_what_would_turn_a_line_around_is_shown_as_an_escape() -> None:
    (line,) = told(lambda: load_text("agents: [{id: a, model: rehearsal, sub_agents: ['a\u202eb']}]"))

    assert "'a\\u202eb' is defined nowhere" in line


@pytest.mark.parametrize(("mark", "code"), [(codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")])
def test_other_encodings_are_refused(tmp_path: Path, mark: bytes, code: str) -> None:
    file = tmp_path / "wide.yaml"
    file.write_bytes(mark + A.encode(code))

    assert told(lambda: load_spec(file))[0].endswith("is not UTF-8; save the file as UTF-8")


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "out.yaml").symlink_to(tmp_path.parent / "elsewhere.yaml")
    (tmp_path / "folder.yaml").mkdir()
    names = ("pipe.yaml", "zero.yaml", "out.yaml", "folder.yaml")
    spec = tmp_path / "spec.yaml"

    spec.write_text(f"include: [{', '.join(names)}]\n{A}")
    included = told(lambda: load_spec(spec))
    agents = [f"- {{id: a{n}, model: rehearsal, system_prompt: {{file: {name}}}}}\n" for n, name in enumerate(names)]
    spec.write_text("agents:\n" + "".join(agents))
    prompts = told(lambda: load_spec(spec))

    for lines in (included, prompts):
        for line, says in zip(
            lines, ("no plain file", "leads out of", "leads out of", "this is a folder"), strict=True
        ):
            assert says in line


def test_a_file_that_includes_itself_is_told_by_any_of_its_names(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    (tmp_path / "other.yaml").symlink_to(spec)
    spec.write_text(f"include: [spec.yaml, ./spec.yaml, other.yaml]\n{A}")

    lines = told(lambda: load_spec(spec))

    assert [line.partition(": ")[2] for line in lines] == ["this file includes itself: spec.yaml -> spec.yaml"] * 3


def test_more_files_than_the_limit_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 50)
    for n in range(200):
        (tmp_path / f"f{n}.yaml").write_text(f"include: [f{n + 1}.yaml]\n")
    spec = tmp_path / "spec.yaml"

    spec.write_text(f"include: [f0.yaml]\n{A}")
    in_a_chain = read_spec_files(spec, {})
    spec.write_text(f"include: [{', '.join([f'f{n}.yaml' for n in range(0, 200, 2)])}]\n{A}")
    side_by_side = read_spec_files(spec, {})

    assert len(in_a_chain.documents) == len(side_by_side.documents) == 50


def test_files_that_hold_too_much_together_are_not_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (document, files):
        monkeypatch.setattr(module, "MAX_VALUES", 10_000)
    for n in range(6):
        (tmp_path / f"f{n}.yaml").write_text(f"x-a: &a [{'a, ' * 80}]\nx-b: [{'*a, ' * 50}]\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"include: [{', '.join([f'f{n}.yaml' for n in range(6)])}]\n{A}")

    (line,) = told(lambda: load_spec(spec))

    assert (
        line
        == f"{spec}:1:38: a spec is at most 1,000 files with 10,000 values together; from here on nothing more is included"
    )


def test_a_prompt_file_is_kept_once_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("p" * 100)
    agents = [f"- {{id: a{n}, model: rehearsal, system_prompt: {{file: {'./' * n}prompt.md}}}}\n" for n in range(10)]
    (tmp_path / "spec.yaml").write_text("agents:\n" + "".join(agents))

    loaded = load_spec(tmp_path / "spec.yaml")

    assert len({id(agent.system_prompt) for agent in loaded.agents.values()}) == 1
