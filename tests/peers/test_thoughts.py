"""What a model thought: no part of its answer, and what becomes of it in the rest of a conversation."""

from __future__ import annotations

import pytest

import understudy as us
from tests.support import wire
from tests.support.peers import PROVIDERS, Peer, Provider, Said, Tagged
from tests.support.scripts import WAIT, finished

THINK = "Think before you look"
MORE = "And is that enough?"
THOUGHT: list[Said] = [
    ("user", THINK),
    ("call", "call_thought", "on_shelf", '{"sku": "A-113"}'),
    ("result", "call_thought", "7"),
]


@us.tool
def on_shelf(sku: str, shop: str = "main") -> int:
    """Count the units of a product on the shelf."""
    return {"A-113": 7}.get(sku, 0)


def test_thoughts_are_no_part_of_the_answer(peer: Peer, provider: Provider) -> None:
    with provider.client(peer) as model:
        outcome = finished(us.Agent("thinker", model=model, tools=[on_shelf]).run(THINK, timeout=WAIT * 2))

    assert (outcome.text, outcome.iterations) == ("Seven, as I thought.", 1)
    assert [a.conversation for a in peer.arrivals()] == [THOUGHT[:1], THOUGHT]


def test_a_signed_thought_goes_back_before_its_call_as_it_came(peer: Peer) -> None:
    (anthropic,) = [p for p in PROVIDERS if p.name == "anthropic"]
    wire_tap = Tagged("a signed thought")
    settings = us.Settings(thinking_tokens=1024)
    with anthropic.client(peer, transport=wire_tap) as model:
        us.Agent("thinker", model=model, tools=[on_shelf], settings=settings).run(THINK, timeout=WAIT * 2)

    # aimock refuses, as Anthropic does, a call that does not begin with its thought.
    assert [a.status for a in peer.arrivals()] == [200, 200]
    assert wire.objs(wire.objs(wire_tap.bodies[-1]["messages"])[1]["content"]) == [
        {
            "type": "thinking",
            "thinking": "Only the shelf knows. 考えよう",
            "signature": "c2lnbmVkIGJ5IHRoZSBtb2RlbA==",
        },
        {"type": "tool_use", "id": "call_thought", "name": "on_shelf", "input": {"sku": "A-113"}},
    ]


@pytest.mark.parametrize("next_provider", PROVIDERS, ids=lambda p: f"then-{p.name}")
def test_a_conversation_can_go_on_with_another_provider(
    peer: Peer, provider: Provider, next_provider: Provider
) -> None:
    with provider.client(peer) as first, next_provider.client(peer) as second:
        before = us.Agent("thinker", model=first, tools=[on_shelf]).run(THINK, timeout=WAIT * 2)
        after = us.Agent("thinker", model=second, tools=[on_shelf]).run(MORE, history=before.messages, timeout=WAIT * 2)

    assert after.text == "Plenty."
    last = peer.arrivals()[-1]
    assert last.path == next_provider.path
    # Google is not sent the ids of others: aimock, like Google, then pairs calls and results by name and order.
    ids = {said[1] for said in last.conversation if said[0] in ("call", "result")}
    assert len(ids) == 1
    history = [tuple(["call_thought" if word in ids else word for word in said]) for said in last.conversation]
    assert history == [*THOUGHT, ("assistant", "Seven, as I thought."), ("user", MORE)]
