"""Recorded tool loops after a long conversation: what a compaction keeps is sent as it was, with its signatures."""

from __future__ import annotations

import pytest

from tests.support import wire
from tests.support.bodies import body_of
from tests.support.compaction import WINDOW, compacted_spec, is_summary, long_history, next_call
from tests.support.compaction_player import MARK, Player, marked
from understudy.orchestration import AgentRun
from understudy.vocabulary.messages import Message, ModelTurn, ToolResult, says
from understudy.vocabulary.runs.token_estimates import request_tokens

pytestmark = pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)
CASES = {case.name: case for case in wire.cases()}
LOOPS = [
    "openai-chat-tool-loop-b.2",
    "anthropic-msgs-thinking-tool-loop-b.2",
    "anthropic-msgs-tool-loop-a.2",
    "gemini-gen-tool-loop-b.2",
    "vertex-gen-tool-loop-a.2",
]


@pytest.mark.parametrize("name", LOOPS)
def test_a_recorded_turn_is_sent_as_it_was_after_a_compaction(name: str) -> None:
    case = CASES[name]
    recorded = case.wants
    asked, called, answered = recorded.messages[-3:]
    names = [call.name for call in called.tool_calls]
    run = AgentRun(compacted_spec(tools=names, prune=False), asked.parts, history=long_history(20))
    summaries = 0
    while is_summary(next_call(run)):
        run.model_response(says("So far."))
        summaries += 1
    run.model_response(ModelTurn(called.parts, dialect=called.dialect))
    run.next_step()
    results = [part for part in answered.parts if isinstance(part, ToolResult)]
    run.tool_results(results)

    request = next_call(run).request
    assert summaries
    messages = "contents" if case.provider in ("gemini", "vertex") else "messages"
    ours, theirs = (body_of(case.provider, each, case.model)[messages] for each in (request, recorded))
    assert isinstance(ours, list)
    assert isinstance(theirs, list)
    sent_since = len(theirs) - 1 - bool(recorded.system and case.provider == "openai")
    assert ours[-sent_since:] == theirs[-sent_since:]


LENGTHS = ([2_000], [10, 400], [0], [6_000, 10], [200, 200, 200], [1_500])
"""Of the results of each turn, over and over."""


@pytest.mark.parametrize("name", LOOPS)
def test_300_turns_after_a_recorded_conversation_fit_into_8000_tokens_for_every_provider(name: str) -> None:
    recorded = CASES[name].wants.messages
    history = [*recorded, Message("assistant", says("So it is.").parts)]
    player = Player(AgentRun(compacted_spec(), marked(len(history), 100), history=history), 1.0)
    for number in range(300):
        player.turn(LENGTHS[number % len(LENGTHS)])
    player.end()

    assert len(player.requests) == 301
    for request in player.requests:
        assert request_tokens(request) <= WINDOW
        for api in ("openai", "anthropic", "gemini", "vertex"):
            assert body_of(api, request)
    context = player.run.state.context
    assert context is not None
    covered = {mark for m in list(player.run.messages)[: context.upto] for mark in MARK.findall(str(m))}
    kept = {f"<m{len(history)}>"} if context.keeps_input else set[str]()
    assert len(covered) > 400
    assert player.summed_up == dict.fromkeys(covered - kept, 1)
