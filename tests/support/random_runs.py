"""Random runs on real threads: agents, groups and workflows whose models, tools and callbacks do as a seed says.

They call tools and sub-agents, write to the session, ask people, go wrong, fill their context window, stream, are cancelled,
reach limits and budgets, and go on after all that, in the same system or from a store.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, cast

import understudy as us
from understudy.orchestration.definitions.runner import Runner
from understudy.testing import FunctionModel, calls, says
from understudy.vocabulary.pieces import Piece, pieces_of
from understudy.vocabulary.runs.callbacks import AgentCallback, CallbackAction

from .scripts import WAIT
from .stores import DictStore
from .tree_plays import answer_for

STAYS = 8  # A run that has paused or ended so often is left where it is.
KEYS = ("a", "b", "c", "temp:d")
ERRORS: list[Callable[[], Exception]] = [
    lambda: us.RateLimited("slow down"),
    lambda: us.BadReply("no answer"),
    lambda: us.ContextOverflow("too long", tokens=9_000, limit=500),
    lambda: us.ProviderError("broken", retryable=True),
]


@dataclass
class Chance:
    """Draws of one part of a program; safe to use from any thread."""

    seed: str
    random: Random = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def one_in(self, number: int) -> bool:
        return self.below(number) == 0

    def below(self, number: int) -> int:
        with self.lock:
            return self.random.randrange(number)

    def of(self, *choices: Any) -> Any:
        return choices[self.below(len(choices))]


def touch(chance: Chance, session: Any) -> None:
    """Set or remove a key of a session, or do neither."""
    key = chance.of(*KEYS)
    match chance.below(4):
        case 0:
            session[key] = chance.below(9)
        case 1:
            session.pop(key, None)
        case 2:
            session.setdefault("list", []).append(chance.below(9))
        case _:
            pass


class Mind:
    """A model that says what chance says."""

    def __init__(self, chance: Chance, tools: list[str]) -> None:
        self._chance = chance
        self._tools = tools

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        chance = self._chance
        if chance.one_in(25):
            raise chance.of(*ERRORS)()
        usage = us.Usage(chance.of(None, 3, 40, 450), chance.of(None, 2, 9))
        if chance.below(4 + request.turn) < 3 and request.tools:
            turn = us.ModelTurn(())
            for _ in range(1 + chance.below(3)):
                turn = turn + self._call()
            return us.ModelTurn(turn.parts, usage, "tool_calls", "tool_calls")
        text = chance.of("Seven.", "7", "Done, all of it.", '{"a": 1}', "x" * 900, "__ask_user__: Which?", "")
        reason = chance.of(*["stop"] * 9, "length", "paused")
        return us.ModelTurn((us.TextPart(text),), usage, reason, reason)

    def _call(self) -> us.ModelTurn:
        name = self._chance.of(*self._tools, "nothing")
        if name.startswith("below"):
            return calls(name, input=self._chance.of("Go", "7"))
        return calls(name, n="odd" if self._chance.one_in(12) else self._chance.below(9))


class StreamingMind(Mind):
    """The same, in pieces, and sometimes cut off."""

    def stream(self, request: us.ModelRequest) -> Iterator[Piece]:
        for piece in pieces_of(self.complete(request)):
            if self._chance.one_in(40):
                raise us.ProviderError("cut off", retryable=True)
            yield piece


class Whim(AgentCallback):
    """A callback that mostly lets things be."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def _of(self, context: us.RunContext, *actions: CallbackAction) -> CallbackAction:
        touch(self._chance, context.session)
        if self._chance.one_in(60):
            raise ZeroDivisionError("a callback's own fault")
        return cast("CallbackAction", self._chance.of(*[us.Continue()] * 6 * len(actions), us.Continue(), *actions))

    def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> CallbackAction:
        return self._of(ctx, us.OverrideResponse("Ended."))

    def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> CallbackAction:
        return self._of(ctx, us.OverrideResponse("Mine."), us.RetryWithFeedback("Again."), us.Abort("No."))

    def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> CallbackAction:
        more: list[CallbackAction] = [us.Skip("no need"), us.Block("no"), us.RequireApproval("may it?")]
        return self._of(ctx, *more, us.RewriteArguments({"n": 1}))

    def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> CallbackAction:
        return self._of(ctx, us.RewriteResult("as I say"), us.Abort("No."))

    def on_error(self, ctx: us.RunContext, error: BaseException) -> CallbackAction:
        return self._of(ctx, us.OverrideResponse("Sorry."))

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[Any]) -> CallbackAction:
        touch(self._chance, ctx.session)
        return us.Continue()


