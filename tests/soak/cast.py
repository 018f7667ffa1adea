"""The agents of the soak: what each kind of run does, and how it must end."""

from __future__ import annotations

import random
import threading
from collections import Counter

import understudy as us
from bench.holding import Gate
from understudy.testing import FunctionModel, calls, says

SHARES = {
    "failing": 100,
    "hanging": 15,
    "hanging among others": 5,
    "crashing": 40,
    "poison": 10,
    "asking": 50,
    "nested": 50,
}
"""Of a thousand runs, how many are of which kind; the others only use a tool."""
EXPECTED = {
    "plain": "Complete",
    "failing": "Complete, raised",
    "hanging": "Complete, timed_out",
    "hanging among others": "Complete, timed_out",
    "crashing": "Complete",
    "poison": "AgentCrashed",
    "asking": "Complete",
    "nested": "Complete",
}
"""Kind of run -> how every one of them ends."""
HANGING = tuple([kind for kind in EXPECTED if kind.startswith("hanging")])
TOOL_TIMEOUT = 0.05


class Kinds:
    """Deals kinds out to runs, the same ones every time."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        self._deck: list[str] = []

    def next(self) -> str:
        """Return the kind of the next run; of any thousand in a row that begins at a full one, the shares are exact."""
        if not self._deck:
            self._deck = [kind for kind, share in SHARES.items() for _ in range(share)]
            self._deck += ["plain"] * (1_000 - len(self._deck))
            self._random.shuffle(self._deck)
        return self._deck.pop()


class Cast:
    """The agents of one system. The input of a run is its kind.

    Args:
        gate: what the tools that hang wait for.
    """

    def __init__(self, gate: Gate) -> None:
        self._lock = threading.Lock()
        """Guards the ids of runs that have crashed."""
        self._crashed: set[str] = set()
        hang = us.tool(name="hang", timeout=TOOL_TIMEOUT)(gate.hold)
        self._inner = us.Agent("inner", model=FunctionModel(_answer), tools=[work])
        tools: list[us.ToolLike] = [work, fail, hang, us.tool(name="delegate")(self._delegate)]
        model = FunctionModel(_answer)
        self.agents = [
            us.Agent(id, model=model, tools=tools, system_prompt=self._prompt) for id in ("clerk", "cashier")
        ]

    def _delegate(self) -> str:
        """Have another agent do it."""
        return self._inner.run("plain").text

    def _prompt(self, context: us.RunContext) -> str:
        if context.input == "poison":
            raise ValueError("this input is not for me")
        if context.input == "crashing":
            with self._lock:
                first = context.run_id not in self._crashed
                self._crashed ^= {context.run_id}  # forgotten the second time
            if first:
                raise ValueError("not yet")
        return "Be brief."


def work(n: int) -> str:
    """Do something."""
    return str(n)


def fail(n: int) -> str:
    """Fail."""
    raise ValueError(f"{n} is no good")


def _answer(request: us.ModelRequest) -> us.ModelTurn:
    if request.turn > 1:
        return says("done")
    match request.messages[0].text:
        case "failing":
            return calls("fail", n=1)
        case "hanging":
            return calls("hang")
        case "hanging among others":
            return calls("work", n=1) + calls("hang") + calls("work", n=2)
        case "asking":
            return says("__ask_user__: Shall I?")
        case "nested":
            return calls("delegate")
        case _:
            return calls("work", n=1)


def ending(handle: us.RunHandle[str], agent: us.AgentRef[str], timeout: float) -> str:
    """Wait for the end of a run, go on with it if it asks, and name what became of it."""
    try:
        outcome = handle.result(timeout)
        if isinstance(outcome, us.NeedsInput):
            outcome = agent.resume(outcome.token, "yes", timeout=timeout)
    except us.UnderstudyError as error:
        return type(error).__name__
    wrong = [result.error_kind for message in outcome.messages for result in message.tool_results if result.is_error]
    return ", ".join([type(outcome).__name__, *[str(kind) for kind in wrong]])


def unexpected(endings: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return how often a run of which kind ended in another way than it must."""
    return {(kind, how): number for (kind, how), number in endings.items() if EXPECTED[kind] != how}
