"""Recorded tool loops, run whole: an agent with real tools against the replay server, turn by turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import understudy as us
from tests.support import wire
from tests.support.clients import client
from tests.support.sdk_types import as_read
from tests.support.wire import Case, obj
from tests.support.wire_streams import stream_cases

CASES: dict[str, Case] = {case.name: case for case in (*wire.cases(), *stream_cases())}

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


def lookup_population(country: str) -> str:
    """Returns the current population of the specified fictional country."""
    return "123124"


def get_country() -> str:
    return "Mexico"


def can_have_dragons(population: int) -> bool:
    """Returns True if the specified population can have dragons."""
    return population > 10_000


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
        wire.same_request(case.api, body, case.request, tools=wire.outline)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_a_loop_that_was_put_on_a_tape_ends_the_same_without_the_server(
    loop: Loop, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = CASES[f"{loop.name}.1"].wants.text
    tape = tmp_path / "tape.jsonl"
    with client(CASES[f"{loop.name}.1"], f"{server}/~run=taped", loop.name) as model, us.Recorder(tape) as recorder:
        recorded = agent(loop, recorder.record(model)).run(said, timeout=30)

    monkeypatch.setenv("UNDERSTUDY_OFFLINE", "1")
    replayed = agent(loop, us.Replay(tape)).run(said, timeout=30)

    assert recorder.calls == 2
    assert replace(replayed, run_id=recorded.run_id, cost_usd=recorded.cost_usd) == recorded  # a tape costs nothing
    assert replayed.usage.total_tokens == recorded.usage.total_tokens is not None


def test_an_error_of_the_server_is_replayed_as_it_was(server: str, tmp_path: Path) -> None:
    loop = Loop("gemini-gen-tool-loop-b", get_capital)
    first = CASES[f"{loop.name}.1"]
    tape = tmp_path / "tape.jsonl"
    with client(first, f"{server}/~run=taped", loop.name) as model, us.Recorder(tape) as recorder:
        recorded = agent(loop, recorder.record(model)).replace(max_iterations=5)
        with pytest.raises(us.ProviderError) as from_server:
            recorded.run(first.wants.text, timeout=30)
    with pytest.raises(us.ProviderError) as from_tape:
        agent(loop, us.Replay(tape)).replace(max_iterations=5).run(first.wants.text, timeout=30)

    assert (type(from_tape.value), str(from_tape.value)) == (type(from_server.value), str(from_server.value))
    assert {**vars(from_tape.value), "__notes__": []} == {**vars(from_server.value), "__notes__": []}  # of two models
    assert from_tape.value.status == 410


def test_a_failing_tool_is_told_to_the_model_as_it_was_recorded(server: str) -> None:
    loop = Loop("gemini-gen-tool-loop-b", get_capital)
    first = CASES[f"{loop.name}.1"]
    with client(first, server, loop.name) as model, pytest.raises(us.MaxIterationsExceeded):
        agent(loop, model).run(first.wants.text, timeout=30)  # the recording ends with another call

    for case, body in sent_turns(server, loop.name):
        wire.same_request(case.api, body, case.request, tools=wire.outline)


def test_reasoning_goes_back_encrypted_in_a_loop_of_the_responses_api(server: str) -> None:
    name = "openai-resp-tool-loop-reasoning-a"
    wants = CASES[f"{name}.1"].wants
    with client(CASES[f"{name}.1"], server, name) as model, pytest.raises(us.MaxIterationsExceeded):
        us.Agent(  # the recording ends with another call
            "replayed",
            model=model,
            tools=[lookup_population, can_have_dragons],
            settings=wants.settings,
            max_iterations=1,
        ).run(wants.text, timeout=30)

    turns = sent_turns(server, name)
    for case, body in turns:
        wire.same_request(case.api, body, case.request, tools=wire.outline)
    for case, body in turns:  # the last, for it is skipped without the library
        assert as_read(case.api, body) == body


def test_a_streamed_loop_sends_what_was_recorded_and_shows_the_recorded_text(server: str) -> None:
    loop = Loop("gemini-gen-tool-loop-stream-b", get_country)
    first, second = CASES[f"{loop.name}.1"], CASES[f"{loop.name}.2"]
    with client(first, server, loop.name) as model, agent(loop, model).stream(first.wants.text, timeout=30) as events:
        shown = "".join(events.text())

    assert shown == events.result().text == second.expected["text"] == "The capital of Mexico is Mexico City."
    for case, body in sent_turns(server, loop.name):
        wire.same_request(case.api, body, case.request, tools=wire.outline)


@pytest.mark.parametrize("loop", [*LOOPS, Loop("gemini-gen-tool-loop-b", get_capital)], ids=lambda loop: loop.name)
def test_the_requests_of_a_loop_have_the_types_of_the_official_library(loop: Loop, server: str) -> None:
    first = CASES[f"{loop.name}.1"]
    with client(first, f"{server}/~run=types", loop.name) as model, suppress(us.MaxIterationsExceeded):
        agent(loop, model).run(first.wants.text, timeout=30)

    for case, body in sent_turns(server, loop.name):
        assert as_read(case.api, body) == body


def test_a_loop_that_asks_for_a_turn_nobody_recorded_ends_with_the_servers_answer(server: str) -> None:
    loop = Loop("gemini-gen-tool-loop-b", get_capital)
    first = CASES[f"{loop.name}.1"]
    with client(first, f"{server}/~run=third", loop.name) as model, pytest.raises(us.ProviderError) as caught:
        agent(loop, model).replace(max_iterations=5).run(first.wants.text, timeout=30)

    assert caught.value.status == 410
