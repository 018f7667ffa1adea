"""What is said of a run that ended."""

from __future__ import annotations

import json

import pytest

from understudy import (
    Agent,
    AuthenticationError,
    Complete,
    Incomplete,
    ModelRequest,
    ModelTurn,
    NeedsApproval,
    NeedsInput,
    Outcome,
    ProviderError,
    RateLimited,
    RunCancelled,
    RunTimedOut,
    SequentialAgent,
    SpecError,
    ToolCall,
    ToolFinished,
    ToolResult,
    ToolStarted,
    Usage,
)
from understudy.commandline.call_log import CallLog
from understudy.commandline.report import (
    UsageMistake,
    as_json,
    closing,
    explain,
    for_people,
    for_terminal,
    one_line,
    shown_call,
    status_of,
)
from understudy.testing import FunctionModel
from understudy.vocabulary.runs.events import Event

LOOK = ToolCall("c1", "look", {"sku": "A-113"})


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (Complete(text="Seven.", output="Seven."), 0),
        (Incomplete(last_text="Well"), 1),
        (NeedsInput(question="Which?"), 3),
        (NeedsApproval(calls=(LOOK,)), 3),
        (RateLimited("slow down"), 1),
        (RunTimedOut("late"), 1),
        (KeyError("a bug"), 1),
        (SpecError("wrong"), 2),
        (UsageMistake("wrong"), 2),
        (RunCancelled("gone"), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_the_status_tells_how_a_run_ended(ended: Outcome[object] | BaseException, status: int) -> None:
    assert status_of(ended) == status


def test_a_question_is_shown_to_people_and_programs() -> None:
    outcome = NeedsInput(question="Which shop?", agent_id="clerk", completion_reason="asked", usage=Usage(3, 4))

    out, err = for_people(outcome)
    report = json.loads(as_json(outcome, CallLog()))

    assert out == ""
    assert err.startswith("understudy: the run waits for an answer to: Which shop?\n")
    assert report["question"] == "Which shop?"
    assert report["usage"] == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


def test_an_unfinished_answer_is_printed_and_marked_as_such() -> None:
    out, err = for_people(Incomplete(last_text="Well, ", completion_reason="no criterion was met"))

    assert out == "Well, "
    assert err == "understudy: the run stopped before its end: no criterion was met"


def test_an_error_that_is_not_ours_is_named_with_its_module() -> None:
    assert explain(json.JSONDecodeError("bad", "x", 0)).startswith("json.decoder.JSONDecodeError: bad")
    assert explain(KeyError("k")) == "KeyError: 'k'"
    assert explain(RateLimited("slow down")) == "RateLimited: slow down"


def test_the_notes_of_an_error_stand_below_it_before_the_advice() -> None:
    error = AuthenticationError("no key for openai")
    error.add_note("before it, ollama:m failed:\nRateLimited: slow down")

    assert explain(error).splitlines() == [
        "AuthenticationError: no key for openai",
        "  before it, ollama:m failed: RateLimited: slow down",
        "  keys are read from the environment only; --rehearse runs the agent without one",
    ]


def test_calls_are_paired_with_their_results_although_ids_come_back_in_later_turns() -> None:
    log = CallLog()
    again = ToolCall("c1", "look", {"sku": "B-2"})
    events: list[Event] = [
        ToolStarted(call=LOOK),
        ToolFinished(call=LOOK, result=ToolResult("c1", "7")),
        ToolStarted(call=again),
        ToolFinished(call=again, result=ToolResult("c1", "gone", is_error=True)),
        ToolFinished(call=ToolCall("c2", "nothing"), result=ToolResult("c2", "unknown tool", is_error=True)),
        ToolStarted(call=ToolCall("c3", "look")),
    ]
    for event in events:
        log.see(event)

    assert log.report()["tool_calls"] == [
        {"name": "look", "arguments": {"sku": "A-113"}, "result": "7", "is_error": False},
        {"name": "look", "arguments": {"sku": "B-2"}, "result": "gone", "is_error": True},
        {"name": "nothing", "arguments": {}, "result": "unknown tool", "is_error": True},
        {"name": "look", "arguments": {}, "result": None, "is_error": False},
    ]


def test_what_is_shown_of_a_tool_cannot_steer_the_terminal() -> None:
    assert one_line("\n  \x1b[2Jgone\x07 \n more") == "�[2Jgone�"
    assert one_line("x" * 500) == "x" * 99 + "…"
    assert one_line(" \n ") == ""


def test_an_answer_on_a_terminal_keeps_its_lines_and_cannot_steer_it() -> None:
    assert for_terminal("grüße\r\n\tone\x1b[2J\x9b2J\rtwo\x7f\u202e 🎭") == "grüße\n\tone�[2J�2J�two�� 🎭"


def test_of_a_call_that_waits_for_a_person_all_is_shown() -> None:
    call = ToolCall("c1", "pay", {"note": "x" * 500, "euros": 9000})

    _, aside = for_people(NeedsApproval(calls=(call,)))

    assert "euros=9000" in aside


def test_a_call_whose_arguments_are_no_json_is_shown_as_the_model_wrote_it() -> None:
    assert shown_call(ToolCall("c1", "look", bad_arguments='{"sku": ')) == 'look({"sku": )'


def test_the_closing_line_says_what_a_run_took() -> None:
    done = Complete(text="Seven.", output="Seven.", turns=2, usage=Usage(1_200, 34), cost_usd=0.00312)
    cheap = Complete(text="Seven.", output="Seven.", turns=1)

    assert closing(done, 5, 4.24) == "2 turns, 5 tool calls, 1,234 tokens, $0.0031, 4.2 s"
    assert closing(cheap, 0, 0.04) == "1 turn, 0.0 s"
    assert closing(NeedsInput(question="Which?"), 0, 1.0) == ""


def test_a_line_that_ends_in_a_colon_is_shown_with_the_next() -> None:
    assert one_line("3 lines:\n\n  first\nsecond") == "3 lines: first"
    assert one_line("3 lines:") == "3 lines:"


def test_an_error_says_which_agent_failed_with_which_model_and_where() -> None:
    def no_such_model(request: ModelRequest) -> ModelTurn:
        raise ProviderError("HTTP 404: The model 'gpt-99' does not exist", status=404)

    class Hosted(FunctionModel):
        provider = "openai"
        model = "gpt-99"

    agent = Agent("a", model=Hosted(no_such_model))
    alone, inside = agent.submit("go").exception(10), SequentialAgent("seq", [agent]).submit("go").exception(10)

    assert alone is not None and inside is not None
    words = "HTTP 404: The model 'gpt-99' does not exist"
    assert for_people(alone) == ("", f"understudy: ProviderError: agent 'a' (openai:gpt-99): {words}")
    assert explain(inside) == f"ProviderError: agent 'a' (openai:gpt-99), path seq > a: {words}"
    assert json.loads(as_json(inside, CallLog()))["error"]["path"] == ["seq", "a"]
