"""What holds of every request in a run with compaction, whatever was said and however long the results are."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.compaction import WINDOW, compacted_spec, is_summary, long_history, next_call
from tests.support.compaction_player import MARK, Player, check_request, marked
from understudy.orchestration import AgentRun
from understudy.vocabulary.messages import Message, says, user_message
from understudy.vocabulary.runs.token_estimates import request_tokens

FAST = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

lengths = st.sampled_from([0, 10, 200, 400, 1500, 4000])
turns = st.lists(st.lists(lengths, min_size=1, max_size=3), max_size=25)
"""Each turn of the run: the lengths of the results of its calls."""
histories = st.lists(st.tuples(lengths, lengths), max_size=25)
scales = st.sampled_from([None, 0.5, 1.0, 2.0])
"""How the provider counts, in its tokens for each estimated one; None if it reports nothing."""


def history_of(lengths: Sequence[tuple[int, int]]) -> list[Message]:
    found: list[Message] = []
    for asked, answered in lengths:
        found.append(user_message(marked(len(found), asked)))
        found.append(Message("assistant", says(marked(len(found), answered)).parts))
    return found


def play(run: AgentRun, script: Sequence[Sequence[int]], player: Player) -> Player:
    for lengths in script:
        player.turn(lengths)
    player.end()
    return player


@FAST
@given(histories, turns, scales, st.booleans())
def test_requests_are_valid_and_fit_and_each_message_is_summed_up_once(
    history: list[tuple[int, int]], script: list[list[int]], scale: float | None, prune: bool
) -> None:
    given_ = history_of(history)
    run = AgentRun(compacted_spec(prune=prune), marked(len(given_), 100), history=given_)
    player = play(run, script, Player(run, scale))

    assert set(player.summed_up.values()) <= {1}
    context = run.state.context
    assert context is not None
    covered = {mark for m in list(run.messages)[: context.upto] for mark in MARK.findall(str(m))}
    kept = {f"<m{len(given_)}>"} if context.keeps_input else set[str]()
    assert set(player.summed_up) == covered - kept
    if scale is None or scale <= 1:
        assert all(request_tokens(request) <= WINDOW for request in player.requests)
    assert [MARK.findall(str(m)) for m in run.messages][: len(given_)] == [[f"<m{n}>"] for n in range(len(given_))]


@FAST
@given(histories, turns, st.lists(st.booleans(), max_size=8), st.booleans())
def test_a_summary_that_fails_at_any_point_loses_no_message(
    history: list[tuple[int, int]], script: list[list[int]], failing: list[bool], save: bool
) -> None:
    given_ = history_of(history)
    run = AgentRun(compacted_spec(), marked(len(given_), 100), history=given_)
    player = play(run, script, Player(run, None, failing, save))

    context = player.run.state.context
    assert context is not None
    assert set(player.summed_up.values()) <= {1}
    seen = set(player.summed_up) | set(MARK.findall(str([list(r.messages) for r in player.requests[-1:]])))
    results_left_out = {mark for m in player.run.messages if m.tool_results for mark in MARK.findall(str(m))}
    assert {f"<m{n}>" for n in range(len(player.run.messages) - 1)} <= seen | results_left_out


@FAST
@given(histories, turns, st.integers(0, 6))
def test_a_request_that_is_refused_once_at_any_turn_is_replaced_by_a_shorter_one(
    history: list[tuple[int, int]], script: list[list[int]], at: int
) -> None:
    given_ = long_history(4) + history_of(history)
    run = AgentRun(compacted_spec(context_window=None), marked(999, 100), history=given_)
    player = Player(run, None)
    for number, lengths in enumerate(script):
        if number == at:
            before = request_tokens(next_call(run).request)
            if run.context_overflow():
                while is_summary(step := next_call(run)):
                    assert request_tokens(step.request) < before
                    run.model_response(says("So far."))
                check_request(step.request)
                assert request_tokens(step.request) < before
        if run.at_limit():
            return
        player.turn(lengths)
    player.end()
