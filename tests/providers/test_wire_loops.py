"""Recorded tool loops, run whole: an agent with real tools against the replay server, turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import pytest

import understudy as us
from tests.support import wire
from tests.support.clients import client
from tests.support.wire import Case, obj

CASES = {case.name: case for case in wire.cases()}

pytestmark = pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)


def get_temperature(city: str) -> str:
    return "20.0"


def get_user_country() -> str:
    return "Mexico"


def weather(latitude: str, longitude: str) -> str:
    """Gets current weather for a location

    Args:
        latitude: Latitude (e.g., 52.5200)
        longitude: Longitude (e.g., 13.4050)
    """
    return f"Current weather at {latitude}, {longitude}: 15°C, Wind: 10 km/h"


def get_capital(country: str) -> str:
    """Get the capital of a country.

    Args:
        country: The country name.
    """
    raise ValueError('The country is not supported. Use "La France" instead.\n\nFix the errors and try again.')


@dataclass(frozen=True)
class Loop:
    name: str
    tool: Callable[..., str]


LOOPS = [
    Loop("openai-chat-tool-loop-b", get_temperature),
    Loop("anthropic-msgs-thinking-tool-loop-b", get_user_country),
    Loop("anthropic-msgs-tool-loop-a", weather),
    Loop("vertex-gen-tool-loop-a", weather),
]


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    with wire.replaying() as address:
        yield address


def agent(loop: Loop, model: us.Model) -> us.Agent:
    wants = CASES[f"{loop.name}.1"].wants
    return us.Agent(
        "replayed",
        model=model,
        system_prompt=wants.system,
        tools=[loop.tool],
        settings=wants.settings,
        max_iterations=1,
    )


def sent_turns(server: str, name: str) -> list[tuple[Case, us.JsonObject]]:
    """Return the last two requests with the recordings that they stand for."""
    entries = wire.log_of(server)[-2:]
    assert [e["case"] for e in entries] == [f"{name}.1", f"{name}.2"]
    return [(CASES[str(e["case"])], obj(e["body"])) for e in entries]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_an_agent_sends_what_was_recorded_and_ends_with_the_recorded_text(loop: Loop, server: str) -> None:
    first, second = CASES[f"{loop.name}.1"], CASES[f"{loop.name}.2"]
    with client(first, server, loop.name) as model:
        outcome = agent(loop, model).run(first.wants.text, timeout=30)

    assert outcome.text == second.expected["text"]
    assert outcome.iterations == 1
    for case, body in sent_turns(server, loop.name):
        wire.same_request(case.provider, body, case.request, tools=wire.outline)


def test_a_failing_tool_is_told_to_the_model_as_it_was_recorded(server: str) -> None:
    loop = Loop("gemini-gen-tool-loop-b", get_capital)
    first = CASES[f"{loop.name}.1"]
    with client(first, server, loop.name) as model, pytest.raises(us.MaxIterationsExceeded):
        agent(loop, model).run(first.wants.text, timeout=30)  # the recording ends with another call

    for case, body in sent_turns(server, loop.name):
        wire.same_request(case.provider, body, case.request, tools=wire.outline)


def test_a_loop_that_asks_for_a_turn_nobody_recorded_ends_with_the_servers_answer(server: str) -> None:
    loop = Loop("gemini-gen-tool-loop-b", get_capital)
    first = CASES[f"{loop.name}.1"]
    with client(first, f"{server}/~run=third", loop.name) as model, pytest.raises(us.ProviderError) as caught:
        agent(loop, model).replace(max_iterations=5).run(first.wants.text, timeout=30)

    assert caught.value.status == 410
