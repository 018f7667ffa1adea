"""Maps with a name, and agents for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import understudy as us
from tests.support.scripts import finished
from understudy.testing import says

NAME = "nightly"
Answered: TypeAlias = "us.MapAnswer[Any] | us.MapFailure"


class Desk:
    """An agent that echoes, and knows what it was asked; it fails at what stands in `fails`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.agent = us.Agent("desk", model=us.FunctionModel(self._answer))

    def _answer(self, request: us.ModelRequest) -> us.ModelTurn:
        self.asked.append(request.text)
        if request.text in self.fails:
            raise self.fails[request.text]
        return says(request.text.upper())


def mapped(
    agent: us.Runner[Any], inputs: Sequence[Any], system: us.ActorSystem, name: str = NAME, **options: Any
) -> list[Answered]:
    """Return the answers in the order of the inputs, with failures."""
    return list(agent.map(inputs, name=name, system=system, ordered=True, keep_errors=True, **options))


def texts(answers: Sequence[Answered]) -> list[str]:
    return [finished(each.outcome).text if isinstance(each, us.MapAnswer) else repr(each.error) for each in answers]


def asking() -> us.Agent:
    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        return says("__ask_user__: Which?") if request.turn == 1 else says(request.messages[-1].text)

    return us.Agent("clerk", model=us.FunctionModel(next_turn))
