"""Calls that cannot run as the model wrote them, and what may become of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.machines import (
    answers,
    asks,
    call,
    gives,
    make_spec,
    messages_of,
    model_step,
    reloaded,
    run_of,
    said,
    tool_ids,
)
from understudy.errors import ProtocolViolation
from understudy.orchestration import AgentRun, CallModel, CallTools, InvalidCall, RepairCall, RetryTurn, SkipCall
from understudy.orchestration.agent.steps import Resolution
from understudy.vocabulary.messages import ToolCall, ToolErrorKind, ToolResult

PLAIN = make_spec("look", "find")
UNKNOWN = "there is no tool 'lok' (did you mean 'look'?); the tools are: find, look"


def fails(id: str, kind: ToolErrorKind, content: str, name: str = "look") -> ToolResult:
    return ToolResult(id, content, is_error=True, error_kind=kind, name=name)


def broken(id: str, name: str = "look") -> ToolCall:
    return ToolCall(id, name, bad_arguments="{sku: ")


# --- what is invalid


def test_the_machine_says_which_calls_of_a_turn_cannot_run_and_changes_nothing() -> None:
    run = AgentRun(PLAIN, "Hi")
    turn = asks(call("a"), call("b", "lok"), broken("c"), call("d", "find"), before="Let me see.")
    before = run.to_json()

    found = run.invalid_calls(turn, {3: "argument 'word' is missing"})

    assert found == (
        InvalidCall(1, call("b", "lok"), "unknown_tool", UNKNOWN),
        InvalidCall(2, broken("c"), "bad_json", "the arguments of 'look' must be a JSON object, got: {sku: "),
        InvalidCall(3, call("d", "find"), "bad_arguments", "argument 'word' is missing"),
    )
    assert run.to_json() == before


def test_a_call_with_several_faults_is_reported_once_with_the_first() -> None:
    run = AgentRun(PLAIN, "Hi")

    found = run.invalid_calls(asks(broken("a", "lok")), {0: "argument 'word' is missing"})

    assert [bad.kind for bad in found] == ["unknown_tool"]


def test_long_arguments_are_cut_in_the_reason() -> None:
    run = AgentRun(PLAIN, "Hi")
    long = ToolCall("a", "look", bad_arguments="[" * 5000)

    (bad,) = run.invalid_calls(asks(long))

    assert len(bad.reason) < 200


def test_a_name_like_no_other_gets_no_guess() -> None:
    (bad,) = AgentRun(PLAIN, "Hi").invalid_calls(asks(call("a", "zzz")))

    assert bad.reason == "there is no tool 'zzz'; the tools are: find, look"


def test_under_tool_choice_none_every_call_is_invalid() -> None:
    run = AgentRun(make_spec("look", tool_choice="none"), "Hi")

    (bad,) = run.invalid_calls(asks(call("a")))

    assert (bad.kind, bad.reason) == ("unknown_tool", "there is no tool 'look'; no tools can be called now")


@pytest.mark.parametrize("forced", ["required", "look"])
def test_a_forced_choice_holds_for_the_first_turn_only(forced: str) -> None:
    run = AgentRun(make_spec("look", "find", tool_choice=forced), "Hi")

    first = model_step(run).request.settings.tool_choice
    run.model_response(asks(call("a")))
    run.next_step()
    run.tool_results([gives("a")])

    assert first == forced
    assert model_step(run).request.settings.tool_choice == "auto"
    assert model_step(reloaded(run)).request.settings.tool_choice == "auto"


def test_under_a_forced_tool_another_one_is_invalid_in_the_first_turn_and_may_be_called_later() -> None:
    run = AgentRun(make_spec("look", "find", tool_choice="look"), "Hi")
    assert [bad.kind for bad in run.invalid_calls(asks(call("a", "find")))] == ["unknown_tool"]
    run.model_response(asks(call("a", "look")))
    run.next_step()
    run.tool_results([gives("a")])

    # The second request lets the model choose, so what it chooses must be accepted.
    assert model_step(run).request.settings.tool_choice == "auto"
    assert run.invalid_calls(asks(call("b", "find"))) == ()
    run.model_response(asks(call("b", "find")))
    assert tool_ids(run) == ["b"]


def test_under_tool_choice_none_the_choice_stays() -> None:
    run = run_of(make_spec("look", tool_choice="none"), [asks(call("a"))])

    assert model_step(run).request.settings.tool_choice == "none"


# --- without a resolution


def test_an_invalid_call_takes_no_result_from_outside() -> None:
    run = run_of(PLAIN, [asks(call("a", "lok"), call("b"))])
    run.next_step()

    with pytest.raises(ProtocolViolation):
        run.tool_results([gives("a")])


# --- resolutions


def test_a_retried_turn_shows_the_calls_as_the_model_wrote_them() -> None:
    run = AgentRun(PLAIN, "Hi")

    run.model_response(
        asks(call("a", "lok"), call("b", "fnd")), resolutions={0: RetryTurn("No."), 1: RepairCall(name="find")}
    )

    assert messages_of(run)[1:] == [
        said(call("a", "lok"), call("b", "fnd")),
        answers(
            fails("a", "unknown_tool", "No.", "lok"),
            fails(
                "b", "unknown_tool", "there is no tool 'fnd' (did you mean 'find'?); the tools are: find, look", "fnd"
            ),
        ),
    ]


def test_a_repair_keeps_what_the_provider_wants_to_see_again() -> None:
    signed = ToolCall("a", "lok", signature="proof")
    run = AgentRun(PLAIN, "Hi")

    run.model_response(asks(signed), resolutions={0: RepairCall(name="look")})

    assert run.next_step() == CallTools((replace(signed, name="look"),))


@pytest.mark.parametrize(
    ("bad", "resolution"),
    [
        pytest.param(call("a", "lok"), RepairCall(name="luk"), id="to another unknown name"),
        pytest.param(call("a", "lok"), RepairCall(arguments={}), id="of the arguments, where the name is wrong"),
        pytest.param(broken("a"), RepairCall(name="find"), id="of the name, where the arguments are wrong"),
        pytest.param(broken("a"), RepairCall(), id="of nothing"),
    ],
)
def test_a_repair_that_repairs_nothing_is_refused_and_changes_nothing(bad: ToolCall, resolution: Resolution) -> None:
    run = AgentRun(PLAIN, "Hi")
    before = run.to_json()

    with pytest.raises(ProtocolViolation, match="the repair of call 0 is invalid too"):
        run.model_response(asks(bad), resolutions={0: resolution})

    assert run.to_json() == before
    run.model_response(asks(bad), resolutions={0: SkipCall("Never mind.")})
    assert isinstance(run.next_step(), CallModel)


def test_another_name_does_not_mend_a_call_that_was_cut_off_and_new_arguments_do() -> None:
    run = AgentRun(PLAIN, "Hi")
    cut = replace(asks(call("a", "lok", sku="A")), raw_finish_reason="length")

    with pytest.raises(ProtocolViolation, match="the repair of call 0 is invalid too: .* was cut off"):
        run.model_response(cut, resolutions={0: RepairCall(name="look")})

    run.model_response(cut, resolutions={0: RepairCall(name="look", arguments={"sku": "A-113"})})
    assert run.next_step() == CallTools((call("a", sku="A-113"),))


@pytest.mark.parametrize("position", [-1, 0, 2, 7])
def test_a_resolution_of_a_call_that_is_not_invalid_is_refused_and_changes_nothing(position: int) -> None:
    run = AgentRun(PLAIN, "Hi")
    before = run.to_json()

    with pytest.raises(ProtocolViolation, match=f"call {position}, which is not invalid"):
        run.model_response(asks(call("a"), call("b", "lok")), resolutions={position: SkipCall("No.")})

    assert run.to_json() == before


def test_resolutions_go_by_position_where_ids_are_missing() -> None:
    run = AgentRun(PLAIN, "Hi")

    run.model_response(asks(call("", "lok"), call("", "lok")), resolutions={1: RepairCall(name="find")})

    step = run.next_step()
    assert isinstance(step, CallTools)
    assert [c.name for c in step.calls] == ["find"]
