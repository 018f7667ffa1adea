"""Carries out programs of `wait_programs` with real runs, and says whether all that was refused had to be."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import cast
from unittest.mock import patch

import understudy as us
from understudy.testing import FunctionModel, calls, says
from understudy.vocabulary.context.ancestry import circular

from .wait_programs import RUNNING, Await, Begin, Program, State, in_words, key_of, may_deadlock

PATIENCE = 5.0  # Seconds within which every run of a program must be over.
ENDINGS = (us.UnderstudyError, BaseExceptionGroup, CancelledError)


@dataclass(slots=True)
class Report:
    """What came of a program.

    Attributes:
        refused: how many waits were.
        complaint: what must not be, in words; empty if there is nothing.
    """

    refused: int = 0
    complaint: str = ""


@dataclass(slots=True)
class Log:
    """How far the program is, and how far it was when a wait was refused first."""

    state: State
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Guards the others. Nothing of the runtime's is called under it."""
    refused: int = 0
    failed: list[str] = field(default_factory=list[str])
    """What calls had from the runs they began, if it was no cancellation."""
    first: State | None = None
    path: tuple[str, ...] = ()
    handles: dict[str, us.RunHandle[str]] = field(default_factory=dict[str, us.RunHandle[str]])
    """Of the roots and of what calls submitted; only asked for the status, which takes no lock."""

    def enter(self, run: str, turn: int) -> None:
        """Note that a run is at the beginning of a turn."""
        with self.lock:
            self.state.enter(run, turn)

    def at(self, run: str, turn: int, call: int, action: int) -> None:
        """Note that a call is about to do an action, or past the last one."""
        with self.lock:
            record = self.state.runs[run]
            if record.stage == RUNNING and record.turn == turn:
                record.calls[call] = action

    def begin(self, key: str, begin: Begin, outer: str) -> None:
        """Note a run that is about to begin."""
        with self.lock:
            self.state.begin(key, begin.agent, begin.conversation, self.state.runs[outer].root)

    def refuse(self, path: tuple[str, ...]) -> None:
        """Note that a wait is refused in this moment."""
        with self.lock:
            self.refused += 1
            if self.first is None:
                self.first = State(self.state.program)
                self.first.runs = deepcopy(self.state.runs)
                for key, handle in list(self.handles.items()):
                    if handle.status().phase in ("cancelled", "failed"):  # as a loser is that `first` cancels
                        self.first.fail(key)
                self.path = path

    def note(self, error: BaseException) -> None:
        """Note what a call had in place of an answer; a run that is cancelled is a loser of `first`."""
        if not _is_cancelled(error):
            with self.lock:
                self.failed.append(repr(error))


