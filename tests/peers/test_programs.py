"""The programs that users are shown: an agent with a tool, an approval, and a run driven by hand, against aimock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import understudy as us
from tests.support import wire
from tests.support.machines import reloaded
from tests.support.peers import Peer, Provider, Said, Tagged, conversation
from tests.support.scripts import finished, results_of

QUESTION = "Do we have five of A-113?"
REFUND = "Refund order 7, 1200 cents"
TIMEOUT = 30.0

ASKED: list[Said] = [("system", "You answer stock questions. Be brief."), ("user", QUESTION)]
LOOKED: list[Said] = [
    *ASKED,
    ("call", "call_shelf", "on_shelf", '{"sku": "A-113"}'),
    ("result", "call_shelf", "7"),
]
WANTED: list[Said] = [
    ("user", REFUND),
    ("assistant", "I will pay it back."),
    ("call", "call_refund", "refund", '{"cents": 1200, "order": "7"}'),
]
PAID = "refunded 1200 cents of order 7"
REJECTED = "Rejected: too much"


@us.tool
def on_shelf(sku: str, shop: str = "main") -> int:
    """Count the units of a product on the shelf.

    Args:
        sku: product number, such as A-113
        shop: which shop to look in
    """
    return {"A-113": 7}.get(sku, 0)


class Bank:
    """Pays, and knows what it paid."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []

    def refund(self, order: str, cents: int) -> str:
        self.paid.append((order, cents))
        return f"refunded {cents} cents of order {order}"


def cashier_of(bank: Bank, model: us.Model) -> us.Agent:
    @us.tool(approval=True, timeout=10, retries=2, idempotent=True)
    def refund(order: str, cents: int) -> str:
        """Pay money back."""
        return bank.refund(order, cents)

    return us.Agent("cashier", model=model, tools=[refund])


def clerk(model: us.Model) -> us.Agent:
    return us.Agent(
        "clerk",
        model=model,
        system_prompt="You answer stock questions. Be brief.",
        description="Answers questions about stock.",
        tools=[on_shelf],
        settings=us.Settings(temperature=0.0, max_tokens=500),
        max_iterations=5,
    )


def drive(
    run: us.AgentRun, complete: Callable[[us.ModelRequest], us.ModelTurn], decision: us.Decision
) -> tuple[us.Outcome, us.AgentRun]:
    """Carry a run to its end by hand, saving and loading it between all steps."""
    while True:
        match run.next_step():
            case us.CallModel(request=request):
                run.model_response(complete(request))
            case us.CallTools(calls=calls):
                run.tool_results([us.ToolResult(call_id=c.id, content=answer(c)) for c in calls])
            case us.AwaitApproval(calls=calls):
                run.decisions({c.id: decision for c in calls})
            case us.AwaitInput(question=question):
                raise AssertionError(f"nothing is asked: {question}")
            case us.Done(outcome=outcome):
                return outcome, run
        run = reloaded(run)


def answer(call: us.ToolCall) -> str:
    return "7" if call.name == "on_shelf" else PAID


def test_an_agent_with_a_tool_gets_the_model_what_it_asked_for(peer: Peer, provider: Provider) -> None:
    with provider.client(peer) as model:
        outcome = finished(clerk(model).run(QUESTION, timeout=TIMEOUT))

    assert (outcome.text, outcome.iterations, outcome.turns) == ("Yes: seven.", 1, 2)
    assert outcome.completion_reason == "the model answered"
    assert [(r.call_id, r.name, r.content) for r in results_of(outcome)] == [("call_shelf", "on_shelf", "7")]
    arrived = peer.arrivals()
    assert [a.conversation for a in arrived] == [ASKED, LOOKED]
    assert {(a.path, a.status) for a in arrived} == {(provider.path, 200)}


def test_what_an_agent_used_is_the_sum_of_what_its_turns_used(peer: Peer, provider: Provider) -> None:
    with provider.client(peer) as model:
        outcome = clerk(model).run(QUESTION, timeout=TIMEOUT)

    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (31, 8)


def test_every_request_offers_the_tools_and_settings(peer: Peer, provider: Provider) -> None:
    with provider.client(peer) as model:
        clerk(model).run(QUESTION, timeout=TIMEOUT)

    offered = [(t.name, t.description) for a in peer.arrivals() for t in a.request.tools]
    settings = [a.request.settings.extra for a in peer.arrivals()]
    assert offered == [("on_shelf", "Count the units of a product on the shelf.")] * 2
    assert [(s["temperature"], s["max_tokens"]) for s in settings] == [(0, 500)] * 2


