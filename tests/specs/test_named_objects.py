"""Objects of the program that a spec names: where they come from, and that they do in a spec what they do in Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

import understudy as us
from tests.support.paths import ROOT
from tests.support.spec_objects import ShopError
from understudy.cli import main
from understudy.specs import load_tool_file, spec_schema
from understudy.testing import ScriptedModel
from understudy.vocabulary.answers.json_schema import misfits

SPEC = """\
memories:
  shared: {name: store}
agents:
  - id: sorter
    model: {name: first}
    system_prompt: {name: greeting}
    callbacks: [{type: input_guardrail, check: no_shouting}]
    memory: shared
  - id: writer
    model: {name: second}
    callbacks: [{type: output_guardrail, check: no_shouting, name: calm, retry: true}]
    restart_on: [ShopError, TimeoutError, RateLimited]
    output_type: Verdict
workflows:
  - id: desk
    type: workflow
    tasks:
      - {id: sort, agent: sorter}
      - {id: write, agent: writer, dependencies: [sort], when: {name: is_mail}, until: {name: is_long}}
supervisors:
  - {id: watch, children: [sorter, writer], decider: judge}
"""


class TimeoutError(Exception):  # named like Python's on purpose
    pass


class Store(us.InMemoryMemory):
    pass


def greeting(context: us.RunContext) -> str:
    return f"You sort: {context.input}"


def no_shouting(context: us.RunContext, text: str) -> str | None:
    return "do not shout" if text.isupper() else None


def is_mail(results: Mapping[str, us.TaskResult]) -> bool:
    return results["sort"].text == "mail"


def is_long(text: str) -> bool:
    return len(text) > 3


def judge(error: BaseException) -> us.Directive:
    return "escalate"


def objects(*said: str, then: tuple[str, ...] = ()) -> dict[str, object]:
    functions = (greeting, no_shouting, is_mail, is_long, judge, ShopError, TimeoutError)
    return {
        **{each.__name__: each for each in functions},
        "Verdict": list[int],
        "store": Store(),
        "first": ScriptedModel([us.says(text) for text in said]),
        "second": ScriptedModel([us.says(text) for text in then]),
    }


def test_functions_of_a_spec_decide_as_those_of_python_do() -> None:
    given = objects("mail", then=("NO", "[1]", "[1, 2]"))
    desk = us.load_spec_text(SPEC, objects=given).workflow("desk")

    outcome = desk.run("a letter", conversation_id="c-1")

    first = given["first"]
    assert isinstance(first, ScriptedModel)
    assert first.requests[0].system == "You sort: a letter"
    assert outcome.text == "[1, 2]"


def test_a_task_whose_function_says_no_is_skipped() -> None:
    desk = us.load_spec_text(SPEC, objects=objects("spam")).workflow("desk")

    outcome = desk.run("a letter", conversation_id="c-1")

    assert outcome.tasks["write"].status == "skipped"


def test_a_guardrail_of_a_spec_ends_a_run_by_the_name_of_its_check() -> None:
    sorter = us.load_spec_text(SPEC, objects=objects("mail")).agent("sorter")

    with pytest.raises(us.CallbackAbort, match="do not shout") as caught:
        sorter.run("A LETTER", conversation_id="c-1")

    assert caught.value.callback == "no_shouting"


def test_a_registered_class_of_errors_goes_before_one_that_is_built_in() -> None:
    loaded = us.load_spec_text(SPEC, objects=objects())

    assert loaded.agent("writer").restart_on == (ShopError, TimeoutError, us.RateLimited)
    assert loaded.supervisor("watch").strategy.decider is judge


def test_nothing_that_is_named_is_called_when_a_spec_is_loaded() -> None:
    def explodes(*given: object) -> str:
        raise AssertionError(f"called with {given}")

    given = {**objects(), **dict.fromkeys(["greeting", "no_shouting", "is_mail", "is_long", "judge"], explodes)}

    assert us.load_spec_text(SPEC, objects=given).agent("sorter").system_prompt is explodes


def test_a_name_leads_to_no_module_and_no_attribute() -> None:
    for name in ("os.system", "builtins.exec", "understudy.errors", "exec", "__import__", "greeting.__globals__"):
        text = f"agents: [{{id: a, model: rehearsal, system_prompt: {{name: {name}}}, restart_on: ['{name}']}}]"

        with pytest.raises(us.SpecError) as caught:
            us.load_spec_text(text, objects={"greeting": greeting})

        assert [line.split(": ")[2][:12] for line in str(caught.value).split("\n")] == ["no function ", "no class of "]


def test_an_object_is_registered_once_and_under_a_string() -> None:
    loader = us.SpecLoader().register_object("judge", judge)

    with pytest.raises(ValueError, match="an object is already registered as 'judge'"):
        loader.register_object("judge", greeting)
    with pytest.raises(TypeError, match="an object is registered under a string, got 7"):
        loader.register_object(7, judge)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="objects must be a mapping of names to objects"):
        us.SpecLoader(objects=[judge])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_the_schema_knows_objects_by_name() -> None:
    assert misfits(spec_schema())(yaml.safe_load(SPEC)) == []
    assert misfits(spec_schema())(yaml.safe_load(SPEC.replace("{name: is_mail}", "{nam: is_mail}"))) != []


FILE = """\
from http.client import HTTPException
from os import path, system
from pathlib import Path
from typing import Annotated, Literal, Optional
import json
import understudy as us
from understudy.testing import ScriptedModel

