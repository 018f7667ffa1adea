"""A run as a line of events: each event is text and back, and a line that is replayed comes to the state of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import understudy as us
from tests.orchestration.test_run_properties import Line, play, scripts, specs
from tests.support import oracle
from tests.support.machines import make_spec
from tests.support.scenarios import SCENARIOS
from tests.support.scenarios.by_hand import play_by_hand
from tests.support.scenarios.scenario import Scenario
from understudy.errors import ProtocolViolation
from understudy.orchestration import RunSpec
from understudy.orchestration.agent.rulings import Ruling
from understudy.orchestration.runs import definitions
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.lines import Entry, UnknownKind, body_of, event_of, line_of, text_of
from understudy.orchestration.runs.state import AgentLineState, Due
from understudy.testing import calls, says
from understudy.vocabulary.messages import ToolResult, Usage

SOME = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

# --- each event as text

words = st.sampled_from(["", "Seven.", "é\u2028\n", "half \ud83d of a pair", '{"a": null}'])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
actions = st.one_of(
    [
        st.builds(us.OverrideResponse, words),
        st.builds(us.RetryWithFeedback, st.just("Mend it.")),
        st.builds(us.RewriteArguments, st.dictionaries(st.just("a"), json_values)),
        st.builds(us.RewriteResult, words),
        st.builds(us.Skip, words),
        st.builds(us.Block, words),
        st.builds(us.RequireApproval, words),
        st.builds(us.Abort, words),
        st.builds(us.Continue),
    ]
)
HINTS: Mapping[object, st.SearchStrategy[Any]] = {
    str: words,
    object: json_values,
    int: st.integers(0, 9),
    float: st.sampled_from([0.0, 1.5, 1e-07]),
    us.Budget: st.builds(
        us.Budget, turns=st.none() | st.integers(1, 9), prices=st.just({"m": us.Price(input=1.0, output=2.0)})
    ),
    Ruling: st.builds(Ruling, st.just("guard"), actions),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Return values of a type, as events have them."""
    found = HINTS.get(hint) if isinstance(hint, type) else None
    if found is not None:
        return found
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of([values_of(each) for each in parts])
    if origin is tuple:
        return st.lists(values_of(parts[0]), max_size=2).map(lambda values: tuple(values))
    if origin is Literal:
        return st.sampled_from(parts)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(
            values_of(parts[0]) if parts[0] is int else st.sampled_from("xyz"), values_of(parts[1]), max_size=2
        )
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        hints = get_type_hints(hint)
        return st.builds(hint, **{each.name: values_of(hints[each.name]) for each in fields(hint) if each.init})
    return cast("st.SearchStrategy[Any]", cast(Any, st).from_type(hint))


def exactly(event: e.RunEvent) -> str:
    """Return an event with the types of all values, raw counts of tokens too, which do not count for equality."""
    return repr(event)


@pytest.mark.parametrize("kind", e.KINDS)
@given(data=st.data())
@SOME
def test_an_event_is_text_and_back(kind: str, data: st.DataObject) -> None:
    event = data.draw(values_of(e.KINDS[kind]))

    text = text_of([Entry(7, 1.5, event)])
    (entry,) = line_of(text)

    assert "\n" not in text
    assert exactly(entry.event) == exactly(event)
    assert (entry.seq, entry.at) == (7, 1.5)


def test_actions_that_look_alike_come_back_as_they_were() -> None:
    alike: list[Any] = [
        us.Block("No."),
        us.RequireApproval("No."),
        us.Skip("No."),
        us.Abort("No."),
        us.OverrideResponse("No."),
    ]

    for action in alike:
        event = e.CallsGuarded({"a": Ruling("guard", action)})
        assert event_of("CallsGuarded", body_of(event)) == event