def program(seed: object) -> Runner[Any]:
    """Return the runner that a seed stands for."""
    return _runner(Chance(f"{seed}"), 3, [0])


def _runner(chance: Chance, levels: int, made: list[int]) -> Runner[Any]:
    made[0] += 1
    id = f"r{made[0]}"
    kind = chance.of("agent", "agent", "sequence", "parallel", "workflow") if levels > 1 else "agent"
    if kind == "agent":
        return _agent(chance, id, levels, made)
    below = [_runner(chance, levels - 1, made) for _ in range(1 + chance.below(3))]
    if kind == "sequence":
        return us.SequentialAgent(id, below, pass_output=chance.of(False, True, "combined"))
    if kind == "parallel":
        merge, on_error = chance.of("collect_all", "collect_all", "first"), chance.of("fail", "collect")
        limit = chance.of(None, 1, 2)
        return us.ParallelAgent(id, below, merge=merge, on_error=on_error, max_parallel=limit)
    tasks = [_task(chance, number, runner) for number, runner in enumerate(below)]
    return us.Workflow(id, tasks, max_parallel=chance.of(None, 1, 2))


def _decide(chance: Chance, _: object) -> bool:
    return chance.one_in(2)


def _task(chance: Chance, number: int, runner: Runner[Any]) -> us.Task:
    needs = [f"t{each}" for each in range(number) if chance.one_in(2)]
    prompt = "".join(["${input}", *[f" ${{{each}}}" for each in needs]])
    more: dict[str, Any] = chance.of(
        {},
        {},
        {"when": partial(_decide, chance)} if needs else {},
        {"until": partial(_decide, chance), "max_repeats": 2},
        {"retries": 1, "backoff": (0.0, 0.0)},
    )
    return us.Task(f"t{number}", runner, prompt=prompt, dependencies=needs, **more)


def _is_large(call: us.ToolCall, ctx: us.RunContext) -> bool:
    return call.arguments["n"] == 7


def _prompt(chance: Chance, ctx: us.RunContext) -> str:
    touch(chance, ctx.session)
    return "Be brief."


def _agent(chance: Chance, id: str, levels: int, made: list[int]) -> us.Agent[Any]:
    own = Chance(f"{chance.seed}/{id}")

    def look(n: int, ctx: us.ToolContext) -> str:
        touch(own, ctx.session)
        if own.one_in(12):
            raise ValueError("a tool's own fault")
        return "x" * int(own.of(1, 5, 700))

    @us.tool(approval=True)
    def pay(n: int) -> str:
        return "paid"

    @us.tool(approval=_is_large)
    def give(n: int, ctx: us.ToolContext) -> str:
        touch(own, ctx.session)
        return "given"

    def nest(n: int) -> str:
        return str(inner.run("7").text)

    usage = us.Usage(2, 1)
    inner = us.Agent(f"{id}-inner", model=FunctionModel(lambda _: says("7", usage=usage)))
    below = [_runner(chance, levels - 1, made) for _ in range(chance.below(2))] if levels > 1 else []
    subs = [us.SubAgent(each, name=f"below{number}") for number, each in enumerate(below)]
    names = ["look", "look", "pay", "give", "nest", *[each.name for each in subs]]
    options: dict[str, Any] = {}
    if chance.one_in(3):
        options["callbacks"] = [Whim(own)] * (1 + chance.below(2))
    if chance.one_in(2):
        options["compaction"] = us.Compaction(context_window=500, summary_tokens=40, prune=chance.of(True, False))
    if chance.one_in(4):
        limit: dict[str, Any] = {chance.of("turns", "tool_calls", "total_tokens"): 4 + chance.below(40)}
        options["budget"] = us.Budget(**limit)
    if chance.one_in(5):
        options["output_type"] = int
    if chance.one_in(6):
        options["criteria"], options["max_continues"] = [us.KeywordCriteria("done")], chance.below(3)
    if chance.one_in(4):
        options["system_prompt"] = partial(_prompt, own)
    if chance.one_in(4):
        options["on_tool_error"] = "raise"
    kind = chance.of(Mind, StreamingMind)
    return us.Agent(
        id,
        model=kind(own, names),
        tools=[look, pay, give, nest],
        sub_agents=subs,
        max_iterations=chance.of(1, 3, 8),
        max_turns=chance.of(2, 5, 12),
        max_parallel_calls=chance.of(None, 1, 2),
        on_invalid_call=chance.of("result", "retry"),
        **options,
    )


