"""A proxy written by others between a client and a server: a tool loop, a typed answer, a stream, and an error of each class.

LiteLLM is not installed with the tests. These run where `litellm` is on the PATH, or where the variable LITELLM names it:
`pip install 'litellm[proxy]'` in an environment of its own, then `LITELLM=…/bin/litellm pytest --slow tests/peers/test_litellm.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

import understudy as us
from tests.support.http import HELLO, closed_port
from tests.support.ollama import ERRORS, ROUNDS, Stand, ollama
from tests.support.other_servers import wait_until_answers

KEY = "sk-key-of-the-proxy-0123456789"
START_TIMEOUT = 100.0  # Seconds; it imports for up to a minute on a busy machine.
STOP_TIMEOUT = 10.0


@dataclass(frozen=True)
class Proxy:
    """A running proxy, and the server behind it."""

    address: str
    stand: Stand

    def client(self, model: str) -> us.OpenAI:
        """Return a client of the proxy with one attempt."""
        preset = us.Preset(
            name="litellm", address=self.address, key_variables=("LITELLM_KEY",), typed_by="schema unless tools"
        )
        return us.OpenAI(model, preset=preset, api_key=KEY, attempts=1, extra_headers={"x-litellm-tags": "shop"})


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Generator[Proxy]:
    """Run LiteLLM in front of the stand-in for Ollama."""
    program = os.environ.get("LITELLM") or shutil.which("litellm")
    if program is None:
        pytest.skip("no litellm on the PATH, and no LITELLM in the environment")
    folder, port = tmp_path_factory.mktemp("litellm"), closed_port()
    with ollama() as stand:
        (folder / "config.json").write_text(json.dumps(_config(stand)))
        with (folder / "log.txt").open("w") as log:
            process = subprocess.Popen(
                [program, "--config", "config.json", "--host", "127.0.0.1", "--port", str(port)],
                cwd=folder,
                env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                log_file = folder / "log.txt"
                wait_until_answers(process, port, "/health/liveliness", log_file, timeout=START_TIMEOUT, headers={})
                yield Proxy(f"http://127.0.0.1:{port}", stand)
            finally:
                process.terminate()
                process.wait(STOP_TIMEOUT)


def _config(stand: Stand) -> dict[str, Any]:
    behind = {"api_base": f"http://{stand.host}/v1", "api_key": "key-of-the-server-0123456789"}
    names = ["llama3.2", *ERRORS]
    return {
        "model_list": [{"model_name": name, "litellm_params": {"model": f"openai/{name}", **behind}} for name in names],
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"num_retries": 0},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }


def on_shelf(sku: str) -> int:
    """Count the units of a product."""
    return 7


@dataclass
class Shelf:
    """A typed answer."""

    units: int


def test_a_tool_loop_goes_through(proxy: Proxy) -> None:
    before = len(proxy.stand.bodies)

    with proxy.client("llama3.2") as model:
        outcome = us.Agent("clerk", model=model, tools=[on_shelf]).run("How many?")

    assert (outcome.text, outcome.turns) == ('{"units": 7}', ROUNDS + 1)
    assert len(proxy.stand.bodies) - before == ROUNDS + 1
    assert outcome.usage.output_tokens == 5 * (ROUNDS + 1)


def test_a_streamed_tool_loop_goes_through(proxy: Proxy) -> None:
    with (
        proxy.client("llama3.2") as model,
        us.Agent("clerk", model=model, tools=[on_shelf]).stream("How many?") as events,
    ):
        for _ in events:
            pass

    assert (events.result().text, events.result().turns) == ('{"units": 7}', ROUNDS + 1)


@pytest.mark.parametrize("tools", [[], [on_shelf]], ids=["schema", "tool"])
def test_a_typed_answer_goes_through(proxy: Proxy, tools: list[Any]) -> None:
    with proxy.client("llama3.2") as model:
        outcome = us.Agent("clerk", model=model, tools=tools, output_type=Shelf).run("How many?")

    assert outcome.output == Shelf(7)
    assert ("response_format" in proxy.stand.bodies[-1]) == (not tools)


@pytest.mark.parametrize(
    ("model", "error", "status"),
    [
        ("locked", us.AuthenticationError, 401),
        ("busy", us.RateLimited, 429),
        ("full", us.ProviderError, 503),
        ("long", us.ContextOverflow, 400),
        ("broken", us.ProviderError, 500),
        ("nobody", us.ProviderError, 400),
    ],
)
def test_an_error_keeps_its_class(proxy: Proxy, model: str, error: type[us.ProviderError], status: int) -> None:
    with proxy.client(model) as client, pytest.raises(error) as caught:
        client.complete(HELLO)

    assert (type(caught.value), caught.value.provider, caught.value.status) == (error, "litellm", status)
    assert KEY not in str(caught.value)