def test_a_line_has_no_defaults_no_empty_counts_and_no_temporary_values() -> None:
    taken = e.TurnTaken(
        us.ModelTurn((us.TextPart("Seven."),)), changes=e.Changes({"temp:a": 1, "b": None}, ("temp:c", "d"))
    )

    assert json.loads(body_of(taken)) == {
        "turn": {"parts": [{"kind": "text", "text": "Seven."}]},
        "changes": {"values": {"b": None}, "removed": ["d"]},
    }
    assert json.loads(body_of(e.Accepted("clerk", "d", "Hi", session={"temp:a": 1}))) == {
        "runner": "clerk",
        "definition": "d",
        "input": "Hi",
    }
    assert body_of(e.ResultCame(ToolResult("a", "7"))) == '{"result":{"call_id":"a","content":"7"}}'
    assert body_of(e.RoundBegan(e.Spent(tool_calls=2))) == '{"spent":{"tool_calls":2}}'
    assert [body_of(each) for each in (e.RoundBegan(), e.ChildLimited("0", "r"))] == ["{}", '{"place":"0","run":"r"}']


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ("length", '"ended":"length"'),
        (None, '"finish_reason":"length"'),
        ("max_tokens", '"finish_reason":"length","raw_finish_reason":"max_tokens"'),
    ],
)
def test_a_turn_says_once_how_it_ended(raw: str | None, written: str) -> None:
    event = e.TurnCame(us.ModelTurn((), finish_reason="length", raw_finish_reason=raw))

    assert body_of(event) == f'{{"turn":{{"parts":[],{written}}}}}'
    assert event_of("TurnCame", body_of(event)) == event


def test_an_event_of_a_newer_version_is_told_apart_from_a_damaged_one() -> None:
    with pytest.raises(UnknownKind, match="no event is named 'Dreamt'"):
        line_of('[0,1.5,[0,"Dreamt",{}]]')
    for damaged in (
        '[0,1.5,[0,"Asked",{"number":"?"}]]',
        '[0,1.5,[0,"Asked",{"secret":1}]]',
        "[0",
        '[0,1.5,[0,"Asked",{]]',
        "null",
    ):
        with pytest.raises(ValueError, match="not a") as caught:
            line_of(damaged)
        assert "secret" not in str(caught.value).replace("secret: Extra", "") and "?" not in str(caught.value)


