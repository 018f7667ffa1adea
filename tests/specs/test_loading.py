"""A spec makes the agents that Python code would have made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import understudy as us
from tests.support.spec_objects import web_search
from understudy import (
    Agent,
    LoadedSpec,
    ParallelAgent,
    SequentialAgent,
    Settings,
    SpecError,
    SpecLoader,
    Task,
    Workflow,
    load_spec,
    load_spec_text,
)
from understudy.orchestration import Runner
from understudy.specs import load_tool_file
from understudy.vocabulary.tools.toolset import ToolSource

FULL = """\
agents:
  - id: clerk
    provider: anthropic
    model: claude-haiku-4-5
    system_prompt: |
      You answer stock questions.
    description: Answers questions about stock.
    tools:
      - web_search
    settings:
      temperature: 0
      max_tokens: 500
      stop: [END]
      tool_choice: web_search
      extra: {metadata: {user_id: u-1}}
    max_iterations: 5
    max_turns: 7
    memory:
    criteria: []
    callbacks: []
workflows: []
"""


def test_a_spec_makes_the_agent_that_python_makes() -> None:
    made = load_spec_text(FULL, tools={"web_search": web_search}).agent("clerk")

    same = Agent(
        "clerk",
        model="anthropic:claude-haiku-4-5",
        system_prompt="You answer stock questions.\n",
        description="Answers questions about stock.",
        tools=[web_search],
        settings=Settings(
            temperature=0.0,
            max_tokens=500,
            stop=("END",),
            tool_choice="web_search",
            extra={"metadata": {"user_id": "u-1"}},
        ),
        max_iterations=5,
        max_turns=7,
    )
    assert made.tools == same.tools
    assert made.settings == same.settings
    assert (made.id, made.model, made.description) == (same.id, same.model, same.description)
    assert (made.max_iterations, made.max_turns) == (same.max_iterations, same.max_turns)
    assert made.run_spec.fingerprint() == same.run_spec.fingerprint()


def test_the_provider_may_stand_in_the_model() -> None:
    apart = load_spec_text("agents: [{id: a, provider: openai, model: 'ft:gpt-4o:acme'}]").agent("a")
    together = load_spec_text("agents: [{id: a, model: 'openai:ft:gpt-4o:acme'}]").agent("a")

    assert apart.model == together.model


def test_what_was_loaded_does_not_change() -> None:
    loaded = LoadedSpec("x", {"a": Agent("a", model="rehearsal")})

    assert not hasattr(loaded.runners, "__setitem__")


def test_each_kind_of_runner_has_its_finder() -> None:
    clerk = Agent("clerk", model="rehearsal")
    made: list[Runner[object]] = [
        clerk,
        SequentialAgent("line", [clerk]),
        ParallelAgent("panel", [clerk]),
        Workflow("graph", [Task("one", clerk)]),
    ]
    loaded = LoadedSpec("x.yaml", {one.id: one for one in made})

    assert [loaded.runner(one.id) for one in made] == made
    assert [
        loaded.agent("clerk"),
        loaded.sequential("line"),
        loaded.parallel("panel"),
        loaded.workflow("graph"),
    ] == made
    with pytest.raises(SpecError, match="x.yaml: no sequence 'panel'; it has line"):
        loaded.sequential("panel")
    with pytest.raises(
        SpecError, match="x.yaml: no runner 'lime'; it has clerk, line, panel, graph; did you mean 'line'"
    ):
        loaded.runner("lime")


def test_a_byte_order_mark_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("\ufeffagents: [{id: clerk, model: rehearsal}]", encoding="utf-8")

    assert load_spec(file).agent("clerk").id == "clerk"
    assert load_spec_text(file.read_text(encoding="utf-8")).agent("clerk").id == "clerk"


def test_agents_may_share_what_an_anchor_holds() -> None:
    loaded = load_spec_text(
        """
agents:
  - &clerk
    id: clerk
    model: rehearsal
    settings: &brief {max_tokens: 100}
    max_turns: 3
  - <<: *clerk
    id: boss
    max_turns: 4
  - {id: cook, model: rehearsal, settings: *brief}