class Company:
    """The agents of a program, and what their tools do."""

    def __init__(self, program: Program, log: Log, seed: int) -> None:
        self._program = program
        self._log = log
        self._seed = seed
        self._ready = threading.Event()
        self._memory = us.InMemoryMemory()
        self._tools = [
            us.tool(name=f"slot{n}", max_parallel=limit, timeout=None)(self.act) for n, limit in self._limits
        ]
        self._tools.append(us.tool(name="free", timeout=None)(self.act))
        self._agents = [self._agent(number) for number in range(len(program.scripts))]
        self.handles: list[us.RunHandle[str]] = []

    @property
    def _limits(self) -> Iterator[tuple[int, int]]:
        return enumerate(self._program.slots)

    def _agent(self, number: int) -> us.Agent:
        script = self._program.scripts[number]

        def say(request: us.ModelRequest) -> us.ModelTurn:
            run, turn = (
                next(m.text for m in reversed(request.messages) if m.text and m.role == "user"),
                request.turn - 1,
            )
            self._log.enter(run, turn)
            if turn >= len(script):
                return says("over")
            said = says("")
            for place, call in enumerate(script[turn]):
                said = said + calls("free" if call.slot is None else f"slot{call.slot}", run=run, turn=turn, call=place)
            return said

        places = random.Random(f"{self._seed} {number}").choice((None, 1))  # fewer at once: no schedule that is new
        return us.Agent(
            f"a{number}",
            model=FunctionModel(say),
            tools=self._tools,
            memory=self._memory,
            max_parallel_calls=places,
        )

    def submit_all(self, system: us.ActorSystem) -> None:
        """Begin the roots."""
        for number, (agent, conversation) in enumerate(self._program.roots):
            handle = self._agents[agent].submit(f"r{number}", conversation_id=conversation, system=system)
            self.handles.append(handle)
            self._log.handles[f"r{number}"] = handle
        self._ready.set()

    def act(self, run: str, turn: int, call: int) -> str:
        """Carry out the actions of a call; it continues after a refusal or failure."""
        chance = random.Random(f"{self._seed} {run} {turn} {call}")
        self._log.at(run, turn, call, 0)
        assert self._ready.wait(PATIENCE)
        agent = int(self._log.state.runs[run].agent)
        actions = self._program.scripts[agent][turn][call].actions
        mine: dict[int, us.RunHandle[str]] = {}
        for place, action in enumerate(actions):
            self._log.at(run, turn, call, place)
            time.sleep(chance.choice((0.0, 0.0, 0.0005, 0.002)))  # for many orders; nothing relies on it
            try:
                if isinstance(action, Begin):
                    self._begin(key_of(run, turn, call, place), action, run, mine, place)
                else:
                    self._await(action, mine)
            except ENDINGS as error:
                self._log.note(error)
        self._log.at(run, turn, call, len(actions))
        return "done"

    def _begin(self, key: str, begin: Begin, outer: str, mine: dict[int, us.RunHandle[str]], place: int) -> None:
        self._log.begin(key, begin, outer)
        agent = self._agents[begin.agent]
        if begin.waits:
            agent.run(key, conversation_id=begin.conversation)
        else:
            mine[place] = self._log.handles[key] = agent.submit(key, conversation_id=begin.conversation)

    def _await(self, action: Await, mine: dict[int, us.RunHandle[str]]) -> None:
        handles = [self.handles[number] for number in action.roots]
        handles += [mine[place] for place in action.mine if place in mine]
        match action.mode:
            case "result":
                handles[0].result()
            case "collect":
                us.collect(handles).result()
            case "first":
                us.first(handles).result()


@contextmanager
def _watching(log: Log) -> Generator[None]:
    """Have the log know of each refusal in its very moment, for right after it others go on because of it."""

    def noted(*path: str) -> us.CircularAgentCall:
        log.refuse(path)
        return circular(*path)

    with patch("understudy.actors.waiting.graph.circular", noted):
        yield


def perform(program: Program, seed: int) -> Report:
    """Carry out a program; it must end in time, and its first refusal must happen in a state that may deadlock."""
    log = Log(State(program))
    with us.ActorSystem("stage", max_runs=program.max_runs) as system, _watching(log):
        company = Company(program, log, seed)
        company.submit_all(system)
        late = _late(log.handles)
        if late:
            doing = [f"{status.run_id} {status.agent_id}: {status.doing}" for status in system.health().runs]
            system.stop(0.0)
            return Report(log.refused, "\n".join([f"{late} did not end", *doing, *in_words(program)]))
        failed = tuple(log.failed)  # later ones are of calls that go on although their run was cancelled
        system.stop(PATIENCE)
    if failed and not log.refused:
        return Report(0, "\n".join([f"failed although no wait was refused: {failed[0]}", *in_words(program)]))
    if log.first is not None and not may_deadlock(log.first):
        return Report(log.refused, "\n".join([f"refused without need: {log.path}", *in_words(program)]))
    return Report(log.refused)


def _is_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(map(_is_cancelled, group.exceptions))
    return isinstance(error, (CancelledError, us.RunCancelled))


def _late(handles: Mapping[str, us.RunHandle[str]]) -> list[str]:
    """Wait for all runs, also for those that begin meanwhile: a system that stops begins none."""
    deadline = time.monotonic() + PATIENCE
    late: dict[str, bool] = {}
    while begun := [each for each in tuple(handles.items()) if each[0] not in late]:
        for name, handle in begun:
            try:
                handle.exception(max(0.0, deadline - time.monotonic()))
                late[name] = False
            except TimeoutError:
                late[name] = True
    return [name for name, is_late in late.items() if is_late]


def perform_all(programs: int, first_seed: int, draw: Callable[[random.Random], Program]) -> tuple[int, int]:
    """Carry out so many programs; returns how many had a wait refused, and how many waits were."""
    some = refused = 0
    for seed in range(first_seed, first_seed + programs):
        report = perform(draw(random.Random(seed)), seed)
        assert not report.complaint, f"seed {seed}: {report.complaint}"
        some += report.refused > 0
        refused += report.refused
    return some, refused