DEEP = "[" * 100_000
DAMAGED = {
    "cut off": '[0,1.5,[0,"Asked",{}]',
    "cut off in a text": '[0,1.5,[0,"CallBegan",{"call_id":"sec',
    "two in a line": '[0,1.5,[0,"Asked",{}]][1,1.5,[0,"Asked",{}]]',
    "digits of another script": '[٣,1.5,[0,"Asked",{}]]',
    "a place before the first": '[-1,1.5,[0,"Asked",{}]]',
    "a place without end": f'[{"9" * 5_000},1.5,[0,"Asked",{{}}]]',
    "a place of many digits": f'[{"9" * 400},1.5,[0,"Asked",{{}}]]',
    "a place that is none": '[true,1.5,[0,"Asked",{}]]',
    "no event": "[0,1.5]",
    "an event that is none": '[0,1.5,"Asked"]',
    "more than an event": '[0,1.5,[0,"Asked",{},{}]]',
    "milliseconds that are none": '[0,1.5,[0.5,"Asked",{}]]',
    "milliseconds without end": f'[0,1.5,[{"9" * 400},"Asked",{{}}]]',
    "a time that is none": '[0,NaN,[0,"Asked",{}]]',
    "a time without end": f'[0,{"9" * 400},[0,"Asked",{{}}]]',
    "a number without end": f'[0,1.5,[0,"Asked",{{"number":{"9" * 5_000}}}]]',
    "a constant that is not JSON": '[0,1.5,[0,"Opened",{"session":{"a":NaN}}]]',
    "a number beyond all": '[0,1.5,[0,"Opened",{"session":{"a":1e999}}]]',
    "half a pair between fields": '[0,1.5,[0,"Opened",{"session":{},\ud83d"system":"secret"}]]',
    "half a pair, and cut off": '[0,1.5,[0,"CallBegan",{"call_id":"\\ud83d sec]]',
    "deep": f'[0,1.5,[0,"Opened",{{"session":{{"a":{DEEP}]]',
    "half a pair, and deep": f'[0,1.5,[0,"Opened",{{"session":{{"\\ud83d":{DEEP}]]',
    "a NUL": '[0,1.5,[0,"Asked",{}\0]]',
    "another type": '[0,1.5,[0,"CallBegan",["secret"]]]',
    "a field too few": '[0,1.5,[0,"CallBegan",{}]]',
    "a field too many": '[0,1.5,[0,"Asked",{"more":"secret"}]]',
    "a field too many of a turn": '[0,1.5,[0,"TurnTaken",{"turn":{"parts":[],"more":"secret"}}]]',
    "a field too many of a part": '[0,1.5,[0,"TurnTaken",{"turn":{"parts":[{"kind":"text","text":"secret","more":1}]}}]]',
    "a field too many of a ruling": '[0,1.5,[0,"TurnRuled",{"turn":{"parts":[]},"ruling":{"by":"g","action":{"is":"Block","reason":""},"more":1}}]]',
    "a field too many of an action": '[0,1.5,[0,"TurnRuled",{"turn":{"parts":[]},"ruling":{"by":"g","action":{"is":"Block","reason":"secret","more":1}}}]]',
    "an action that its class refuses": '[0,1.5,[0,"TurnRuled",{"turn":{"parts":[]},"ruling":{"by":"g","action":{"is":"RetryWithFeedback","feedback":""}}}]]',
    "a turn that says twice how it ended": '[0,1.5,[0,"TurnCame",{"turn":{"parts":[],"ended":"stop","finish_reason":"stop"}}]]',
    "an action of no name": '[0,1.5,[0,"TurnRuled",{"turn":{"parts":[]},"ruling":{"by":"g","action":{"is":["secret"]}}}]]',
    "a part of another kind": '[0,1.5,[0,"TurnTaken",{"turn":{"parts":[{"kind":"dream","text":"secret"}]}}]]',
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_text_is_refused_without_its_words(text: str) -> None:
    with pytest.raises(ValueError, match="not a") as caught:
        line_of(text)

    assert type(caught.value) is ValueError
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_line_that_was_cut_off_is_refused() -> None:
    line = [Entry(3, 1.5, e.Accepted("clerk", "d", "Hi, [1]")), Entry(4, 2.501, e.CallBegan("]"))]
    text = text_of(line)

    assert line_of(text) == line
    for cut in range(1, len(text)):
        with pytest.raises(ValueError, match="not a line"):
            line_of(text[:cut])
    assert line_of("") == [] == line_of(text_of([]))


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(any_json, st.text(st.characters(codec=None)))
@settings(SOME, max_examples=200)
def test_any_value_of_a_session_and_any_text_come_back_exactly(value: Any, text: str) -> None:
    event = e.Closed(e.Changes({"a": value, "b": text}, (text.removeprefix("temp:"),)))
    try:
        line = text_of([Entry(0, 0.0, event)])
    except ValueError as error:
        assert "surrogate pair" in str(error)
        return

    assert exactly(line_of(line)[0].event) == exactly(event)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [nested(150), nested(5_000), float("inf"), 10**5_000, {1: 2}, {1, 2}],
    ids=["nested", "deep", "inf", "long", "key", "set"],
)
def test_what_json_cannot_carry_is_refused_before_it_is_written(value: Any) -> None:
    for event in e.Accepted("clerk", "d", "Hi", session={"a": value}), e.Closed(e.Changes({"a": value})):
        with pytest.raises(ValueError, match="JSON cannot carry"):
            body_of(event)
    body_of(e.Closed(e.Changes({"temp:a": value})))
    # How deep a model may nest differs between versions of Python.
    turn = us.ModelTurn((us.ToolCall("a", "look", {"n": nested(100_000)}),))  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="JSON cannot carry"):
        body_of(e.TurnTaken(turn))


def test_two_halves_of_a_pair_side_by_side_are_refused() -> None:
    with pytest.raises(ValueError, match="two halves of a surrogate pair"):
        body_of(e.CallBegan("\ud83d" + "\ude00"))


# --- the size of a line