"""
    )

    assert [(a.id, a.settings.max_tokens, a.max_turns) for a in loaded.agents.values()] == [
        ("clerk", 100, 3),
        ("boss", 100, 4),
        ("cook", 100, 50),
    ]


def test_a_tool_has_the_name_it_was_registered_under() -> None:
    def search(query: str) -> str:
        return query

    boss = us.SubAgent(Agent("boss", model="rehearsal"), description="Decides.", deny=["clerk"], timeout=3)
    loader = SpecLoader(tools={"find": search, "look": web_search, "ask": us.ask_user, "decide": boss})
    agent = loader.load_text(
        "agents: [{id: a, model: rehearsal, tools: [find, {name: look, approval: true}, ask, decide]}]"
    )
    find, look, ask = agent.agent("a").tools
    (decide,) = agent.agent("a").sub_agents

    assert [find.name, look.name, ask.name, decide.name] == ["find", "look", "ask", "decide"]
    assert look.approval is True and look.spec.description == web_search.spec.description
    assert agent.agent("a").run_spec.asks == {"ask"}
    assert (decide.deny, decide.timeout) == (("clerk",), 3)
    assert decide.spec.description == "Decides."
    assert web_search.name == "web_search"


def test_ask_user_needs_no_registration_and_gives_way_to_what_is_registered_by_its_name() -> None:
    spec = "agents: [{id: a, model: rehearsal, tools: [ask_user]}]"

    def ask_user(question: str) -> str:
        return question

    assert load_spec_text(spec).agent("a").tools == (us.ask_user,)
    assert load_spec_text(spec, tools={"ask_user": ask_user}).agent("a").tools[0]("x") == "x"
    with pytest.raises(
        SpecError, match=r"no tool 'ask_usr' is registered; registered: no tools; did you mean 'ask_user'\?"
    ):
        load_spec_text(spec.replace("user", "usr"))


def test_a_name_that_no_model_could_call_is_refused_when_a_tool_is_registered() -> None:
    with pytest.raises(ValueError, match="tool name 'web search': expected letters"):
        SpecLoader(tools={"web search": web_search})


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="already registered as 'find'"):
        SpecLoader(tools={"find": web_search}).register_tool("find", web_search)


def test_two_tools_that_the_model_could_not_tell_apart_are_refused() -> None:
    class Search(us.Toolset):
        @us.tool
        def web_search(self, query: str) -> str:
            return query

    tools: dict[str, ToolSource] = {"x": Search, "web_search": web_search}
    with pytest.raises(SpecError, match="<text>:1:47: agent 'a': two tools are named 'web_search'"):
        load_spec_text("agents: [{id: a, model: rehearsal, tools: [x, web_search]}]", tools=tools)


def test_tools_that_are_no_mapping_are_refused_with_what_was_expected() -> None:
    with pytest.raises(TypeError, match="tools must be a mapping of names to tools"):
        load_spec_text("agents: []", tools=[print])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_spec_names_tools_in_files_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("def find(word: str) -> str:\n    return word\n")
    spec = tmp_path / "shop.yaml"
    spec.write_text("agents: [{id: a, model: rehearsal, tools: ['tools.py:find']}]")

    agent = SpecLoader(tool_files=True).load_file(spec).agent("a")

    assert [tool.name for tool in agent.tools] == ["find"]


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("tools.py:fnd", "tools.py has no tool 'fnd'; it has find; did you mean 'find'?"),
        ("tools.py:loose", "'loose' in tools.py cannot be a tool: tool 'loose': parameter 'word' has no type"),
        ("gone.py:find", "there is no such file; expected a Python file with tools"),
        ("bad.py:find", "bad.py:2: ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_without_the_tool_is_told_at_its_place_in_the_spec(tmp_path: Path, reference: str, says: str) -> None:
    (tmp_path / "tools.py").write_text("def find(word: str) -> str:\n    return word\ndef loose(word): ...\n")
    (tmp_path / "bad.py").write_text("x = 0\nx = 1 / x\n")
    spec = tmp_path / "shop.yaml"
    spec.write_text(f"agents: [{{id: a, model: rehearsal, tools: ['{reference}']}}]")

    with pytest.raises(SpecError) as caught:
        SpecLoader(tool_files=True).load_file(spec)

    assert str(caught.value).startswith(f"{spec}:1:44: agent 'a': ")
    assert says in str(caught.value)


@pytest.mark.parametrize("way", ["../tools.py", "{folder}/tools.py", "link.py", "linked/tools.py"])
@pytest.mark.parametrize("runs", [True, []])
def test_no_file_outside_of_the_spec_s_folder_is_run_for_a_tool(
    tmp_path: Path, way: str, runs: bool | list[str]
) -> None:
    (tmp_path / "tools.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef find() -> int: return 1\n")
    folder = tmp_path / "specs"
    folder.mkdir()
    (folder / "link.py").symlink_to(tmp_path / "tools.py")
    (folder / "linked").symlink_to(tmp_path)
    spec = folder / "shop.yaml"
    spec.write_text(f"agents: [{{id: a, model: rehearsal, tools: ['{way.format(folder=tmp_path)}:find']}}]")

    with pytest.raises(SpecError, match=r"leads out of the folder of the spec|expected a file relative to the spec"):
        SpecLoader(tool_files=runs).load_file(spec)

    assert not (tmp_path / "ran").exists()


def test_of_a_list_of_files_only_these_are_run_and_the_tools_of_others_are_known_by_name(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("def find(word: str) -> str:\n    return word\n")
    (tmp_path / "more.py").write_text("raise RuntimeError('it was run')\n")
    spec = tmp_path / "shop.yaml"
    spec.write_text(
        "agents: [{id: a, model: rehearsal, settings: {tool_choice: later}, "
        "tools: ['tools.py:find', {name: 'more.py:pay', approval: true}, 'more.py:Shelf']}]"
    )

    loaded = SpecLoader(tool_files=[tmp_path / "tools.py"]).load_file(spec)

    find, pay, shelf = loaded.agent("a").tools
    assert [find.name, pay.name, pay.approval, shelf.name] == ["find", "pay", True, "Shelf"]
    assert loaded.not_loaded == ("more.py:pay", "more.py:Shelf")
    assert find("x") == "x"
    with pytest.raises(RuntimeError, match="the file of this tool was not run"):
        pay()


@pytest.mark.parametrize(
    ("reference", "says"),
    [("gone.py:find", "there is no such file"), ("tools.py:", "names no function: expected FILE.py:FUNCTION")],
)
def test_what_is_wrong_with_the_name_of_a_file_is_told_without_running_it(
    tmp_path: Path, reference: str, says: str
) -> None:
    (tmp_path / "tools.py").write_text("raise RuntimeError('it was run')\n")
    spec = tmp_path / "shop.yaml"
    spec.write_text(f"agents: [{{id: a, model: rehearsal, tools: ['{reference}']}}]")

    with pytest.raises(SpecError, match=says):
        SpecLoader(tool_files=[]).load_file(spec)


def test_a_tool_file_offers_its_tools_and_typed_functions(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def helper(x: int) -> int:\n    return x\n")
    file = tmp_path / "tools.py"
    file.write_text(
        "from __future__ import annotations\n"
        "import understudy as us\n"
        "from beside import helper\n"
        "from pathlib import Path\n"
        "@us.tool(name='find-it')\n"
        "def find(word: str) -> str: return word\n"
        "def count(words: list[str]) -> int: return helper(len(words))\n"
        "def loose(word): ...\n"
        "def _hidden(word: str) -> str: return word\n"
        "class Shelf: ...\n"
    )

    found = load_tool_file(file)

    assert list(found.tools) == ["find-it", "count"]
    assert list(found.unusable) == ["loose"]
    assert load_tool_file(file).tools["find-it"] is found.tools["find-it"]


def test_a_tool_file_offers_its_toolsets(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "import understudy as us\n"
        "from understudy import Toolset\n"
        "class Bare(Toolset): ...\n"
        "class Shelf(Toolset):\n"
        "    prefix = 'shelf_'\n"
        "    @us.tool\n"
        "    def count(self, sku: str) -> int: return 7\n"
        "store = Shelf()\n"
    )
    spec = tmp_path / "shop.yaml"
    spec.write_text("agents: [{id: a, model: rehearsal, tools: ['tools.py:Shelf']}]")

    found = load_tool_file(tmp_path / "tools.py")
    agent = SpecLoader(tool_files=True).load_file(spec).agent("a")

    assert list(found.tools) == ["Shelf", "store"]
    assert found.unusable == {"Bare": "toolset Bare has no tools; decorate those of its methods with @tool"}
    assert [tool.name for tool in agent.tools] == ["shelf_count"]


@pytest.mark.parametrize(
    "other", ["@us.tool(name='pay')\ndef two() -> int: return 2\n", "def pay() -> int: return 2\n"]
)
def test_two_tools_of_one_name_in_a_file_are_refused_for_neither_may_hide_the_other(tmp_path: Path, other: str) -> None:
    file = tmp_path / "tools.py"
    checked = "import understudy as us\n@us.tool(name='pay', approval=True)\ndef {}() -> int: return 1\n"
    file.write_text(checked.format("one") + other)

    with pytest.raises(SpecError, match="two tools are named 'pay'"):
        load_tool_file(file)


def test_a_tool_may_have_two_names_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("import understudy as us\n@us.tool\ndef pay() -> int: return 1\nagain = pay\n")

    assert list(load_tool_file(file).tools) == ["pay"]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def f(:\n", "tools.py:1: SyntaxError: "),
        ("import nowhere_at_all\n", "tools.py:1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("\nimport sys\nsys.exit(4)\n", "tools.py:3: SystemExit: 4"),
        ("def f():\n    raise KeyError('k')\nf()\n", "tools.py:2: KeyError: 'k'"),
    ],
)
def test_a_tool_file_that_raises_is_told_with_its_line(tmp_path: Path, code: str, says: str) -> None:
    file = tmp_path / "tools.py"
    file.write_text(code)

    with pytest.raises(SpecError) as caught:
        load_tool_file(file)

    assert says in str(caught.value)


def test_yaml_and_pydantic_are_loaded_by_the_first_spec() -> None:
    code = (
        "import sys, understudy as us; us.SpecLoader; us.load_spec; us.LoadedSpec\n"
        "print([n for n in ('yaml', 'pydantic') if n in sys.modules])\n"
        "us.load_spec_text('agents: [{id: a, model: rehearsal}]')\n"
        "print([n for n in ('yaml', 'pydantic') if n in sys.modules])"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert printed.stdout.splitlines() == ["[]", "['yaml', 'pydantic']"]
