"""What a work finds out about a model's turn, for the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from understudy.orchestration.agent.steps import Resolution, Verdict


class AboutTurn(TypedDict, total=False):
    """What the machine is told about a model's turn, besides the turn."""

    problems: Mapping[int, str]
    resolutions: Mapping[int, Resolution]
    approvals: Mapping[int, Verdict]
    met: str | None
    output_problem: str


NOTHING: AboutTurn = {}
