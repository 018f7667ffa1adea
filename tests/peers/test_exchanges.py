"""What one exchange with a model may hold: several calls of one turn, every script there is, half an answer."""

from __future__ import annotations

import threading

import understudy as us
from tests.support.peers import Peer, Provider, Said
from tests.support.scripts import WAIT, finished, results_of

BOTH = "Count A-113 in both shops"
FOREIGN = "Übersetze »naïve façade« 👋 für 東京"
PROMPT = "Réponds à l’œil, s’il te plaît: «ça» — 😀"
WORD = "東京タワー 🗼 “x\\y”\n"
MEANING = 'Żółć שלום 🗼 "\\" \u2028 e\u0301 👩\u200d🚀'
ANSWER = "Grüße aus 東京 👩\u200d🚀 — e\u0301, “\\”, \u2028 und שלום"


def test_the_calls_of_one_turn_run_at_once_and_each_gets_its_own_result(peer: Peer, provider: Provider) -> None:
    meeting = threading.Barrier(2)

    @us.tool
    def on_shelf(sku: str, shop: str = "main") -> int:
        """Count the units of a product on the shelf."""
        meeting.wait(WAIT)  # breaks unless both calls are here
        return {"main": 7, "east": 2}[shop]

    with provider.client(peer) as model:
        outcome = finished(us.Agent("clerk", model=model, tools=[on_shelf]).run(BOTH, timeout=WAIT * 2))

    expected: list[Said] = [
        ("user", BOTH),
        ("call", "call_main", "on_shelf", '{"sku": "A-113"}'),
        ("call", "call_east", "on_shelf", '{"shop": "east", "sku": "A-113"}'),
        ("result", "call_main", "7"),
        ("result", "call_east", "2"),
    ]
    assert (outcome.text, outcome.iterations, outcome.turns) == ("Seven and two.", 1, 2)
    assert [(r.call_id, r.content) for r in results_of(outcome)] == [("call_main", "7"), ("call_east", "2")]
    assert [a.conversation for a in peer.arrivals()] == [expected[:1], expected]


def test_text_of_any_script_arrives_as_it_was_sent_both_ways(peer: Peer, provider: Provider) -> None:
    looked_up: list[str] = []

    @us.tool
    def look_up(word: str) -> str:
        """Schlägt ein Wort nach: 言葉."""
        looked_up.append(word)
        return MEANING

    with provider.client(peer) as model:
        agent = us.Agent("traducteur", model=model, system_prompt=PROMPT, tools=[look_up])
        outcome = finished(agent.run(FOREIGN, timeout=WAIT * 2))

    assert outcome.text == ANSWER
    assert looked_up == [WORD]
    last = peer.arrivals()[-1]
    assert [said for said in last.conversation if said[0] != "call"] == [
        ("system", PROMPT),
        ("user", FOREIGN),
        ("result", "call_words", MEANING),
    ]
    assert [call.arguments for message in last.request.messages for call in message.tool_calls] == [{"word": WORD}]
    assert [tool.description for tool in last.request.tools] == ["Schlägt ein Wort nach: 言葉."]


def test_an_answer_that_was_cut_off_says_so(peer: Peer, provider: Provider) -> None:
    with provider.client(peer) as model:
        outcome = us.Agent("teller", model=model).run("Tell me all", timeout=WAIT * 2)

    assert outcome.text == "It began"
    assert outcome.completion_reason == "the model's answer was cut off at max_tokens"