ROUNDS, RESULT = 1_000, "Nothing new. " * 80
LONG_RUN: list[e.RunEvent] = [
    e.Accepted("clerk", "0" * 32, "Go."),
    e.Opened(),
    *[
        event
        for turn in range(1, ROUNDS + 1)
        for event in (
            e.TurnBegan(turn),
            e.TurnTaken(calls("look", number=turn)),
            e.RoundBegan(),
            e.CallBegan(f"call-{turn}-0"),
            e.ResultCame(ToolResult(f"call-{turn}-0", RESULT[:1_000]), duration=0.012),
        )
    ],
    *(e.TurnBegan(ROUNDS + 1), e.TurnTaken(says("Done.")), e.Closed(), e.Ended()),
]
"""A run of many rounds with results of 1 KB, as its runtime writes it: a result gets its name from its call."""


def bytes_of(*values: object) -> int:
    return sum([len(json.dumps(each, separators=(",", ":"))) for each in values])


def texts_of(event: e.RunEvent) -> int:
    """Return the bytes of what users, models and tools said: texts, names, ids and arguments, as JSON values, each once."""
    match event:
        case e.Accepted(input=text):
            return bytes_of(text)
        case e.TurnTaken(turn=turn):
            asked = [
                bytes_of(each.id, each.name, each.arguments) for each in turn.parts if isinstance(each, us.ToolCall)
            ]
            return sum(asked) + (bytes_of(turn.text) if turn.text else 0)
        case e.ResultCame(result=result):
            return bytes_of(result.content)
        case _:
            return 0


def test_a_long_run_comes_to_the_state_of_its_machine_again_and_is_little_longer_than_its_messages() -> None:
    state = AgentLineState(make_spec("look", max_turns=ROUNDS + 1, max_iterations=ROUNDS))
    for entry in line_of(text_of([Entry(seq, 0.0, event) for seq, event in enumerate(LONG_RUN)])):
        state.apply(entry.event)

    assert state.machine is not None
    messages = tuple(state.machine.messages)
    assert [each.content for message in messages for each in message.tool_results] == [RESULT[:1_000]] * ROUNDS
    assert (state.account.spending.all_turns, state.account.spending.tool_calls) == (ROUNDS + 1, ROUNDS)
    # As it is stored: the name and the fields of each event as text, its place and its time as numbers of 8 bytes in all.
    stored = sum([len(type(event).__name__) + len(body_of(event).encode()) + 8 for event in LONG_RUN])
    assert stored / len(TypeAdapter(tuple[us.Message, ...]).dump_json(messages)) <= 1.2
    assert stored / sum(map(texts_of, LONG_RUN)) <= 1.28


# --- definitions as data


def clerk_with(**options: Any) -> RunSpec:
    def look(sku: str, count: int = 1) -> str:
        return sku

    return us.Agent("clerk", model="rehearsal", tools=[look], **options).run_spec


DEFINITIONS = [
    clerk_with(),
    clerk_with(max_iterations=2, budget=us.Budget(turns=3), settings=us.Settings(stop=("x",), max_tokens=7)),
    clerk_with(output_type=dict[str, int], max_output_retries=0),
    clerk_with(compaction=us.Compaction(context_window=5_000, keep=0.2)),
    us.SequentialAgent("s", [us.Agent("a", model="rehearsal")], pass_output=True).run_spec,
    us.ParallelAgent("p", [us.Agent("a", model="rehearsal")], merge="first", max_parallel=2).run_spec,
    us.Workflow(
        "w", [us.Task("t", us.Agent("a", model="rehearsal"), prompt="${input} in ${place}", retries=1)]
    ).run_spec,
    us.Workflow("w", [us.Task("t", us.Agent("a", model="rehearsal"), prompt="${input} in ${place}")])
    .with_parameters({"place": ["Oslo"]})
    .run_spec,
]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: type(each).__name__)
def test_a_definition_is_text_and_back(definition: definitions.Definition) -> None:
    text = definitions.text_of(definition)
    back = definitions.definition_of(text)

    assert type(back) is type(definition)
    for each in fields(definition):
        assert getattr(back, each.name) == getattr(definition, each.name), each.name
    assert definitions.text_of(back) == text


def test_settings_of_a_provider_may_be_secret_and_are_left_out() -> None:
    text = definitions.text_of(clerk_with(settings=us.Settings(stop=("x",), extra={"key": "secret"})))

    assert "secret" not in text
    assert cast("RunSpec", definitions.definition_of(text)).settings == us.Settings(stop=("x",))


