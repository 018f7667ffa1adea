"""Runs as text: what is kept, what is checked, and what must stay readable."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import understudy as us
from tests.support.machines import (
    answers,
    asked,
    asks,
    call,
    completed,
    gives,
    make_spec,
    messages_of,
    reloaded,
    run_of,
    said,
    saved,
    tool_ids,
    waiting_ids,
)
from understudy.errors import SpecChanged
from understudy.orchestration import AgentRun, AwaitApproval, RunSpec
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    JsonObject,
    Message,
    MetadataPart,
    ModelTurn,
    OpaquePart,
    Part,
    ReasoningPart,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    says,
    user_message,
)
from understudy.vocabulary.runs.outcomes import Approve

PLAIN = make_spec("look")
OLD = Path(__file__).parent / "saved" / "run-format-1.json"


# --- what is kept

EVERY_PART: list[Part] = [
    TextPart("Räksmörgås 🦐"),
    TextPart("", signature="proof"),
    TextPart("Seven.", citations=(Citation("facts", "https://f.test", "7", 0, 5, {"n": [None, 1.5]}), Citation())),
    MetadataPart({"logprobs": {"content": [{"token": "a", "logprob": -0.5}]}}),
    ImagePart("aGk=", "image/jpeg"),
    ImagePart(url="https://example.org/cat.png"),
    FilePart("aGk=", "application/pdf", name="a.pdf"),
    ReasoningPart("Hm.", signature="proof"),
    ReasoningPart(redacted="c2VjcmV0"),
    ToolCall("a", "look", {"n": [1, 2.5, None, True, {"deep": "er"}]}, signature="proof"),
    ToolCall("b", "look", bad_arguments="{sku: ", made_up_id=True),
    ToolResult("a", "7", name="look"),
    ToolResult("b", "no", is_error=True, error_kind="timed_out", name="look"),
    OpaquePart({"type": "server_tool_use", "input": {"q": None}}),
]


@pytest.mark.parametrize("part", EVERY_PART, ids=lambda part: part.kind)
def test_every_kind_of_part_comes_back_as_it_was(part: Part) -> None:
    before = [Message("assistant", (part,), "google")]
    if isinstance(part, ToolCall):
        before.append(Message("user", (ToolResult(part.id, "7", name=part.name),)))
    run = AgentRun(PLAIN, "Hi", history=before)

    assert messages_of(reloaded(run)) == [*before, asked("Hi")]
    assert [type(p) for p in reloaded(run).messages[0].parts] == [type(part)]


@pytest.mark.parametrize("other", [None, "m", us.Agent("m", model="rehearsal"), us.SequentialAgent])
def test_a_run_is_made_and_loaded_with_a_spec_and_with_nothing_else(other: Any) -> None:
    member = us.Agent("m", model="rehearsal")
    text = AgentRun(PLAIN, "Hi").to_json()
    group_text = us.SequenceRun(us.SequentialAgent("g", [member]).run_spec, "Hi").to_json()

    with pytest.raises(TypeError, match=r"a run is made with RunSpec\.of\(agent\), got "):
        AgentRun(other, "Hi")
    with pytest.raises(TypeError, match=r"a run is made with RunSpec\.of\(agent\), got "):
        AgentRun.from_json(text, other)
    with pytest.raises(TypeError, match="a run is made with the run_spec of a group or workflow, got "):
        us.SequenceRun(other, "Hi")
    for wrong in (other, cast(Any, PLAIN)):
        with pytest.raises(TypeError, match="a run is made with the run_spec of a group or workflow, got "):
            us.SequenceRun.from_json(group_text, wrong)


def test_saving_twice_gives_the_same_text() -> None:
    run = run_of(PLAIN, [asks(call("a"), call("b"), usage=Usage(1, 2))])

    assert run.to_json() == run.to_json()
    assert reloaded(run).to_json() == run.to_json()


def test_a_loaded_run_shares_nothing_with_the_one_that_was_saved() -> None:
    run = run_of(PLAIN, [asks(call("a"))])
    again = reloaded(run)

    again.next_step()
    again.tool_results([gives("a")])

    assert len(run.messages) == 2
    assert tool_ids(run) == ["a"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"sku": "\ud83d"},
        {"\ud83d": 1},  # pydantic writes this key as U+FFFD without a word
        {"sku": {"\ud83d": ["\udc80"]}},
        {"sku": "\ufffd", "é": 1},
    ],
)
def test_half_a_surrogate_pair_in_arguments_comes_back_as_it_was(arguments: JsonObject) -> None:
    # Models write half a surrogate pair now and then, and JSON lets them: RFC 8259, 8.2.
    again = reloaded(run_of(PLAIN, [asks(ToolCall("a", "look", arguments))]))

    assert again.messages[-1].tool_calls[0].arguments == arguments


# --- what is checked


OTHERS: list[tuple[str, RunSpec]] = [
    ("the model changed", replace(PLAIN, model="test:other")),
    ("the system prompt changed", replace(PLAIN, system="Be long.")),
    ("", replace(PLAIN, system=None)),
    (
        "tool 'look' changed",
        replace(PLAIN, tools=(ToolSpec("look", "Does look.", {"type": "object", "properties": {"sku": {}}}),)),
    ),
    ("tool 'look' changed", replace(PLAIN, tools=(replace(PLAIN.tools[0], description="Looks."),))),
    ("the approval of 'look' was added", replace(PLAIN, approvals={"look": None})),
    ("the settings changed", replace(PLAIN, settings=Settings(temperature=0.0))),
    ("", replace(PLAIN, criteria=True)),
    ("", replace(PLAIN, agent_id="other")),
]


@pytest.mark.parametrize(("told", "other"), OTHERS)
def test_a_run_of_another_definition_is_refused_with_what_changed_unless_adopted(told: str, other: RunSpec) -> None:
    text = run_of(PLAIN, [says("Seven.")]).to_json()

    with pytest.raises(SpecChanged, match="adopt=True") as refused:
        AgentRun.from_json(text, other)
    adopted = AgentRun.from_json(text, other, adopt=True)

    assert not told or f"another definition of agent 'clerk' ({told})" in str(refused.value)
    assert completed(AgentRun.from_json(adopted.to_json(), other)).text == "Seven."


def test_tools_that_come_and_go_are_named() -> None:
    text = run_of(make_spec("look", "refund"), [says("Seven.")]).to_json()

    with pytest.raises(SpecChanged, match=r"\(tool 'refund' was removed, tool 'pay' was added\)"):
        AgentRun.from_json(text, make_spec("look", "pay"))


def test_a_text_without_digests_of_the_parts_is_refused_with_the_whole_ones_and_adopted() -> None:
    data = saved(run_of(PLAIN, [says("Seven.")]))
    del data["parts"]
    other = replace(PLAIN, model="test:other")

    with pytest.raises(SpecChanged, match=f"{PLAIN.fingerprint()}, now {other.fingerprint()}"):
        AgentRun.from_json(json.dumps(data), other)

    assert completed(AgentRun.from_json(json.dumps(data), other, adopt=True)).text == "Seven."


def test_limits_may_change_between_saving_and_loading_and_the_run_keeps_its_own() -> None:
    text = run_of(make_spec("look", max_iterations=5), [asks(call("a"))]).to_json()

    run = AgentRun.from_json(
        text, make_spec("look", max_iterations=0, max_turns=1, max_continues=0, max_invalid_retries=0)
    )

    assert tool_ids(run) == ["a"]


def test_an_approval_that_is_false_is_as_good_as_none_given() -> None:
    assert replace(PLAIN, approvals={"look": False}).fingerprint() == PLAIN.fingerprint()


def test_the_fingerprint_is_a_digest_of_what_differs_from_the_defaults() -> None:
    # Written out by hand: another digest would refuse every run that is saved anywhere.
    spec = RunSpec(
        agent_id="clerk",
        model="test:model",
        system="Be brief.",
        tools=(ToolSpec("look", "Looks.", {"type": "object", "properties": {}}),),
        approvals={"look": True},
        settings=Settings(temperature=0.5, stop=("END",)),
    )
    definition = (
        '["clerk", "test:model", "Be brief.", '
        '[["look", "Looks.", {"properties": {}, "type": "object"}, true]], '
        '{"stop": ["END"], "temperature": 0.5}, false]'
    )

    assert spec.fingerprint() == hashlib.sha256(definition.encode()).hexdigest()[:16]


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    code = """
import understudy as us
@us.tool
def look(sku: str, shops: set[str]) -> int:
    '''Look.'''
    return 7
