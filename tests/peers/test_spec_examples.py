"""The examples of potato-spec's page on specs, unchanged, against aimock in the place of the providers they name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import understudy as us
from tests.support.peers import KEY, Peer
from tests.support.spec_examples import COMPLETE, FORMAT, plan_and_execute
from understudy.providers import catalogue
from understudy.providers.http.model_client import HttpModel
from understudy.vocabulary.models import ModelName


@pytest.fixture(autouse=True)
def providers(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have model strings lead to aimock, and teach it to tell the agents by their system prompts."""
    clients = catalogue.Catalogue()  # their environment is that of now
    monkeypatch.setattr(catalogue, "_catalogue", clients)
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{peer.address}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", peer.address)
    answers = {
        "Outline the steps to complete": "1. Outline. 2. Write.",
        "Carry out the plan provided": "Rust is a language.",
        "You are a summarization assistant": "Tides rise twice a day. DONE",
        "Analyze the summary": "It is short.",
    }
    peer.teach([{"match": {"systemMessage": said}, "response": {"content": text}} for said, text in answers.items()])
    yield
    for name in ("openai:gpt-4o", "anthropic:claude-haiku-4-5"):
        client = clients.resolve(ModelName.parse(name))
        assert isinstance(client, HttpModel)
        client.close()


def heard(peer: Peer) -> list[str]:
    """Return what the models were told, in order."""
    return [arrival.conversation[-1][-1] for arrival in peer.arrivals()]


def test_the_complete_example_does_what_its_page_says(
    tmp_path: Path, peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(COMPLETE)

    plan_and_execute(str(file))

    assert capsys.readouterr().out == "Rust is a language.\n"
    assert heard(peer) == ["Write a blog post about Rust", "1. Outline. 2. Write."]


def test_the_format_runs_with_memory_criteria_and_callbacks(peer: Peer) -> None:
    pipeline = us.load_spec_text(FORMAT).sequential("pipeline")

    first = pipeline.run("Sum up: tides", conversation_id="c-42")
    second = pipeline.run("Again", conversation_id="c-42")

    assert (first.text, second.text) == ("It is short.", "It is short.")
    assert heard(peer) == ["Sum up: tides", "Tides rise twice a day. DONE", "Again", "Tides rise twice a day. DONE"]
    assert len(peer.arrivals()[2].conversation) == 4  # the system prompt, and the turn that the memory knows