def test_the_model_that_sums_up_is_known_by_its_window_and_price() -> None:
    rule = us.Compaction(context_window=5_000, model="openai:gpt-4o")
    back = cast("RunSpec", definitions.definition_of(definitions.text_of(clerk_with(compaction=rule))))

    assert back.compaction is not None
    assert (back.compaction.priced_as, back.compaction.compaction.other_model) == ("openai:gpt-4o", None)


def test_a_schema_keeps_the_order_in_which_a_model_is_told_it() -> None:
    definition = clerk_with()
    back = cast("RunSpec", definitions.definition_of(definitions.text_of(definition)))

    assert [json.dumps(tool.schema) for tool in back.tools] == [json.dumps(tool.schema) for tool in definition.tools]


@pytest.mark.parametrize("text", ["", "[]", '["agent"]', '["dancer",{}]', '["agent",{"max_turns":"many"}]', "{}"])
def test_what_is_no_definition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a definition"):
        definitions.definition_of(text)


def test_two_definitions_with_one_fingerprint_have_two_digests_and_a_line_keeps_its_own() -> None:
    """A line of a run that was allowed four rounds, under a definition of today that allows one."""
    wide, narrow = make_spec("look", max_iterations=4), make_spec("look", max_iterations=1)
    digests = [definitions.digest_of(definitions.text_of(each)) for each in (wide, narrow)]
    line = [e.Accepted("clerk", digests[0], "Hi"), e.Opened()]
    for turn in (1, 2):
        line += [
            e.TurnBegan(turn),
            e.TurnTaken(calls("look")),
            e.RoundBegan(),
            e.ResultCame(ToolResult(f"call-{turn}-0", "7")),
        ]

    state = replayed(wide, line)

    assert wide.fingerprint() == narrow.fingerprint()
    assert digests[0] != digests[1]
    assert state.machine is not None
    assert (state.machine.state.iterations, state.due()) == (2, [Due("model", "3")])
    with pytest.raises(us.MaxIterationsExceeded):
        replayed(narrow, line)


# --- replay


def replayed(definition: RunSpec, line: Sequence[e.RunEvent]) -> AgentLineState:
    state = AgentLineState(definition)
    for event in line:
        state.apply(event)
    return state


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_line_of_a_scenario_comes_to_its_state_at_every_place(scenario: Scenario) -> None:
    with oracle.installed() as found:
        play_by_hand(scenario)

    assert found.differences == []
    assert found.compared > 0
    assert not found.skipped


@given(specs(), scripts)
@settings(SOME, max_examples=60)
def test_the_line_of_any_run_comes_to_its_state_at_every_place(spec: RunSpec, script: list[Line]) -> None:
    with oracle.installed() as found:
        play(spec, script)

    assert found.differences == []
    assert found.compared > 0


def test_a_round_that_a_budget_allowed_is_replayed_after_the_budget_is_spent() -> None:
    """A machine that is asked for its next step counts, and asks budgets that other runs spend from."""
    spec = replace(make_spec("look"), budget=us.Budget(tool_calls=1))
    line = [e.Accepted("clerk", "", "Hi"), e.Opened(), e.TurnBegan(1), e.TurnTaken(calls("look"))]

    state = replayed(spec, [*line, e.RoundBegan(e.Spent(tool_calls=1)), e.ResultCame(ToolResult("call-1-0", "7"))])
    again = replayed(spec, [*line, e.RoundBegan(e.Spent(tool_calls=9))])

    assert state.due() == [Due("model", "2")]
    assert again.due() == [Due("call", "call-1-0")]
    assert again.account.spending.tool_calls == 9


def test_a_round_of_which_no_call_may_run_is_replayed_at_the_last_turn() -> None:
    """The live run is refused its next turn in the step that counts the round."""
    line = [e.Accepted("clerk", "", "Hi"), e.Opened(), e.TurnBegan(1), e.TurnTaken(calls("unknown")), e.RoundBegan()]

    state = replayed(make_spec("look", max_turns=1), line)

    assert state.machine is not None
    assert (state.machine.state.phase, state.machine.state.iterations) == ("model", 1)


