"""A player of runs with compaction: it checks each request, and counts which messages are summed up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from tests.support.compaction import WINDOW, is_summary, next_call, with_usage
from tests.support.machines import asks, call, completed, reloaded
from understudy.orchestration import AgentRun, CallTools
from understudy.vocabulary.messages import ModelRequest, ModelTurn, ToolResult, Usage, says
from understudy.vocabulary.runs.token_estimates import request_tokens

MARK = re.compile(r"<m\d+>")


def marked(number: int, length: int) -> str:
    return f"<m{number}>" + "x" * length


def check_request(request: ModelRequest) -> None:
    """Check that any provider accepts a request: roles alternate, and each call has its result at once."""
    messages = list(request.messages)
    assert [message.role for message in messages[:1]] == ["user"]
    assert messages[-1].role == "user"
    assert all(before.role != after.role for before, after in pairwise(messages))
    open_: list[str] = []
    for message in messages:
        assert [result.call_id for result in message.tool_results] == open_
        open_ = [each.id for each in message.tool_calls]
    assert not open_


def usage_of(request: ModelRequest, scale: float | None) -> Usage:
    return Usage() if scale is None else Usage(round(request_tokens(request) * scale), 20)


class Player:
    """Plays a run, checks each request, and counts how often a request for a summary has each marked message."""

    def __init__(self, run: AgentRun, scale: float | None, failing: Sequence[bool] = (), save: bool = False) -> None:
        self.run = run
        self.scale = scale
        self._failing = list(failing)
        self._save = save
        self.failed = False
        self.summed_up: Counter[str] = Counter()
        self.requests: list[ModelRequest] = []

    def call(self) -> ModelRequest:
        """Answer all requests for summaries, and return the request of the turn."""
        while is_summary(step := next_call(self.run)):
            if self._save:
                self.run = reloaded(self.run)
            assert request_tokens(step.request) * max(1.0, self._scale_of_summary()) <= WINDOW
            if self._failing and self._failing.pop():
                self.failed = True
                self.run.model_response(says(""))
                continue
            self.summed_up.update(set(MARK.findall(step.request.messages[0].text)))
            self.run.model_response(ModelTurn(says("So far.").parts, usage_of(step.request, self.scale)))
        check_request(step.request)
        assert next_call(reloaded(self.run)).request == step.request, "what is kept between two steps is not saved"
        self.requests.append(step.request)
        return step.request

    def _scale_of_summary(self) -> float:
        return 1.0 if self.scale is None or not self.run.state.turns else self.scale

    def turn(self, lengths: Sequence[int]) -> None:
        """Play a turn with calls whose results have these lengths."""
        request = self.call()
        number = len(self.run.messages)
        ids = [f"c{number}-{place}" for place in range(len(lengths))]
        turn = asks(*[call(id) for id in ids], before=marked(number, 40))
        usage = usage_of(request, self.scale)
        self.run.model_response(
            turn if usage == Usage() else with_usage(turn, input_tokens=usage.input_tokens or 0, output_tokens=60)
        )
        assert isinstance(self.run.next_step(), CallTools)
        results = [ToolResult(id, marked(number + 1, n), name="look") for id, n in zip(ids, lengths, strict=True)]
        self.run.tool_results(results)

    def end(self) -> None:
        self.call()
        self.run.model_response(says("Done."))
        assert completed(self.run).text == "Done."
