"""`run` and `resume` of sequences, parallel groups and workflows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import understudy as us
from tests.support.commands import report_of, resume_made, run_made
from tests.support.tapes import lines_of
from understudy.commandline.report import UsageMistake
from understudy.testing import FunctionModel, ScriptedModel, calls, says

STORE = ("--store", "sqlite:///shop.db")


@pytest.fixture(autouse=True)
def offline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_OFFLINE", "1")


def look(word: str) -> str:
    """Look a word up."""
    return f"saw {word}"


@us.tool(approval=True)
def refund(order: str) -> str:
    """Pay back."""
    return f"paid {order}"


def echo(id: str) -> us.Agent:
    """Make an agent that repeats what it is told, after its id."""
    return us.Agent(id, model=FunctionModel(lambda request: says(f"{id}({request.messages[-1].text})")))


def asking(id: str) -> us.Agent:
    """Make an agent that asks who, and then answers with the answer."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says("__ask_user__: who?" if request.turn == 1 else f"{id} heard {request.messages[-1].text}")

    return us.Agent(id, model=FunctionModel(answer))


REHEARSED = us.SequentialAgent(
    "report",
    [
        us.ParallelAgent(
            "panel", [us.Agent("a", model="openai:gpt-4o", tools=[look]), us.Agent("b", model="openai:o3")]
        ),
        us.Agent(
            "lead", model="anthropic:claude-haiku-4-5", sub_agents=[us.Agent("help", model="gemini:gemini-2.5-pro")]
        ),
    ],
)


def test_all_agents_inside_are_rehearsed_and_shown_with_the_way_to_them(capsys: pytest.CaptureFixture[str]) -> None:
    status = run_made(REHEARSED, "hello", "--rehearse")

    out, err = capsys.readouterr()
    lines = re.sub(r"\d+\.\d\d s", "TIME", err).splitlines()
    assert status == 0
    assert "- help(input='text') gave: (rehearsal) You said: text" in out
    assert lines[0] == (
        "rehearsal: the tools really run, a stand-in answers for "
        "anthropic:claude-haiku-4-5, openai:gpt-4o, openai:o3, gemini:gemini-2.5-pro"
    )
    for line in (
        "report: panel begins",
        "report > panel > a: call look(word='text')",
        "report > panel > a: look gave, after TIME: saw text",
        "report > panel: b gave, after TIME: (rehearsal) You said: hello",
        "report > lead: call help(input='text')",
        "report > lead > help: turn 1: asking the model",
        "report > lead: help gave, after TIME: (rehearsal) You said: text",
    ):
        assert line in lines


def test_all_agents_inside_are_recorded_and_replayed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    helper = us.Agent("help", model=ScriptedModel([says("helped")]))
    lead = us.Agent("lead", model=ScriptedModel([calls("help", input="x"), says("done")]), sub_agents=[helper])
    group = us.SequentialAgent("s", [echo("a"), lead], pass_output=True)

    assert run_made(group, "hello", "--record", "tape.jsonl") == 0
    assert len(lines_of(folder / "tape.jsonl")) == 4
    capsys.readouterr()

    assert run_made(group, "hello", "--replay", "tape.jsonl") == 0
    out, err = capsys.readouterr()
    assert out == "done\n"
    assert "replayed 4 of 4 model calls in tape.jsonl" in err.splitlines()


def test_a_groups_report_tells_of_its_children_and_of_calls_inside(capsys: pytest.CaptureFixture[str]) -> None:
    panel = us.ParallelAgent("panel", [us.Agent("a", model="rehearsal", tools=[look]), echo("b")])

    assert run_made(panel, "hello", "--json") == 0

    report = report_of(capsys)
    children = {child["path"][-1]: child for child in report["children"]}
    assert json.loads(report["combined_text"]) == [children["a"]["text"], "b(hello)"]
    assert [child.pop("run_id") != "" for child in report["children"]] == [True, True]
    assert children["b"] == {"path": ["panel", "b"], "status": "complete", "text": "b(hello)"}
    assert report["tool_calls"] == [
        {"name": "look", "arguments": {"word": "text"}, "result": "saw text", "is_error": False, "path": ["panel", "a"]}
    ]
    assert report["text"] == "b(hello)"
    assert set(report["usage"]) == {"input_tokens", "output_tokens", "total_tokens"}


# --- workflows


