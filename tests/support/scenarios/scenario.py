"""A rule of a run as data: who runs, what the model and all others say, and what must come of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import understudy as us

Answer = str | Mapping[str, us.Decision] | Mapping[str, int | us.Budget]
"""A person's text, decisions by call id, or limits to raise by their names."""


@dataclass(frozen=True, kw_only=True)
class Played:
    """What came of a scenario, at either level."""

    steps: tuple[str, ...]
    """`model`, `tools ID(ARGUMENTS) …`, `asks QUESTION`, `waits for ID …`, and the status or the error that the run came to."""
    text: str
    """The last text, or the error's words."""
    output: object = None
    reason: str = ""
    turns: int = 0
    rounds: int = 0
    usage: us.Usage = field(default_factory=us.Usage)
    cost_usd: float | None = None
    history: tuple[us.Message, ...] = ()
    """What the run added after its input. Of a run on threads that failed, only as much as its model has read."""
    error: BaseException | None = field(default=None, compare=False)


def call_words(id: str, arguments: Mapping[str, us.JsonValue]) -> str:
    """Return a call as steps have it, such as `a(sku=A-113)`."""
    return f"{id}({', '.join(f'{name}={value}' for name, value in arguments.items())})" if arguments else id


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One rule of a run. What is None is no part of the rule."""

    rule: str
    agent: us.Agent[object]
    turns: tuple[us.ModelTurn, ...]
    steps: str
    """As in `Played`, with `>` between them."""
    text: str = "Seven."
    output: object = None
    reason: str | None = None
    rounds: int | None = None
    usage: us.Usage | None = None
    cost_usd: float | None = None
    history: tuple[us.Message, ...] | None = None
    results: tuple[us.ToolResult, ...] | None = None
    """All results of tools in the history."""
    error: Mapping[str, object] = field(default_factory=dict[str, object])
    """Attributes of the error."""

    # --- what all others say, by the text or the call id that it is about

    returns: Mapping[str, str | Exception] = field(default_factory=dict[str, "str | Exception"])
    """Call id -> what the tool returns or raises; `result of ID` otherwise."""
    misfits: Mapping[str, str] = field(default_factory=dict[str, str])
    """Call id -> the problem of the call's arguments, in the words of the tool's signature."""
    resolutions: Mapping[str, us.Resolution] = field(default_factory=dict[str, "us.Resolution"])
    """Call id -> what `on_invalid_call` says."""
    verdicts: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Call id -> whether a person must approve it, as the tool's own rule has it."""
    met: Mapping[str, str] = field(default_factory=dict[str, str])
    """Text -> why it meets the criterion."""
    unjudged: tuple[str, ...] = ()
    """Texts that the criterion is not asked about."""
    after_model: Mapping[str, us.CallbackAction] = field(default_factory=dict[str, us.CallbackAction])
    """Text of a turn -> the callback's decision."""
    before_tool: Mapping[str, us.CallbackAction] = field(default_factory=dict[str, us.CallbackAction])
    after_tool: Mapping[str, us.CallbackAction] = field(default_factory=dict[str, us.CallbackAction])
    answers: tuple[Answer, ...] = ()
    """What each pause and each limit is answered with, in order; the run is over after the last."""

    @property
    def name(self) -> str:
        """The rule as a name in Python."""
        return re.sub(r"\W+", "_", self.rule)

    def check(self, played: Played) -> None:
        """Compare what came of the scenario with its rule."""
        assert played.steps == tuple(self.steps.split(" > ")), played
        assert self.text in played.text if played.error else self.text == played.text, played.text
        assert {name: getattr(played.error, name) for name in self.error} == dict(self.error), played.error
        for name in ("output", "reason", "rounds", "usage", "cost_usd"):
            if (expected := getattr(self, name)) is not None:
                assert getattr(played, name) == expected, (name, played)

    def check_history(self, history: tuple[us.Message, ...]) -> None:
        """Compare the messages of the run with its rule."""
        if self.history is not None:
            assert history == self.history, history
        if self.results is not None:
            results = tuple([result for message in history for result in message.tool_results])
            assert results == self.results, results
