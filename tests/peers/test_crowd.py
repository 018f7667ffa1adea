"""One agent, asked by many threads at once over real connections."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import understudy as us
from tests.support.peers import Peer, Provider, Said
from tests.support.scripts import finished, results_of
from understudy.providers.http.retries import Timing

THREADS, RUNS = 16, 5
TICKETS = [f"{thread:02}-{run}" for thread in range(THREADS) for run in range(RUNS)]
TIMEOUT = 60.0


@us.tool
def look_up(ticket: str) -> str:
    """Look a ticket up."""
    return f"notes on {ticket}"


def question(provider: Provider, ticket: str) -> str:
    return f"What does {provider.name} know of ticket {ticket}?"


def script(provider: Provider, ticket: str) -> list[us.JsonObject]:
    """Return the fixtures of one run: nobody else's question or notes get its answer."""
    asked = question(provider, ticket)
    call: us.JsonObject = {"id": f"call_{ticket}", "name": "look_up", "arguments": f'{{"ticket": "{ticket}"}}'}
    return [
        {"match": {"userMessage": asked, "hasToolResult": False}, "response": {"toolCalls": [call]}},
        {
            "match": {"userMessage": asked, "toolCallId": f"call_{ticket}", "toolResultContains": f"notes on {ticket}"},
            "response": {"content": f"Ticket {ticket} is done."},
        },
    ]


def whole(provider: Provider, ticket: str) -> list[Said]:
    """Return what the model has read of one run before it answers."""
    return [
        ("user", question(provider, ticket)),
        ("call", f"call_{ticket}", "look_up", f'{{"ticket": "{ticket}"}}'),
        ("result", f"call_{ticket}", f"notes on {ticket}"),
    ]


def test_runs_of_many_threads_on_one_agent_are_never_mixed(peer: Peer, provider: Provider) -> None:
    peer.teach([fixture for ticket in TICKETS for fixture in script(provider, ticket)])
    together = threading.Barrier(THREADS)

    def work(agent: us.Agent, thread: int) -> list[tuple[str, str, list[str]]]:
        together.wait(TIMEOUT)
        found: list[tuple[str, str, list[str]]] = []
        for ticket in TICKETS[thread * RUNS : (thread + 1) * RUNS]:
            outcome = finished(agent.run(question(provider, ticket), timeout=TIMEOUT))
            found.append((ticket, outcome.text, [result.content for result in results_of(outcome)]))
        return found

    # With a clock of its own the client keeps no limits that a refusal in an earlier test has taught.
    with provider.client(peer, timing=Timing()) as model, ThreadPoolExecutor(THREADS, "crowd") as crowd:
        agent = us.Agent("clerk", model=model, tools=[look_up])
        working = [crowd.submit(work, agent, thread) for thread in range(THREADS)]
        answers = [answer for future in working for answer in future.result(TIMEOUT)]

    assert answers == [(ticket, f"Ticket {ticket} is done.", [f"notes on {ticket}"]) for ticket in TICKETS]
    arrived = sorted(arrival.conversation for arrival in peer.arrivals())
    assert arrived == sorted([said for t in TICKETS for said in (whole(provider, t)[:1], whole(provider, t))])
