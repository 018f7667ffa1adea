"""The examples of potato-agent's page on orchestration, against aimock in the place of OpenAI."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import understudy as us
from tests.support.orchestration_examples import (
    ANSWERS,
    PROMPTS,
    Models,
    parallel_agent,
    parallel_step_inside_a_sequential_pipeline,
    sequential_agent,
    sequential_steps_inside_a_parallel_agent,
)
from tests.support.peers import KEY, Peer
from understudy.providers import OpenAI


@pytest.fixture
def models(peer: Peer) -> Iterator[Models]:
    """Return what makes clients of aimock, which knows the agents by their system prompts."""
    peer.teach(
        [{"match": {"systemMessage": PROMPTS[id]}, "response": {"content": text}} for id, text in ANSWERS.items()]
    )
    with ExitStack() as clients:

        def model(id: str, name: str) -> us.Model:
            return clients.enter_context(OpenAI(name, api_key=KEY, base_url=f"{peer.address}/v1", attempts=1))

        yield model


def told(peer: Peer) -> dict[str, str]:
    """Return what each agent was told, by its id."""
    ids = {prompt: id for id, prompt in PROMPTS.items()}
    conversations = [arrival.conversation for arrival in peer.arrivals()]
    assert all(len(said) == 2 for said in conversations)
    return {ids[said[0][1]]: said[1][1] for said in conversations}


@pytest.mark.parametrize(
    ("program", "printed", "heard"),
    [
        (
            sequential_agent,
            "Rust is a language.",
            {"planner": "Write a blog post about Rust", "executor": "1. Outline. 2. Write."},
        ),
        (
            parallel_agent,
            'All responses: ["positive", "Rust adds something."]',
            {"sentiment": "The new Rust release adds...", "summary": "The new Rust release adds..."},
        ),
        (
            parallel_step_inside_a_sequential_pipeline,
            "All of it agrees.",
            {
                "web_search": "What is known?",
                "database": "What is known?",
                "knowledge_base": "What is known?",
                "synthesizer": "Found in the knowledge base.",
            },
        ),
        (
            sequential_steps_inside_a_parallel_agent,
            '["a2 is done.", "b2 is done."]',
            {"step_a1": "Begin", "step_a2": "a1 is done.", "step_b1": "Begin", "step_b2": "b1 is done."},
        ),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_an_example_of_orchestration_comes_to_what_its_page_says(
    program: Callable[[Models], object],
    printed: str,
    heard: dict[str, str],
    models: Models,
    peer: Peer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program(models)

    assert capsys.readouterr().out == f"{printed}\n"
    assert told(peer) == heard