def test_a_round_whose_calls_were_all_cut_off_is_over() -> None:
    line = [e.Accepted("clerk", "", "Hi"), e.Opened(), e.TurnBegan(1), e.TurnTaken(calls("look")), e.RoundBegan()]
    cut = [e.Failed("RunCancelled", "by its caller", "cancelled"), e.CallsCut(("call-1-0",)), e.TakenOver()]

    assert replayed(make_spec("look"), [*line, *cut]).due() == [Due("model", "2")]


def test_a_failure_that_callbacks_are_to_see_ends_no_round_before_its_other_calls() -> None:
    spec = replace(make_spec("look"), watched=True, on_tool_error="raise")
    failed = e.ResultCame(ToolResult("call-1-0", "no", is_error=True, error_kind="raised", name="look"))
    both = e.TurnTaken(calls("look") + calls("look"))
    line = [e.Accepted("clerk", "", "Hi"), e.Opened(), e.TurnBegan(1), both, e.RoundBegan(), e.CallsGuarded({})]

    state = replayed(spec, [*line, failed, e.ResultsTaken()])
    assert state.due() == [Due("call", "call-1-1")]

    state.apply(e.ResultCame(ToolResult("call-1-1", "7", name="look")))
    assert state.due() == [Due("review", "1")]


def test_what_user_code_said_and_the_machine_refuses_changes_nothing() -> None:
    state = replayed(make_spec("look"), [e.Accepted("clerk", "", "Hi"), e.Opened(), e.TurnBegan(1)])
    assert state.machine is not None
    before = state.machine.to_json()

    with pytest.raises(ProtocolViolation):
        state.apply(e.TurnTaken(calls("look"), resolutions={5: us.SkipCall("no")}))

    assert state.machine.to_json() == before
    assert state.due() == [Due("model", "1")]


def test_asking_what_is_due_changes_nothing() -> None:
    state = replayed(
        make_spec("look"), [e.Accepted("clerk", "", "Hi"), e.Opened(), e.TurnBegan(1), e.TurnTaken(calls("look"))]
    )
    assert state.machine is not None
    before = state.machine.to_json()

    assert state.due() == state.due() == [Due("round", "1")]
    assert state.machine.to_json() == before


def test_a_line_has_what_was_spent_and_asks_no_price() -> None:
    spent = e.Spent(Usage(10, 5), cost=700, turns=1)
    state = replayed(
        make_spec(), [e.Accepted("clerk", "", "Hi"), e.Opened(), e.TurnBegan(1), e.TurnTaken(says("Hi."), spent=spent)]
    )

    figures = state.account.spending
    assert (figures.usage, figures.cost, figures.all_turns) == (Usage(10, 5), 700, 1)


def test_a_line_goes_on_under_another_definition_from_its_takeover_on() -> None:
    before, after = make_spec("look", max_turns=1), make_spec("look", max_turns=5)
    state = AgentLineState(before, {"new": after}.__getitem__)
    for event in [
        e.Accepted("clerk", "", "Hi"),
        e.Opened(),
        e.TurnBegan(1),
        e.TurnTaken(calls("look")),
        e.RoundBegan(),
    ]:
        state.apply(event)

    state.apply(e.TakenOver(definition="new"))
    state.apply(e.ResultCame(ToolResult("call-1-0", "7")))

    assert state.machine is not None
    assert (state.machine.spec, state.stays, state.due()) == (after, 2, [Due("model", "2")])


def test_a_run_that_ended_with_the_run_around_it_goes_on_from_its_own_line() -> None:
    """Its parent was cancelled: it has an end in its line, which another stay lifts."""
    line = [
        e.Accepted("clerk", "", "Hi"),
        e.Opened(),
        e.TurnBegan(1),
        e.Failed("RunCancelled", "the run around it", "cancelled"),
    ]
    state = replayed(make_spec(), line)
    assert state.due() == []

    state.apply(e.TakenOver())
    state.apply(e.Extended())

    assert state.due() == [Due("model", "1")]