agent = us.Agent("clerk", model="openai:gpt-4o", tools=[look], settings=us.Settings(extra={"b": 1, "a": {"d": 1, "c": 2}}))
print(us.RunSpec.of(agent).fingerprint())
"""

    prints = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(prints) == 1
    assert len(prints.pop().strip()) == 16


# --- what cannot be read


def changed(run: AgentRun, changes: dict[str, object]) -> str:
    """Return the run as text with some of its state replaced."""
    data = saved(run)
    return json.dumps(data | {"state": cast("dict[str, object]", data["state"]) | changes})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the text"),
        ("nonsense", "the text"),
        ("[]", "the text"),
        ("null", "the text"),
        ("{}", "format"),
        ('{"format": 1, "fingerprint": "x"}', "state"),
        ('{"format": 1, "fingerprint": "x", "state": {"messages": 3}}', r"state\.messages"),
    ],
)
def test_text_that_is_no_saved_run_is_a_value_error_that_names_what_is_wrong(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=rf"not a saved run: {what}"):
        AgentRun.from_json(text, PLAIN)


@pytest.mark.parametrize("number", [0, 2, 99])
def test_another_format_is_refused_by_its_number_whatever_else_it_holds(number: int) -> None:
    text = json.dumps({"format": number, "other": "shape"})

    with pytest.raises(ValueError, match=f"format {number}; this version reads format 1"):
        AgentRun.from_json(text, PLAIN)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("phase", '"dreaming"'),
        ("turns", '"many"'),
        ("messages", '[{"role": "robot", "parts": []}]'),
        ("messages", '[{"role": "user", "parts": [{"kind": "smell"}]}]'),
        ("messages", '[{"role": "user", "parts": [{"kind": "text"}]}]'),
        ("failure", '{"kind": "whim", "message": ""}'),
    ],
)
def test_a_saved_run_with_a_wrong_value_names_where_it_stands(key: str, value: str) -> None:
    text = changed(AgentRun(PLAIN, "Hi"), {key: json.loads(value)})

    with pytest.raises(ValueError, match=rf"not a saved run: state\.{key}"):
        AgentRun.from_json(text, PLAIN)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"phase": "tools"}, id="tools without a round"),
        pytest.param({"phase": "failed"}, id="failed without a reason"),
        pytest.param({"start": 7}, id="begins behind its end"),
        pytest.param({"messages": []}, id="no messages"),
    ],
)
def test_a_saved_run_that_contradicts_itself_is_refused(changes: dict[str, object]) -> None:
    text = changed(AgentRun(PLAIN, "Hi"), changes)

    with pytest.raises(ValueError, match="not a saved run"):
        AgentRun.from_json(text, PLAIN)


def test_what_was_asked_is_not_in_the_error() -> None:
    data = saved(AgentRun(PLAIN, "My password is swordfish"))
    data["format"] = "one"

    with pytest.raises(ValueError) as caught:
        AgentRun.from_json(json.dumps(data), PLAIN)

    assert "swordfish" not in str(caught.value)


# --- what must stay readable


def test_a_run_saved_in_format_1_still_loads() -> None:
    spec = make_spec("look", "refund", approvals={"refund": True})

    run = AgentRun.from_json(OLD.read_text("utf-8"), spec, adopt=True)

    a = ToolCall("a", "look", {"sku": "A-113"}, signature="sig-3")
    b = ToolCall("call-1-5", "look", bad_arguments="{sku: ", made_up_id=True)
    c = ToolCall("c", "refund", {"cents": 1200})
    d = ToolCall("d", "look")
    assert messages_of(run) == [
        asked("I am Ada."),
        said(TextPart("Hello, Ada."), dialect="openai"),
        user_message(
            [
                TextPart("What is this? Räksmörgås 🦐"),
                ImagePart("aGk=", "image/jpeg"),
                FilePart(media_type="application/pdf", url="https://example.org/a.pdf", name="a.pdf"),
            ]
        ),
        said(
            ReasoningPart("Hm.", signature="sig-1"),
            ReasoningPart(redacted="c2VjcmV0"),
            OpaquePart({"type": "server_tool_use", "input": {"n": [1, 2.5, None, True]}}),
            TextPart("", signature="sig-2"),
            *(a, b, c, d),
            dialect="anthropic",
        ),
    ]
    assert tool_ids(run) == ["a"]
    run.tool_results([gives("a")])
    assert run.next_step() == AwaitApproval((c,))
    assert waiting_ids(run) == ["c"]
    run.decisions({"c": Approve()})
    run.tool_results([gives("c", name="refund")])
    bad = "the arguments of 'look' must be a JSON object, got: {sku: "
    assert messages_of(run)[-1] == answers(
        gives("a"),
        ToolResult("call-1-5", bad, is_error=True, error_kind="bad_json", name="look"),
        gives("c", name="refund"),
        gives("d", "7"),
    )
    run.model_response(ModelTurn((TextPart("A cat."),), Usage(1, 1)))
    outcome = completed(run)
    assert (outcome.turns, outcome.iterations) == (2, 1)
    assert outcome.usage == Usage(12, 6, cached_tokens=2, reasoning_tokens=3)
    assert outcome.messages[0] == messages_of(run)[2]


def known_of(new: object, old: object) -> object:
    """Return `new` without the names that `old` does not know; what came later has defaults."""
    if isinstance(old, list) and isinstance(new, list):
        fresh, before = cast("list[object]", new), cast("list[object]", old)
        return [known_of(*both) for both in zip(fresh, before, strict=True)]
    if not isinstance(old, dict):
        return new
    known, there = cast("dict[str, object]", new), cast("dict[str, object]", old)
    return {name: known_of(value, there[name]) for name, value in known.items() if name in there}


def test_a_run_is_still_written_with_the_names_of_format_1() -> None:
    old = json.loads(OLD.read_text("utf-8"))
    run = AgentRun.from_json(OLD.read_text("utf-8"), PLAIN, adopt=True)

    assert known_of(saved(run), old) == old | {"fingerprint": PLAIN.fingerprint()}
