"""The queue worker of the page on turns: a pause goes through the queue, and a message may come twice."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

import understudy as us
from tests.support.paths import ROOT
from tests.support.run_page import blocks_of, run
from tests.support.tools import refund
from understudy.testing import ScriptedModel, calls, says


def test_the_worker_of_the_page_asks_for_each_delivery_of_a_pause_and_loses_nothing() -> None:
    page = ROOT / "docs" / "turns.md"
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page.read_text()):
        run(block, page, names)
    asked: list[tuple[str, str]] = []
    kept: list[str] = []
    tasks: queue.SimpleQueue[str] = names["tasks"]
    model = ScriptedModel([calls("refund", order="7", cents=1200), says("Done.")])
    clerk = us.Agent("clerk", model=model, tools=[refund])

    def ask(token: str, waiting: Sequence[us.ToolCall], _: Sequence[str]) -> None:
        asked.append((token, waiting[0].name))

    def keep(outcome: us.Outcome[str]) -> None:
        kept.append(outcome.text)

    names |= {"clerk": clerk, "ask": ask, "keep": keep}

    waiting = clerk.run_turn("Refund order 7")
    assert isinstance(waiting, us.NeedsApproval)
    names["deliver"](waiting.token)
    names["deliver"](waiting.token)
    assert asked == [(waiting.token, "refund")] * 2

    step = clerk.run_turn(token=waiting.token, answer=us.Approve())
    assert isinstance(step, us.MoreTurns)
    names["deliver"](waiting.token)
    assert tasks.get_nowait() == step.token
    names["deliver"](step.token)
    names["deliver"](step.token)

    assert (kept, tasks.empty()) == (["Done."], True)
