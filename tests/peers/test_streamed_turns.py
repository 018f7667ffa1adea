"""Streamed turns against a server that answers in the forms of several APIs."""

from __future__ import annotations

import pytest

import understudy as us
from tests.support.peers import Peer, Provider
from tests.support.scripts import WAIT, finished

from .test_exchanges import ANSWER, BOTH, FOREIGN, MEANING, PROMPT


@us.tool
def on_shelf(sku: str, shop: str = "main") -> int:
    """Count the units of a product on the shelf."""
    return {"main": 7, "east": 2}[shop]


@us.tool
def look_up(word: str) -> str:
    """Look a word up."""
    return MEANING


@pytest.mark.parametrize(
    ("asked", "tool", "text"),
    [(BOTH, on_shelf, "Seven and two."), (FOREIGN, look_up, ANSWER), ("Tell me all", on_shelf, "It began")],
)
def test_a_streamed_run_is_the_blocking_one_and_shows_its_text_in_pieces(
    peer: Peer, provider: Provider, asked: str, tool: us.Tool[..., object], text: str
) -> None:
    with provider.client(peer) as model:
        agent = us.Agent("clerk", model=model, tools=[tool], system_prompt=PROMPT if asked == FOREIGN else "")
        whole = finished(agent.run(asked, timeout=WAIT * 2))

        with agent.stream(asked, timeout=WAIT * 2) as stream:
            events = list(stream)

    outcome = finished(stream.handle.result(WAIT))
    deltas = [event.text for event in events if isinstance(event, us.TextDelta) and event.turn == outcome.turns]
    assert "".join(deltas) == outcome.text == whole.text == text
    assert (outcome.messages, outcome.usage, outcome.completion_reason) == (
        whole.messages,
        whole.usage,
        whole.completion_reason,
    )
