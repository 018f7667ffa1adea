"""`map`: a run of each of many inputs, several at once."""

from __future__ import annotations

import gc
import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, assert_type

import pytest

import understudy as us
from tests.support.paths import ROOT
from tests.support.scripts import WAIT, eventually, finished
from understudy.testing import FunctionModel, ScriptedModel, calls, says

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as made:
        yield made
        made.stop(0.0)


class Desk:
    """An agent that echoes, fails at what begins with "bad", and holds what begins with "hold" until the test says so."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.most = self._now = 0
        self._lock = threading.Lock()
        self.agent = us.Agent("desk", model=FunctionModel(self._answer))

    def _answer(self, request: us.ModelRequest) -> us.ModelTurn:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            if request.text.startswith("hold"):
                self.gate.wait(3 * WAIT)  # longer than any claim waits
            if request.text.startswith("bad"):
                raise us.ProviderError(request.text)
            return says(request.text.upper())
        finally:
            with self._lock:
                self._now -= 1


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.gate.set()


def told(answer: us.MapAnswer[str] | us.MapFailure) -> str:
    match answer:
        case us.MapAnswer(outcome=outcome):
            return finished(outcome).text
        case us.MapFailure(error=error):
            return f"{type(error).__name__}: {error}"


def nothing_runs(system: us.ActorSystem) -> None:
    eventually(lambda: system.in_flight == 0, "every run is over")


def test_each_input_has_one_answer(desk: Desk) -> None:
    answers = {answer.index: told(answer) for answer in desk.agent.map(["a", "b", "c"])}

    assert answers == {0: "A", 1: "B", 2: "C"}


def test_answers_come_as_the_runs_end(desk: Desk) -> None:
    answers = desk.agent.map(["hold", "b"])

    assert next(answers).index == 1
    desk.gate.set()
    assert next(answers).index == 0


def test_in_order_each_answer_waits_for_those_before_it(desk: Desk) -> None:
    threading.Timer(0.02, desk.gate.set).start()

    assert [told(answer) for answer in desk.agent.map(["hold", "b", "c"], ordered=True)] == ["HOLD", "B", "C"]


def test_no_more_runs_are_under_way_than_may_be(desk: Desk) -> None:
    for _ in desk.agent.map(map(str, range(40)), max_parallel=3):
        pass

    assert desk.most <= 3


def test_an_endless_generator_is_asked_only_for_what_is_needed(desk: Desk, system: us.ActorSystem) -> None:
    taken: list[int] = []

    def endless() -> Iterator[str]:
        for number in itertools.count():
            taken.append(number)
            yield str(number)

    answers = desk.agent.map(endless(), max_parallel=4, system=system)
    assert taken == []
    for _ in range(5):
        next(answers)

    nothing_runs(system)  # and no other one begins before somebody asks
    assert len(taken) == 8


def test_nothing_runs_before_the_first_answer_is_asked_for(desk: Desk, system: us.ActorSystem) -> None:
    desk.agent.map(["a"], system=system)

    assert desk.most == 0


def test_a_failure_is_raised_with_its_place_once_the_others_are_cancelled(desk: Desk, system: us.ActorSystem) -> None:
    with pytest.raises(us.ProviderError, match="bad one") as caught:
        list(desk.agent.map(["hold", "bad one"], system=system))

    assert system.in_flight == 0
    assert "input 1 of the map, counted from 0" in caught.value.__notes__


def test_failures_that_are_kept_stand_for_their_inputs(desk: Desk) -> None:
    answers = list(desk.agent.map(["a", "bad", "c"], keep_errors=True, ordered=True))

    assert [told(answer) for answer in answers] == ["A", "ProviderError: bad", "C"]


def test_an_input_of_the_wrong_type_is_a_failure_of_that_input(desk: Desk) -> None:
    inputs: list[str] = ["a", 3, "c"]  # type: ignore[list-item]  # pyright: ignore[reportAssignmentType]

    answers = [told(answer) for answer in desk.agent.map(inputs, keep_errors=True, ordered=True)]

    assert answers == ["A", "TypeError: input must be text or a sequence of parts, got a value of type int", "C"]


@pytest.mark.parametrize("inputs", ["text", b"bytes", None, 7, {"topic": "tides"}])
def test_what_holds_no_inputs_is_refused_at_once(desk: Desk, inputs: list[str]) -> None:
    with pytest.raises(TypeError, match="inputs must be an iterable"):
        desk.agent.map(inputs)


def test_options_out_of_range_are_refused_at_once(desk: Desk) -> None:
    with pytest.raises(ValueError, match="max_parallel must be at least 1"):
        desk.agent.map([], max_parallel=0)
    with pytest.raises(TypeError, match="max_parallel must be a whole number"):
        desk.agent.map([], max_parallel=None)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(ValueError, match="timeout"):
        desk.agent.map([], timeout=-1.0)
    with pytest.raises(ValueError, match="no price for model"):
        desk.agent.map([], budget=us.Budget(cost_usd=1.0))


def test_tools_for_the_callers_thread_are_refused_as_they_are_by_submit() -> None:
    @us.tool(isolation="caller")
    def sign() -> str:
        """Sign."""
        raise AssertionError

    agent = us.Agent("clerk", model=ScriptedModel([]), tools=[sign])

    with pytest.raises(ValueError, match="isolation='caller'"):
        agent.map(["a"])


# --- leaving early


@pytest.mark.parametrize("error", [None, ZeroDivisionError()], ids=["by break", "by an error"])
def test_a_loop_that_is_left_cancels_what_runs(
    desk: Desk, system: us.ActorSystem, error: ZeroDivisionError | None
) -> None:
    had: list[str] = []
    with suppress(ZeroDivisionError):
        for answer in desk.agent.map(["a", "hold", "hold"], system=system):
            had.append(told(answer))
            if error is not None:
                raise error
            break

    nothing_runs(system)
    assert had == ["A"]


def test_closing_cancels_what_runs_at_once(desk: Desk, system: us.ActorSystem) -> None:
    answers = desk.agent.map(["a", "hold", "hold"], system=system)
    next(answers)

    answers.close()

    assert system.in_flight == 0
    assert list(answers) == []


@pytest.mark.parametrize("error", [OSError("the file ended"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_an_error_of_the_inputs_is_raised_and_cancels_what_runs(
    desk: Desk, system: us.ActorSystem, error: BaseException
) -> None:
    def torn() -> Generator[str]:
        yield "hold"
        raise error

    with pytest.raises(type(error)):
        list(desk.agent.map(torn(), system=system))

    assert system.in_flight == 0


def test_a_map_in_a_circle_of_objects_is_ended_by_the_garbage_collection(desk: Desk, system: us.ActorSystem) -> None:
    circle: list[object] = [desk.agent.map(["a", "hold"], system=system)]
    circle.append(circle)
    next(iter(circle[0]))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownArgumentType]
    eventually(lambda: system.in_flight == 1, "one is held")

    circle.clear()
    gc.collect()

    nothing_runs(system)


def test_a_map_can_be_closed_while_another_thread_waits_for_an_answer(desk: Desk, system: us.ActorSystem) -> None:
    answers = desk.agent.map(["hold"], system=system)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(list(answers)))
    thread.start()
    eventually(lambda: system.in_flight == 1, "its run is under way")

    answers.close()
    thread.join(WAIT)

    assert found == [[]]
    nothing_runs(system)


def test_a_map_that_is_iterated_over_by_its_own_inputs_says_so(desk: Desk) -> None:
    def own() -> Iterator[str]:
        yield next(answers).outcome.text

    answers = desk.agent.map(own())

    with pytest.raises(ValueError, match="being iterated over"):
        list(answers)


# --- what the runs share


def test_a_budget_holds_for_all_runs_together(desk: Desk) -> None:
    answers = desk.agent.map(["a"] * 5, max_parallel=1, budget=us.Budget(turns=2), keep_errors=True)

    spent = [type(answer.error).__name__ for answer in answers if isinstance(answer, us.MapFailure)]
    assert spent == ["BudgetExceeded"] * 3


def test_each_run_begins_with_a_copy_of_the_session() -> None:
    @us.tool
    def count(ctx: us.ToolContext) -> str:
        """Count."""
        ctx.session["seen"] = ctx.session["seen"] + 1  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue, reportOptionalOperand]
        return ""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return calls("count") if request.turn == 1 else says("done")

    agent = us.Agent("clerk", model=FunctionModel(answer), tools=[count])
    session = us.SessionState({"seen": 1})

    left = [answer.outcome.session["seen"] for answer in agent.map(["a", "b"], session=session)]

    assert left == [2, 2]
    assert session["seen"] == 1


def test_the_timeout_is_of_each_run(desk: Desk) -> None:
    answers = desk.agent.map(["a", "hold"], timeout=0.2, keep_errors=True, ordered=True)

    assert [told(answer).partition(":")[0] for answer in answers] == ["A", "RunTimedOut"]


def test_a_run_that_pauses_is_answered_with_its_token() -> None:
    agent = us.Agent("clerk", model=FunctionModel(lambda r: says("__ask_user__: Who?" if r.turn == 1 else r.text)))

    (answer,) = agent.map(["go"])

    assert isinstance(answer.outcome, us.NeedsInput)
    assert finished(agent.resume(answer.outcome.token, "Ada")).text == "Ada"


# --- every runner


def test_a_workflows_inputs_are_its_parameters(desk: Desk) -> None:
    brief = us.Workflow("brief", [us.Task("write", desk.agent, prompt="about ${topic}")])

    answers = brief.map([{"topic": "tides"}, {"tpic": "moon"}], ordered=True, keep_errors=True)
    first, second = answers

    assert isinstance(first, us.MapAnswer)
    assert first.outcome.text == "ABOUT TIDES"
    assert isinstance(second, us.MapFailure)
    assert isinstance(second.error, ValueError)


def test_groups_and_references_map_as_agents_do(desk: Desk, system: us.ActorSystem) -> None:
    for runner in (
        us.SequentialAgent("line", [desk.agent]),
        us.ParallelAgent("panel", [desk.agent]),
        system.spawn(desk.agent),
    ):
        assert [answer.outcome.text for answer in runner.map(["a", "b"], ordered=True)] == ["A", "B"]


# --- inside of a tool


def test_inside_of_a_tool_the_runs_end_with_its_run(desk: Desk, system: us.ActorSystem) -> None:
    waits = threading.Event()

    @us.tool
    def ask_all() -> str:
        """Ask."""

        def inputs() -> Iterator[str]:
            yield "hold"
            waits.set()

        return str(list(desk.agent.map(inputs())))

    lead = us.Agent("lead", model=ScriptedModel([calls("ask_all")]), tools=[ask_all])
    handle = system.spawn(lead).submit("go")
    assert waits.wait(WAIT)

    assert handle.cancel()

    nothing_runs(system)


def test_a_map_of_the_agent_that_it_is_called_inside_of_is_refused() -> None:
    @us.tool
    def again() -> str:
        """Ask again."""
        return str(list(lead.map(["go"])))

    model = ScriptedModel([calls("again"), says("ok")])
    lead = us.Agent("lead", model=model, tools=[again])

    lead.run("go")

    assert "CircularAgentCall" in model.requests[1].tool_results[0].content


def test_an_agent_further_down_may_not_call_the_one_that_maps(desk: Desk) -> None:
    @us.tool
    def back() -> str:
        """Call back."""
        return lead.run("go").text

    low_model = ScriptedModel([calls("back"), says("low")])
    low = us.Agent("low", model=low_model, tools=[back])

    @us.tool
    def down() -> str:
        """Ask below."""
        return str([told(answer) for answer in low.map(["go"])])

    lead = us.Agent("lead", model=ScriptedModel([calls("down"), says("ok")]), tools=[down])

    lead.run("go")

    assert (
        "CircularAgentCall: to wait would close a circle: lead -> low -> lead"
        in low_model.requests[1].tool_results[0].content
    )


# --- types


def test_what_a_map_yields_is_typed() -> None:
    judge = us.Agent("judge", model=ScriptedModel([]), output_type=int)

    for answer in judge.map(()):
        assert_type(answer, us.MapAnswer[int])
    for kept in judge.map((), keep_errors=True):
        assert_type(kept, us.MapAnswer[int] | us.MapFailure)


def test_the_first_program_of_the_page_on_many_inputs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "batch.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]

    exec(compile(code, "docs/batch.md", "exec"), {})  # noqa: S102 (it is our own page)

    assert sorted(capsys.readouterr().out.splitlines()) == ["0 spam", "1 ham", "2 spam"]
