"""Calls that cannot run as the model wrote them, and what may become of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.machines import (
    answers,
    asked,
    asks,
    call,
    completed,
    gives,
    make_spec,
    messages_of,
    model_step,
    reloaded,
    run_of,
    said,
    tool_ids,
    waiting_ids,
)
from understudy.errors import ProtocolViolation, RunCancelled, ToolError
from understudy.messages import Message, ToolCall, ToolErrorKind, ToolResult, says
from understudy.orchestration import (
    AgentRun,
    CallModel,
    CallTools,
    FailRun,
    InvalidCall,
    RepairCall,
    RetryTurn,
    SkipCall,
    StopRun,
)
from understudy.orchestration.calls import PEER_NOT_RUN
from understudy.orchestration.steps import Resolution

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


def test_without_a_resolution_the_model_reads_the_reason_and_valid_siblings_run() -> None:
    run = AgentRun(PLAIN, "Hi")

    run.model_response(
        asks(call("a", "lok"), call("b"), broken("c"), call("d")), problems={3: "argument 'word' is missing"}
    )

    assert run.next_step() == CallTools((call("b"),))
    run.tool_results([gives("b")])
    assert messages_of(run)[-1] == answers(
        fails("a", "unknown_tool", UNKNOWN, "lok"),
        gives("b"),
        fails("c", "bad_json", "the arguments of 'look' must be a JSON object, got: {sku: "),
        fails("d", "bad_arguments", "argument 'word' is missing"),
    )


def test_when_every_call_is_invalid_the_model_is_told_and_nothing_runs() -> None:
    run = run_of(PLAIN, [asks(call("a", "lok"), call("b", "lok"))])

    assert model_step(run).request.tool_results == (
        fails("a", "unknown_tool", UNKNOWN, "lok"),
        fails("b", "unknown_tool", UNKNOWN, "lok"),
    )


def test_an_invalid_call_cannot_be_answered_by_the_driver() -> None:
    run = run_of(PLAIN, [asks(call("a", "lok"), call("b"))])
    run.next_step()

    with pytest.raises(ProtocolViolation):
        run.tool_results([gives("a")])


# --- resolutions


def test_retry_runs_nothing_of_the_turn_and_answers_every_call() -> None:
    run = AgentRun(PLAIN, "Hi")
    turn = asks(call("a"), call("b", "lok"), broken("c"))

    run.model_response(turn, resolutions={1: RetryTurn("Spell it right.")})

    assert model_step(run).request.messages == [
        asked("Hi"),
        Message("assistant", turn.parts),
        answers(
            fails("a", "not_run", PEER_NOT_RUN),
            fails("b", "unknown_tool", "Spell it right.", "lok"),
            fails("c", "bad_json", "the arguments of 'look' must be a JSON object, got: {sku: "),
        ),
    ]
    assert model_step(run).request.turn == 2


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


def test_one_turn_costs_one_retry_however_many_of_its_calls_are_invalid() -> None:
    run = AgentRun(make_spec("look", max_invalid_retries=1), "Hi")

    run.model_response(
        asks(call("a", "lok"), call("b", "lok")), resolutions={0: RetryTurn("First."), 1: RetryTurn("Second.")}
    )

    assert [r.content for r in model_step(run).request.tool_results] == ["First.", "Second."]


@pytest.mark.parametrize("budget", [0, 1, 3])
def test_retries_are_counted_over_the_run_and_then_fail_it(budget: int) -> None:
    run = AgentRun(make_spec("look", max_invalid_retries=budget), "Hi")
    for i in range(budget):
        run.model_response(asks(call(f"r{i}", "lok")), resolutions={0: RetryTurn("No.")})
        run.model_response(asks(call(f"c{i}")))
        assert tool_ids(run) == [f"c{i}"]
        run.tool_results([gives(f"c{i}")])

    run.model_response(asks(call("last", "lok")), resolutions={0: RetryTurn("No.")})

    for again in (run, reloaded(run)):
        with pytest.raises(ToolError, match="'lok'") as caught:
            again.next_step()
        assert (caught.value.tool, caught.value.call_id) == ("lok", "last")


def test_a_repaired_call_runs_under_its_new_name_and_the_history_shows_it() -> None:
    # A provider pairs a result with its call by name too, so both must tell the same one.
    run = AgentRun(PLAIN, "Hi")

    run.model_response(asks(call("a", "lok", sku="A-113")), resolutions={0: RepairCall(name="look")})

    fixed = call("a", "look", sku="A-113")
    assert run.next_step() == CallTools((fixed,))
    run.tool_results([ToolResult("a", "7")])
    assert messages_of(run) == [asked("Hi"), said(fixed), answers(gives("a", "7", "look"))]


def test_a_repair_may_replace_arguments() -> None:
    run = AgentRun(PLAIN, "Hi")

    run.model_response(
        asks(broken("a"), call("b")),
        problems={1: "argument 'word' is missing"},
        resolutions={0: RepairCall(arguments={"sku": "A"}), 1: RepairCall(arguments={"word": "tide"})},
    )

    assert run.next_step() == CallTools((call("a", sku="A"), call("b", word="tide")))


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


@pytest.mark.parametrize("position", [-1, 0, 2, 7])
def test_a_resolution_of_a_call_that_is_not_invalid_is_refused_and_changes_nothing(position: int) -> None:
    run = AgentRun(PLAIN, "Hi")
    before = run.to_json()

    with pytest.raises(ProtocolViolation, match=f"call {position}, which is not invalid"):
        run.model_response(asks(call("a"), call("b", "lok")), resolutions={position: SkipCall("No.")})

    assert run.to_json() == before


def test_a_skipped_call_is_answered_without_an_error_and_valid_siblings_run() -> None:
    run = AgentRun(PLAIN, "Hi")

    run.model_response(asks(call("a", "lok"), call("b")), resolutions={0: SkipCall("Not needed.")})

    assert run.next_step() == CallTools((call("b"),))
    run.tool_results([gives("b")])
    assert messages_of(run)[-1] == answers(ToolResult("a", "Not needed.", error_kind="skipped", name="lok"), gives("b"))


def test_fail_ends_the_run_with_a_tool_error_and_every_call_is_answered() -> None:
    run = AgentRun(PLAIN, "Hi")

    run.model_response(asks(call("a"), call("b", "lok")), resolutions={1: FailRun()})

    for again in (run, reloaded(run)):
        with pytest.raises(ToolError) as caught:
            again.next_step()
        assert (caught.value.tool, caught.value.call_id) == ("lok", "b")
    assert messages_of(run)[-1] == answers(
        fails("a", "not_run", PEER_NOT_RUN), fails("b", "unknown_tool", UNKNOWN, "lok")
    )


def test_stop_ends_the_run_as_cancelled_with_its_reason() -> None:
    run = AgentRun(PLAIN, "Hi")

    run.model_response(asks(call("a", "lok")), resolutions={0: StopRun("Enough of this.")})

    for again in (run, reloaded(run)):
        with pytest.raises(RunCancelled, match="Enough of this."):
            again.next_step()


@pytest.mark.parametrize("resolution", [FailRun(), StopRun("Enough."), RetryTurn("Again.")])
def test_what_ends_the_turn_wins_over_repairs_and_skips(resolution: Resolution) -> None:
    run = AgentRun(PLAIN, "Hi")

    run.model_response(
        asks(call("a", "lok"), call("b", "fnd"), call("c", "fnd")),
        resolutions={0: RepairCall(name="look"), 1: SkipCall("No."), 2: resolution},
    )

    assert [r.call_id for r in messages_of(run)[-1].tool_results] == ["a", "b", "c"]
    assert all(r.is_error for r in messages_of(run)[-1].tool_results)


def test_several_invalid_calls_of_a_turn_are_each_treated_as_resolved() -> None:
    run = AgentRun(PLAIN, "Hi")

    run.model_response(
        asks(call("a", "lok"), call("b", "fnd"), call("c", "lok"), call("d", "find")),
        resolutions={0: RepairCall(name="look"), 1: SkipCall("Not needed.")},
    )

    assert run.next_step() == CallTools((call("a", "look"), call("d", "find")))
    run.tool_results([ToolResult("d", "4"), ToolResult("a", "1")])
    assert messages_of(run)[-1] == answers(
        gives("a", "1", "look"),
        ToolResult("b", "Not needed.", error_kind="skipped", name="fnd"),
        fails("c", "unknown_tool", UNKNOWN, "lok"),
        gives("d", "4", "find"),
    )


def test_resolutions_go_by_position_where_ids_are_missing() -> None:
    run = AgentRun(PLAIN, "Hi")

    run.model_response(asks(call("", "lok"), call("", "lok")), resolutions={1: RepairCall(name="find")})

    step = run.next_step()
    assert isinstance(step, CallTools)
    assert [c.name for c in step.calls] == ["find"]


def test_a_repaired_call_waits_if_its_new_tool_needs_approval() -> None:
    run = AgentRun(make_spec("look", approvals={"look": True}), "Hi")

    run.model_response(asks(call("a", "lok")), resolutions={0: RepairCall(name="look")})

    assert waiting_ids(run) == ["a"]


def test_a_failed_run_takes_nothing_more() -> None:
    run = AgentRun(PLAIN, "Hi")
    run.model_response(asks(call("a", "lok")), resolutions={0: FailRun()})

    with pytest.raises(ProtocolViolation):
        run.model_response(says("Seven."))


def test_a_run_may_recover_after_a_retry() -> None:
    run = AgentRun(PLAIN, "Hi")
    run.model_response(asks(call("a", "lok")), resolutions={0: RetryTurn("Again.")})
    run.model_response(says("Seven."))

    assert completed(run).text == "Seven."