class ShopError(Exception): ...
class Verdict: ...
class Audit(us.AgentCallback): ...

LIMIT = 7
Answer = list[int]
class Proxy:
    def __getattr__(self, name): raise RuntimeError("there is no request")
request = Proxy()
store = us.InMemoryMemory()
audit = Audit()
done = us.KeywordCriteria("DONE")
played = ScriptedModel([us.says("mail")])

def decide(error): return "stop"
def greet(context: us.RunContext) -> str: return "Be brief."
def _hidden(error): return "stop"
@us.tool
def find(word: str) -> str: return word
"""


class Proxy:
    def __getattr__(self, name: str) -> object:
        raise RuntimeError("there is no request")

    def __call__(self, given: object) -> str:
        return ""

    @property
    def __signature__(self) -> object:
        raise RuntimeError("there is no request")


@pytest.mark.parametrize("place", ["model: {name: it}", "model: rehearsal, system_prompt: {name: it}"])
def test_an_object_that_refuses_to_be_looked_at_is_told_and_raises_nothing_else(place: str) -> None:
    with pytest.raises(us.SpecError, match="<text>:1:.*: agent 'a': 'it' must be an? .*, got an object of Proxy"):
        us.load_spec_text(f"agents: [{{id: a, {place}}}]", objects={"it": Proxy()})


@pytest.mark.parametrize("key", ["when", "until"])
def test_an_async_function_cannot_answer_for_a_task(key: str) -> None:
    async def later(given: object) -> bool:
        return False

    spec = f"""
agents: [{{id: a, model: rehearsal}}]
workflows: [{{id: w, type: workflow, tasks: [{{id: t, agent: a, {key}: {{name: later}}}}]}}]
"""
    with pytest.raises(
        us.SpecError, match="'later' must be a plain function of .*, not async def, got another function"
    ):
        us.load_spec_text(spec, objects={"later": later})


def test_a_function_that_cannot_be_asked_what_it_takes_may_be_named() -> None:
    class Native:
        __signature__ = "no signature"

        def __call__(self, given: object) -> str:
            return ""

    native = Native()
    loaded = us.load_spec_text("agents: [{id: a, model: rehearsal, system_prompt: {name: it}}]", objects={"it": native})

    assert loaded.agent("a").system_prompt is native


def test_a_file_offers_what_a_spec_may_name_and_not_what_it_imported(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text(FILE)

    found = load_tool_file(file)

    own = ["ShopError", "Verdict", "Audit", "Answer", "Proxy", "store", "audit", "done", "played", "decide", "greet"]
    assert list(found.objects) == ["HTTPException", *own]


def test_the_command_line_takes_objects_from_files_of_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    agent = {
        "id": "a",
        "model": {"name": "played"},
        "system_prompt": {"name": "greet"},
        "restart_on": ["ShopError", "HTTPException"],
        "callbacks": [{"name": "audit"}],
        "criteria": [{"name": "done"}, {"type": "keyword", "keyword": "mail"}],
        "memory": {"name": "store"},
    }
    desk = {"id": "desk", "children": ["a"], "decider": "decide"}
    (tmp_path / "shop.yaml").write_text(json.dumps({"agents": [agent], "supervisors": [desk]}))
    (tmp_path / "tools.py").write_text(FILE)
    (tmp_path / "more.py").write_text("def decide(one, too, many): ...\ndef greet(loose, too): ...\n")

    assert main(["check", "shop.yaml", "--tools", "tools.py", "--tools", "more.py"]) == 0
    assert main(["run", "shop.yaml", "a", "Hello", "--tools", "tools.py"]) == 0

    assert "mail" in capsys.readouterr().out


def test_the_command_line_tells_a_name_that_no_file_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(FILE)
    (tmp_path / "shop.yaml").write_text("agents: [{id: a, model: rehearsal, system_prompt: {name: gret}}]")

    assert main(["check", "shop.yaml", "--tools", "tools.py"]) == 2

    assert (
        "no function 'gret' is registered; registered: decide, greet; give more with --tools FILE.py; did you mean 'greet'?"
        in capsys.readouterr().err
    )


def test_the_example_of_the_docs_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "specs.md").read_text().partition("## What a spec may name")[2]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "desk.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    program = page.partition("```python\n")[2].partition("```")[0]

    made: dict[str, object] = {}
    exec(program, made)  # noqa: S102 (it is our own page)

    desk = made["desk"]
    assert isinstance(desk, us.Workflow)
    assert desk.run("Hello").text
