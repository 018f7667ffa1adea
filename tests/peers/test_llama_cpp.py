"""A real engine: llama-cpp-python's server with a tiny model of random weights, whose calls and JSON a grammar makes valid.

It is not installed with the tests. These run where the variable LLAMA_CPP names a Python that has it, in an environment of its
own, where it is compiled: `pip install 'llama-cpp-python[server]' gguf numpy`, then `LLAMA_CPP=…/bin/python pytest --slow
tests/peers/test_llama_cpp.py`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest

import understudy as us
from tests.support.http import closed_port
from tests.support.other_servers import wait_until_answers
from tests.support.paths import ROOT
from understudy.vocabulary.messages import ModelRequest, user_message

T = TypeVar("T")

KEY = "key-of-the-server-0123456789"
START_TIMEOUT = 100.0  # Seconds.
STOP_TIMEOUT = 10.0
WINDOW = 4_096  # Tokens; a token of this model is a byte.
ROUNDS = 3
BRIEF = us.Settings(max_tokens=80)


@dataclass(frozen=True)
class Server:
    """A running server."""

    address: str

    def client(self, **options: Any) -> us.OpenAI:
        """Return a client of the server with one attempt."""
        given: dict[str, Any] = {"api_key": KEY, "attempts": 1, "base_url": f"{self.address}/v1", **options}
        return us.OpenAI("tiny", preset="llama-cpp-python", **given)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """Run the server."""
    python = os.environ.get("LLAMA_CPP")
    if python is None:
        pytest.skip(
            "no LLAMA_CPP in the environment: the path of a Python that has llama-cpp-python[server], gguf and numpy"
        )
    folder, port = tmp_path_factory.mktemp("llama"), closed_port()
    model = folder / "tiny.gguf"
    subprocess.run([python, str(ROOT / "tests/support/tiny_gguf.py"), str(model)], check=True, cwd=folder)
    options = {"model": model, "host": "127.0.0.1", "port": port, "n_ctx": WINDOW, "api_key": KEY, "seed": 1}
    chosen = {**options, "model_alias": "tiny", "chat_format": "chatml-function-calling"}
    words = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [python, "-m", "llama_cpp.server", *words], cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            known = {"authorization": f"Bearer {KEY}"}
            wait_until_answers(process, port, "/v1/models", folder / "log.txt", timeout=START_TIMEOUT, headers=known)
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(STOP_TIMEOUT)


@dataclass
class Shelf:
    """A typed answer."""

    units: int
    is_full: bool


def shelf_agent(model: us.OpenAI, seen: list[bool], settings: us.Settings) -> us.Agent[str]:
    """Return an agent with a tool that notes what it is given; this model calls it in every turn."""

    def on_shelf(only_full: bool) -> int:
        """Count the units of a product."""
        seen.append(only_full)
        return 7

    return us.Agent("clerk", model=model, tools=[on_shelf], settings=settings, max_turns=ROUNDS)


def result_of(agent: us.Agent[T], streamed: bool) -> us.Outcome[T]:
    """Return the outcome of a run, or raise its error."""
    if not streamed:
        return agent.run("How many?")
    with agent.stream("How many?") as events:
        for _ in events:
            pass
    return events.result()


@pytest.mark.parametrize(
    ("streamed", "settings"),
    [
        (False, BRIEF),
        # The server has no streams with the choice `auto`, which is that of all turns but the first.
        (True, replace(BRIEF, extra={"tool_choice": {"type": "function", "function": {"name": "on_shelf"}}})),
    ],
)
def test_a_tool_is_called_round_after_round(server: Server, streamed: bool, settings: us.Settings) -> None:
    seen: list[bool] = []
    with server.client() as model, pytest.raises(us.MaxIterationsExceeded, match=f"its {ROUNDS} model turns") as caught:
        result_of(shelf_agent(model, seen, settings), streamed)

    assert len(seen) == ROUNDS
    kinds = [type(part) for message in caught.value.messages for part in message.parts]
    assert kinds == [us.TextPart, *[us.ToolCall, us.ToolResult] * ROUNDS]


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_has_its_type(server: Server, streamed: bool) -> None:
    with server.client() as model:
        outcome = result_of(us.Agent("clerk", model=model, output_type=Shelf, settings=BRIEF), streamed)

    assert type(outcome.output) is Shelf
    assert type(outcome.output.units) is int


@pytest.mark.parametrize(
    ("options", "text", "error", "status"),
    [
        ({"api_key": "another-key-0123456789"}, "Hi", us.AuthenticationError, 401),
        ({}, "x" * WINDOW, us.ContextOverflow, 400),
        ({"settings": us.Settings(extra={"temperature": "hot"})}, "Hi", us.ProviderError, 500),
        ({"base_url": "http://127.0.0.1:9/v1"}, "Hi", us.ProviderError, None),
    ],
    ids=["key", "window", "request", "address"],
)
def test_an_error_has_its_class(
    server: Server, options: dict[str, Any], text: str, error: type[us.ProviderError], status: int | None
) -> None:
    given = dict(options)
    settings = given.pop("settings", us.Settings())
    with server.client(**given) as client, pytest.raises(us.ProviderError) as caught:
        client.complete(ModelRequest([user_message(text)], settings=settings))

    assert (type(caught.value), caught.value.status) == (error, status)
    assert KEY not in str(caught.value)