def brief(prompt: str = "On ${topic}") -> us.Workflow:
    return us.Workflow(
        "brief",
        [
            us.Task("fetch", echo("a"), prompt=prompt),
            us.Task("write", echo("b"), prompt="${fetch}", dependencies=["fetch"]),
        ],
    )


def test_a_workflow_takes_its_parameters_and_needs_no_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_made(brief(), "--set", "topic=tides = waves") == 0

    out, err = capsys.readouterr()
    assert out == "b(a(On tides = waves))\n"
    assert "brief: task fetch (a) begins" in err.splitlines()


def test_a_parameter_may_be_json(capsys: pytest.CaptureFixture[str]) -> None:
    flow = us.Workflow("each", [us.Task("one", echo("a"), prompt="${item}", for_each="${list}")])

    assert run_made(flow, "--set", 'list:=["x", "y"]', "--json") == 0

    report = report_of(capsys)
    assert report["tasks"]["one"] == {"status": "done", "text": '["a(x)", "a(y)"]', "reason": "", "attempts": 2}
    assert [child["task"] for child in report["children"]] == ["one", "one"]


@pytest.mark.parametrize(
    ("flow", "words", "says_"),
    [
        (brief(), (), "missing parameter 'topic'\n"),
        (brief(), ("--set", "topc=x"), "missing parameter 'topic'. You gave 'topc'. Did you mean 'topic'?"),
        (brief(), ("--set", "topic=x", "--set", "tone=y"), "--set NAME=VALUE gives a parameter; it needs topic"),
        (brief(), ("--set", "topic=x", "--set", "topic=y"), "'topic' is set twice"),
        (brief(), ("--set", "topic"), "expected NAME=VALUE, or NAME:=JSON"),
        (brief(), ("--set", "topic:=[1"), "what follows ':=' is no JSON"),
        (brief(), ("--set", "topic:=1e999"), "what follows ':=' is no JSON: 1e999 is a number out of range"),
        (brief(), ("--set", "topic:=[NaN]"), "what follows ':=' is no JSON: NaN is not JSON"),
        (brief(), ("--set", "topic:=-Infinity"), "what follows ':=' is no JSON: -Infinity is not JSON"),
        (brief(), ("--set", "topic:=" + "9" * 5000), "what follows ':=' is no JSON"),
        (brief(), ("--set", "topic:=" + "[" * 5000 + "]" * 5000), "what follows ':=' is no"),
        (brief(), ("--set", "topic:=" + "[" * 200 + "]" * 200), "nested more than 100 deep"),
        (brief("${input}"), (), "INPUT, for 'brief' to answer; its prompts refer to ${input}"),
        (us.SequentialAgent("s", [echo("a")]), (), "required: INPUT, for 's' to answer"),
        (us.SequentialAgent("s", [echo("a")]), ("x", "--set", "topic=x"), "'s' is no workflow"),
    ],
)
def test_what_does_not_fit_the_runner_is_a_mistake_of_the_users(
    flow: us.Runner[object], words: tuple[str, ...], says_: str
) -> None:
    with pytest.raises(UsageMistake, match=re.escape(says_)):
        run_made(flow, *words)