class Play:
    """One run of a program, over its pauses, limits and errors."""

    def __init__(self, seed: object) -> None:
        self.ends: Counter[str] = Counter()
        self._chance = Chance(f"{seed}/play")
        self._runner = program(seed)

    def perform(self, given: us.ActorSystem | None = None) -> None:
        """Bring the run to its end, or as far as it goes: in this system, or in systems of its own that it stops."""
        chance = self._chance
        store = DictStore() if given is None and chance.one_in(3) else None
        session = chance.of(None, {"a": 1, "gone": [1]})
        budget = us.Budget(turns=6 + chance.below(30)) if chance.one_in(4) else None
        with ExitStack() as systems:

            def system() -> us.ActorSystem:
                made = us.ActorSystem("random", store=store)
                return systems.enter_context(made)

            here = given or system()
            begin = self._runner.submit
            end = self._wait(lambda: begin("Go", session=session, budget=budget, timeout=self._time(), system=here))
            for _ in range(STAYS):
                token = getattr(end, "token", "")
                if not token:
                    return
                if store is not None and chance.one_in(2):
                    here = system()
                more = self._given(end)
                resume, now = self._runner.submit_resume, here
                end = self._wait(lambda: resume(token, timeout=self._time(), system=now, **more))  # noqa: B023

    def _time(self) -> float:
        """Return the time limit of the run's next stay."""
        return WAIT

    def _wait(self, begin: Callable[[], us.RunHandle[Any]]) -> object:
        try:
            handle = begin()
            if self._chance.one_in(8):
                for number, _ in enumerate(handle.events()):
                    if number == self._chance.below(12):
                        handle.cancel()
            end: object = handle.result(WAIT)
        except (us.UnderstudyError, us.SeveralErrors, ValueError) as error:
            end = error
        self.ends[type(end).__name__] += 1
        return end

    def _given(self, end: object) -> dict[str, Any]:
        """Return what is given to a run that goes on."""
        chance, given = self._chance, dict[str, Any]()
        if isinstance(end, us.NeedsInput | us.NeedsApproval):
            pauses = end.pauses if chance.one_in(2) else end.pauses[:1]
            given["answer"] = {pause.id: answer_for(pause) for pause in pauses}
        elif isinstance(end, us.MaxIterationsExceeded) and end.what:
            given[end.what] = end.limit + 1 + chance.below(5)
        elif isinstance(end, us.BudgetExceeded) and end.what:  # empty if it was made of words in a store
            limit: dict[str, Any] = {end.what: int(end.limit) + 1 + chance.below(20)}
            given["budget"] = us.Budget(**limit)
        elif isinstance(end, us.Incomplete):
            given["max_continues"] = 5
        elif isinstance(end, us.InvalidOutput):
            given["max_output_retries"] = 5
        if chance.one_in(5):
            given["session"] = {"a": chance.below(9), "new": [1]}
        return given
