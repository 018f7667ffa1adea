"""Random programs of runs that wait for one another and for slots, conversations and places; and a model of each.

The model knows no refusals: it has every schedule, and those in which some run can never go on. Who gets a slot, a
conversation or a place is open in it, so it has all orders of coming there and some more.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

MOST_STATES = 20_000  # A search that has not found a deadlock by then is given up.


Mode: TypeAlias = Literal["result", "collect", "first"]
MODES: tuple[Mode, ...] = ("result", "collect", "first")


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a run of an agent; with `waits`, as `run` does, else as `submit` does."""

    agent: int
    conversation: str | None
    waits: bool


@dataclass(frozen=True, slots=True)
class Await:
    """Wait for runs: roots by their number, and those that this call submitted, by the place of the action."""

    mode: Mode
    roots: tuple[int, ...]
    mine: tuple[int, ...]


Action: TypeAlias = Begin | Await


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call: the tool, whose slots it may need, and what its function does."""

    slot: int | None
    actions: tuple[Action, ...]


Script: TypeAlias = tuple[tuple[Call, ...], ...]
"""The turns of an agent: calls that run at once."""


@dataclass(frozen=True, slots=True)
class Program:
    """Agents, the slots of their tools, and the runs that are begun from outside: (agent, conversation) pairs."""

    scripts: tuple[Script, ...]
    slots: tuple[int, ...]
    roots: tuple[tuple[int, str | None], ...]
    max_runs: int | None


def drawn(chance: random.Random) -> Program:
    """Draw a program. Agents begin only runs of later ones, so that none calls itself: that is refused for another reason."""
    agents = chance.randint(2, 5)
    busy = chance.choice(
        (0.08, 0.15, 0.3, 0.5)
    )  # how likely an action is; where all wait for all, everything deadlocks
    slots = tuple(chance.randint(1, 3) for _ in range(chance.randint(1, 3)))
    roots = chance.randint(2, 5)

    def conversation() -> str | None:
        return chance.choice([None, None, "a", "b"])

    def action(agent: int, submitted: list[int]) -> Action:
        if agent + 1 < agents and chance.random() < 0.4:
            return Begin(chance.randrange(agent + 1, agents), conversation(), chance.random() < 0.5)
        some = tuple(chance.sample(range(roots), chance.randint(1, 2)))
        mine = tuple(chance.sample(submitted, chance.randint(0, len(submitted))))
        mode: Mode = chance.choice(MODES)
        return Await("result", some[:1], ()) if mode == "result" else Await(mode, some if not mine else some[:1], mine)

    def call(agent: int) -> Call:
        actions: list[Action] = []
        submitted: list[int] = []
        for _ in range(3):
            if chance.random() > busy:
                continue
            place = len(actions)
            actions.append(action(agent, submitted))
            if isinstance(last := actions[-1], Begin) and not last.waits:
                submitted.append(place)
        return Call(chance.choice([None, *range(len(slots))]), tuple(actions))

    scripts = tuple(
        tuple(tuple(call(agent) for _ in range(chance.randint(1, 2))) for _ in range(chance.randint(1, 2)))
        for agent in range(agents)
    )
    begun = tuple((chance.randrange(agents), conversation()) for _ in range(roots))
    return Program(scripts, slots, begun, chance.choice([None, None, 1, 2, 3]))


# --- the model

NOT_BEGUN = -1
PLACE, CONVERSATION, RUNNING, OVER, FAILED = "place", "conversation", "running", "over", "failed"
ENDED = (OVER, FAILED)


@dataclass(slots=True)
class Run:
    """One run: which stage it is in, and how far its calls of the turn are; its key says where it was begun."""

    agent: int
    root: str
    conversation: str | None
    stage: str
    turn: int = 0
    calls: list[int] = field(default_factory=list[int])
    """Of each call of the turn the action it is at, or `NOT_BEGUN`."""


def key_of(run: str, turn: int, call: int, action: int) -> str:
    """Name the run that an action of a run begins."""
    return f"{run}/{turn}.{call}.{action}"


class State:
    """Where a program is."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.runs: dict[str, Run] = {}
        for number, (agent, conversation) in enumerate(program.roots):
            self.begin(f"r{number}", agent, conversation, f"r{number}")

    def begin(self, key: str, agent: int, conversation: str | None, root: str) -> None:
        """Have a run begin; one that is there already stays as it is."""
        if key not in self.runs:
            inside = key != root or self.program.max_runs is None
            self.runs[key] = Run(agent, root, conversation, CONVERSATION if inside else PLACE)

    def enter(self, key: str, turn: int) -> None:
        """Have a run be at the beginning of a turn; past the last one it is over."""
        run = self.runs[key]
        script = self.program.scripts[run.agent]
        run.turn = turn
        run.stage = RUNNING if turn < len(script) else OVER
        run.calls = [NOT_BEGUN] * len(script[turn]) if turn < len(script) else []

    def fail(self, key: str) -> None:
        """Have a run end without a success, such as a loser that `first` cancelled; it holds nothing any more."""
        self.runs[key].stage = FAILED
        self.runs[key].calls = []

    def settle(self) -> None:
        """Carry out every action that blocks no other, until none is left."""
        while any(self._advance(key, run) for key, run in list(self.runs.items())):
            pass

    def _advance(self, key: str, run: Run) -> bool:
        if run.stage == CONVERSATION and run.conversation is None:
            self.enter(key, 0)
            return True
        if run.stage != RUNNING:
            return False
        went = [self._advance_call(key, run, place) for place in range(len(run.calls))]
        if all(at == len(self._call(run, place).actions) for place, at in enumerate(run.calls)):
            self.enter(key, run.turn + 1)
            return True
        return any(went)

    def _call(self, run: Run, place: int) -> Call:
        return self.program.scripts[run.agent][run.turn][place]

    def _advance_call(self, key: str, run: Run, place: int) -> bool:
        call, before = self._call(run, place), run.calls[place]
        if before == NOT_BEGUN and call.slot is None:
            run.calls[place] = 0
        while NOT_BEGUN < (at := run.calls[place]) < len(call.actions) and self._is_done(key, run, place, at):
            run.calls[place] += 1
        return run.calls[place] != before

    def _is_done(self, key: str, run: Run, place: int, at: int) -> bool:
        action = self._call(run, place).actions[at]
        if isinstance(action, Begin):
            inner = key_of(key, run.turn, place, at)
            self.begin(inner, action.agent, action.conversation, run.root)
            return not action.waits or self.runs[inner].stage in ENDED
        awaited = [f"r{n}" for n in action.roots] + [key_of(key, run.turn, place, n) for n in action.mine]
        stages = [self.runs[each].stage for each in awaited]
        return (action.mode == "first" and OVER in stages) or all(stage in ENDED for stage in stages)

    def choices(self) -> Iterator[State]:
        """Return what may come next: somebody gets what others want too. Call it on a settled state."""
        for key, run in self.runs.items():
            if (run.stage == PLACE and self._has_place()) or (run.stage == CONVERSATION and self._may_talk(run)):
                following = self._copy()
                entering = following.runs[key]
                if entering.stage == PLACE:
                    entering.stage = CONVERSATION
                else:
                    following.enter(key, 0)
                yield following
            for place, at in enumerate(run.calls):
                slot = self._call(run, place).slot if at == NOT_BEGUN else None
                if slot is not None and self._holders(slot) < self.program.slots[slot]:
                    following = self._copy()
                    following.runs[key].calls[place] = 0
                    yield following

    def _has_place(self) -> bool:
        roots = [run for key, run in self.runs.items() if key == run.root]
        return sum(run.stage in (CONVERSATION, RUNNING) for run in roots) < (self.program.max_runs or 0)

    def _may_talk(self, wants: Run) -> bool:
        return all(
            run.root == wants.root or run.stage != RUNNING
            for run in self.runs.values()
            if run.conversation == wants.conversation
        )

    def _holders(self, slot: int) -> int:
        return sum(
            NOT_BEGUN < at < len(call.actions)
            for run in self.runs.values()
            for at, call in zip(run.calls, self._turn(run), strict=True)
            if call.slot == slot
        )

    def _turn(self, run: Run) -> Sequence[Call]:
        return self.program.scripts[run.agent][run.turn] if run.calls else ()

    def _copy(self) -> State:
        copied = State.__new__(State)
        copied.program = self.program
        copied.runs = {key: deepcopy(run) for key, run in self.runs.items()}
        return copied

    @property
    def is_over(self) -> bool:
        """Whether every run has ended."""
        return all(run.stage in ENDED for run in self.runs.values())

    @property
    def name(self) -> tuple[tuple[str, str, int, tuple[int, ...]], ...]:
        """What tells it from other states of the program."""
        return tuple(sorted((key, run.stage, run.turn, tuple(run.calls)) for key, run in self.runs.items()))


def may_deadlock(state: State, most: int = MOST_STATES) -> bool:
    """Whether a schedule from here has an end at which runs are left; also if there are too many states to know."""
    seen = set[object]()
    ahead = [state]
    while ahead:
        at = ahead.pop()
        at.settle()
        if at.is_over or at.name in seen:
            continue
        seen.add(at.name)
        if len(seen) > most:
            return True
        following = list(at.choices())
        if not following:
            return True
        ahead += following
    return False


def in_words(program: Program) -> Iterable[str]:
    """Tell what a program is, in lines."""
    yield f"slots {program.slots}, max_runs {program.max_runs}, roots {program.roots}"
    for number, script in enumerate(program.scripts):
        for turn, calls in enumerate(script):
            yield f"agent {number}, turn {turn}: " + " | ".join(f"slot {c.slot}: {list(c.actions)}" for c in calls)