def test_aimock_and_the_providers_form_tell_the_same_story(
    peer: Peer, provider: Provider, request: pytest.FixtureRequest
) -> None:
    wire_tap = Tagged(request.node.nodeid)
    with provider.client(peer, transport=wire_tap) as model:
        clerk(model).run(QUESTION, timeout=TIMEOUT)

    last = wire_tap.bodies[-1]
    messages = wire.objs(last.get("messages", last.get("contents")))
    assert tuple([message["role"] for message in messages]) == provider.roles
    assert [provider.result_ids(body) for body in wire_tap.bodies] == [[], ["call_shelf"]]
    assert [conversation(provider.read(body)) for body in wire_tap.bodies] == [ASKED, LOOKED]
    assert [a.conversation for a in peer.arrivals()] == [ASKED, LOOKED]


def test_an_approved_refund_is_paid_once_and_told_to_the_model(peer: Peer, provider: Provider) -> None:
    bank = Bank()
    with provider.client(peer) as model:
        cashier = cashier_of(bank, model)
        waiting = cashier.run(REFUND, timeout=TIMEOUT)
        assert isinstance(waiting, us.NeedsApproval)
        assert bank.paid == []
        outcome = finished(cashier.resume(waiting.token, us.Approve(), timeout=TIMEOUT))

    assert [(c.id, c.name, c.arguments) for c in waiting.calls] == [
        ("call_refund", "refund", {"order": "7", "cents": 1200})
    ]
    assert (outcome.text, outcome.iterations) == ("Done.", 1)
    assert bank.paid == [("7", 1200)]
    assert [a.conversation for a in peer.arrivals()] == [WANTED[:1], [*WANTED, ("result", "call_refund", PAID)]]


def test_a_rejected_refund_is_not_paid_and_the_model_reads_why(peer: Peer, provider: Provider) -> None:
    bank = Bank()
    with provider.client(peer) as model:
        cashier = cashier_of(bank, model)
        waiting = cashier.run(REFUND, timeout=TIMEOUT)
        assert isinstance(waiting, us.NeedsApproval)
        outcome = finished(cashier.resume(waiting.token, us.Reject("too much"), timeout=TIMEOUT))

    assert outcome.text == "Then not."
    assert bank.paid == []
    assert peer.arrivals()[-1].conversation == [*WANTED, ("result", "call_refund", REJECTED)]


@pytest.mark.parametrize(
    ("decision", "result", "text"), [(us.Approve(), PAID, "Done."), (us.Reject("too much"), REJECTED, "Then not.")]
)
def test_a_machine_carries_a_decision_to_the_model(
    peer: Peer, provider: Provider, decision: us.Decision, result: str, text: str
) -> None:
    with provider.client(peer) as model:
        run = us.AgentRun(us.RunSpec.of(cashier_of(Bank(), model)), REFUND)
        outcome, _ = drive(run, model.complete, decision)

    assert (outcome.text, outcome.iterations) == (text, 1)
    assert peer.arrivals()[-1].conversation == [*WANTED, ("result", "call_refund", result)]


def test_a_run_driven_by_hand_survives_being_saved_between_all_steps(peer: Peer, provider: Provider) -> None:
    with provider.client(peer) as model:
        outcome, run = drive(us.AgentRun(us.RunSpec.of(clerk(model)), QUESTION), model.complete, us.Approve())

    assert (outcome.text, outcome.iterations) == ("Yes: seven.", 1)
    assert [(r.call_id, r.content) for r in results_of(outcome)] == [("call_shelf", "7")]
    assert [a.conversation for a in peer.arrivals()] == [ASKED, LOOKED]
    assert reloaded(run).messages == run.messages


def test_a_run_by_hand_sends_what_the_runtime_sends(
    peer: Peer, provider: Provider, request: pytest.FixtureRequest
) -> None:
    by_hand, by_runtime = Tagged(request.node.nodeid), Tagged(request.node.nodeid)
    with provider.client(peer, transport=by_hand) as model:
        drive(us.AgentRun(us.RunSpec.of(clerk(model)), QUESTION), model.complete, us.Approve())
    with provider.client(peer, transport=by_runtime) as model:
        clerk(model).run(QUESTION, timeout=TIMEOUT)

    assert by_hand.bodies == by_runtime.bodies