def test_a_workflow_with_a_failed_task_says_so_and_begins_it_anew(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel([us.RateLimited("slow down"), says("fetched")])
    flow = us.Workflow("brief", [us.Task("fetch", us.Agent("a", model=model), prompt="x"), us.Task("other", echo("b"))])

    assert run_made(flow, "go", *STORE) == 1
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert "  task fetch failed: RateLimited: slow down" in lines
    told = lines[-1].removeprefix("Go on with: understudy resume ")
    assert out == "b(go)\n"

    token, file, *rest = shlex.split(told)
    assert file == "made.yaml"
    assert resume_made(flow, token, *rest, "--json") == 0
    assert report_of(capsys)["tasks"]["fetch"]["text"] == "fetched"


# --- pauses


def waiting() -> us.ParallelAgent:
    cashier = us.Agent("cashier", model=ScriptedModel([calls("refund", order="7"), says("paid")]), tools=[refund])
    return us.ParallelAgent("desk", [asking("clerk"), us.SequentialAgent("till", [cashier]), asking("porter")])


def test_a_run_that_waits_for_several_things_says_for_which_and_what_to_type(
    capsys: pytest.CaptureFixture[str],
) -> None:
    desk = waiting()

    assert run_made(desk, "go", *STORE, "--json") == 3
    report = report_of(capsys)
    paths = [pause["path"] for pause in report["pauses"]]
    assert paths == [["desk", "clerk"], ["desk", "till", "cashier"], ["desk", "porter"]]
    assert report["pauses"][0]["question"] == "who?"
    assert [call["name"] for call in report["pauses"][1]["calls"]] == ["refund"]


def test_several_pauses_are_answered_one_by_one_or_together(capsys: pytest.CaptureFixture[str]) -> None:
    desk = waiting()
    assert run_made(desk, "go", *STORE) == 3
    lines = capsys.readouterr().err.splitlines()
    at = lines.index("understudy: the run waits for 3 things")
    assert [line for line in lines[at + 1 : -2] if not line.startswith("    ")] == [
        "  desk > clerk: an answer to: who?",
        "  desk > till > cashier: an approval of refund(order='7')",
        "  desk > porter: an answer to: who?",
    ]
    ids = [shlex.split(line)[1] for line in lines if line.startswith("    --pause ")]
    token = shlex.split(lines[-1].removeprefix("Go on with: understudy resume "))[0]

    assert lines[-1].endswith(
        f'--pause {ids[0]} --answer "TEXT" --pause {ids[1]} --approve --pause {ids[2]} --answer "TEXT"'
    )
    assert resume_made(desk, token, *STORE, "--pause", ids[0], "--answer", "Ada", "--pause", ids[1], "--approve") == 3

    *progress, why, how = capsys.readouterr().err.splitlines()
    assert "desk > clerk: turn 2: asking the model" in progress
    assert "desk > till > cashier: call refund(order='7')" in progress
    assert "desk: porter begins" not in progress
    assert why == "understudy: the run waits, in desk > porter, for an answer to: who?"
    token = shlex.split(how.removeprefix("Go on with: understudy resume "))[0]
    assert resume_made(desk, token, *STORE, "--answer", "Bea", "--json") == 0
    assert json.loads(report_of(capsys)["combined_text"]) == ["clerk heard Ada", "paid", "porter heard Bea"]


def test_the_report_of_a_group_that_goes_on_has_its_children_and_calls_since(
    capsys: pytest.CaptureFixture[str],
) -> None:
    desk = waiting()
    assert run_made(desk, "go", *STORE, "--json") == 3
    first = report_of(capsys)
    pauses = [pause["id"] for pause in first["pauses"]]

    words = ("--pause", pauses[0], "--answer", "Ada", "--pause", pauses[1], "--reject", "no")
    assert resume_made(desk, first["token"], *STORE, *words, "--json") == 3

    report = report_of(capsys)
    assert [(call["path"], call["result"]) for call in report["tool_calls"]] == [
        (["desk", "till", "cashier"], "Rejected: no")
    ]
    assert {tuple(child["path"]): child["status"] for child in report["children"]} == {
        ("desk", "clerk"): "complete",
        ("desk", "till"): "complete",
        ("desk", "till", "cashier"): "complete",
    }


@pytest.mark.parametrize(
    ("words", "says_"),
    [
        (("--answer", "Ada"), "got a text, and 2 questions were asked"),
        (("--pause", "nothing", "--answer", "Ada"), "nothing waits under the id 'nothing'"),
    ],
)
def test_an_answer_that_says_not_for_what_leaves_the_token(
    words: tuple[str, ...], says_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = waiting()
    assert run_made(desk, "go", *STORE, "--json") == 3
    report = report_of(capsys)

    assert resume_made(desk, report["token"], *STORE, *words) == 2
    assert says_ in capsys.readouterr().err
    first = report["pauses"][0]["id"]
    assert resume_made(desk, report["token"], *STORE, "--pause", first, "--answer", "Ada") == 3


def test_two_answers_for_one_pause_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        resume_made(waiting(), "token", "--pause", "p", "--answer", "Ada", "--pause", "p", "--approve")

    assert "argument --approve: not allowed with argument --answer" in capsys.readouterr().err


def test_a_group_all_of_whose_children_failed_names_the_causes(capsys: pytest.CaptureFixture[str]) -> None:
    def failing(id: str) -> us.Agent:
        return us.Agent(id, model=ScriptedModel([us.BadReply(f"{id} is lost")]))

    assert run_made(us.ParallelAgent("p", [failing("a"), failing("b")], merge="first"), "go") == 1

    err = capsys.readouterr().err
    assert "BadReply: a is lost" in err
    assert "BadReply: b is lost" in err
    assert "Traceback" not in err
