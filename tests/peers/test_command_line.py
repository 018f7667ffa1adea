"""The command line as a process of its own, with the server's address and a key in its environment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.peers import KEY, Peer, Said, without_keys

SPEC = """\
agents:
  - id: clerk
    model: {model}
    system_prompt: You answer stock questions. Be brief.
    tools: [on_shelf]
    settings:
      temperature: 0.0
      max_tokens: 500
"""
TOOLS = '''\
def on_shelf(sku: str, shop: str = "main") -> int:
    """Count the units of a product on the shelf."""
    return {"A-113": 7}.get(sku, 0)
'''
QUESTION = "Do we have five of A-113?"
HEARD: list[Said] = [
    ("system", "You answer stock questions. Be brief."),
    ("user", QUESTION),
    ("call", "call_shelf", "on_shelf", '{"sku": "A-113"}'),
    ("result", "call_shelf", "7"),
]
MODELS = [
    ("openai:gpt-4o", "OPENAI", "/v1", "/v1/chat/completions"),
    ("anthropic:claude-haiku-4-5", "ANTHROPIC", "", "/v1/messages"),
]
"""Model, what its variables begin with, what its base URL ends with, where its requests arrive."""


def understudy(
    folder: Path, model: str, variables: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    (folder / "shop.yaml").write_text(SPEC.format(model=model))
    (folder / "tools.py").write_text(TOOLS)
    command = [sys.executable, "-m", "understudy", "run", "shop.yaml", "clerk", QUESTION, "--tools", "tools.py"]
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=without_keys() | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def variables(peer: Peer, prefix: str, ending: str) -> dict[str, str]:
    return {f"{prefix}_API_KEY": KEY, f"{prefix}_BASE_URL": f"{peer.address}{ending}"}


@pytest.mark.parametrize(("model", "prefix", "ending", "path"), MODELS, ids=["openai", "anthropic"])
def test_a_run_of_the_command_line_ends_with_the_models_answer(
    peer: Peer, tmp_path: Path, model: str, prefix: str, ending: str, path: str
) -> None:
    done = understudy(tmp_path, model, variables(peer, prefix, ending))

    assert (done.returncode, done.stdout) == (0, "Yes: seven.\n"), done.stderr
    assert KEY not in done.stderr
    arrived = peer.arrivals()
    assert [a.conversation for a in arrived] == [HEARD[:2], HEARD]
    assert {(a.path, a.status) for a in arrived} == {(path, 200)}


@pytest.mark.parametrize(("model", "prefix", "ending", "path"), MODELS, ids=["openai", "anthropic"])
def test_the_command_lines_json_counts_the_rounds_and_the_tokens(
    peer: Peer, tmp_path: Path, model: str, prefix: str, ending: str, path: str
) -> None:
    done = understudy(tmp_path, model, variables(peer, prefix, ending), "--json")

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["text"], report["iterations"], report["usage"]["input_tokens"]) == ("Yes: seven.", 1, 31)
    assert {a.path for a in peer.arrivals()} == {path}


def test_a_run_without_a_key_fails_and_asks_nobody(peer: Peer, tmp_path: Path) -> None:
    done = understudy(tmp_path, "openai:gpt-4o", {"OPENAI_BASE_URL": f"{peer.address}/v1"})

    assert (done.returncode, done.stdout) == (1, "")
    assert "OPENAI_API_KEY" in done.stderr
    assert peer.arrivals() == []
