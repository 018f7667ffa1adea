"""Mistakes made in the runtime's own text, of which the search must find one with each model, or the model shows nothing.

A mutant is an edit and no copy, so it changes with the code; an edit that no longer fits fails its test.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, ModuleType

import pytest

from understudy.actors.actor.lifecycle import Watchers
from understudy.actors.cells.mailbox import MailboxQueue
from understudy.actors.runs import run_actor
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.run_actor import AgentRunActor
from understudy.actors.runs.turns import RunTurns
from understudy.actors.system.run_manager import RunManager
from understudy.actors.threads.pool import ThreadPool
from understudy.actors.threads.promise import Promise
from understudy.actors.waiting.base_future import DerivedFuture
from understudy.actors.waiting.merged_future import MergedFuture

from . import models
from .search import Granularity


@dataclass(frozen=True, slots=True)
class Mutant:
    """A method with a mistake in it."""

    name: str
    models: tuple[Callable[[], None], ...]
    """The models that must find it; the schedule of the first is kept."""
    owner: type | ModuleType
    method: str
    edits: tuple[tuple[str, str], ...]
    """What stands there, once -> what stands there instead, on as many lines: schedules tell places by lines."""
    granularity: Granularity = "line"
    """Instructions only for what goes wrong within a line: a schedule told by lines fits more versions of Python."""

    @contextmanager
    def applied(self) -> Generator[None]:
        """Have the runtime make the mistake inside the `with` block."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.owner, self.method, self._made())
            yield

    def _made(self) -> Callable[..., object]:
        function = vars(self.owner)[self.method]
        assert isinstance(function, FunctionType)
        source = inspect.getsource(function)
        for old, new in self.edits:
            assert source.count(old) == 1, f"{self.name}: {old!r} stands {source.count(old)} times in {self.method}"
            assert old.count("\n") == new.count("\n"), f"{self.name}: an edit must not move the lines behind it"
            source = source.replace(old, new)
        source = source.replace("super()", f"super({self.owner.__name__}, self)")  # it is compiled outside of its class
        tree = ast.increment_lineno(ast.parse(textwrap.dedent(source)), function.__code__.co_firstlineno - 1)
        lazily = __future__.annotations.compiler_flag
        made: dict[str, Callable[..., object]] = {}
        code = compile(tree, function.__code__.co_filename, "exec", lazily, dont_inherit=True)
        exec(code, vars(sys.modules[function.__module__]), made)  # noqa: S102 (it is the runtime's own text)
        return made[self.method]


BOUND = 1500  # Schedules in which each must be found, from three seeds; most are within a hundred.

UNLOCKED = (("with self._lock:", "if True:"),)

MUTANTS = (
    Mutant("put_without_lock", (models.put_against_drain,), MailboxQueue, "put", UNLOCKED),
    Mutant(
        "close_without_lock",
        (models.put_against_close, models.ask_against_orderly_stop),
        MailboxQueue,
        "close",
        UNLOCKED,
    ),
    Mutant(
        "take_without_lock",
        (models.ask_against_stop, models.wait_for_room_against_take),
        MailboxQueue,
        "take",
        (("lock.acquire()", "pass"), ("lock.release()", "pass")),
    ),
    Mutant("watch_without_lock", (models.watch_against_stop,), Watchers, "add", UNLOCKED),
    Mutant(
        "taken_without_lock",
        (models.result_against_takeover,),
        AgentRunActor,
        "_take_work",
        (("with self.lock:", "if True:"),),
    ),
    Mutant(
        "end_without_lock",
        (models.cancel_against_finish,),
        RunRecord,
        "_stop",
        (("with self.lock:", "if True:"),),
    ),
    Mutant(
        "ends_in_a_message",
        (models.results_against_cancel,),
        RunTurns,
        "_stop",
        (("with mailbox.state:", "if True:"),),
    ),
    Mutant(
        "settled_forgotten",
        (models.results_against_cancel,),
        AgentRunActor,
        "_keep_settled",
        (("list(self._executed.values()), list[str]()", "list(self._executed.values())[:0], list[str]()"),),
    ),
    Mutant(
        "written_without_lock",
        (models.results_against_journal,),
        run_actor,
        "write_result",
        (("with part.lock:", "if True:"),),
    ),
    Mutant(
        "told_before_written",
        (models.results_against_journal,),
        AgentRunActor,
        "_write_and_tell",
        (("safely(", "self._call_over(call); safely("),),
    ),
    Mutant(
        "watched_last",
        (models.cancel_against_finish,),
        RunManager,
        "launch",
        (
            ("self._watchdog.watch(record)", "pass"),
            ("self._admission.enter(record)", "self._admission.enter(record); self._watchdog.watch(record)"),
        ),
    ),
    Mutant(
        "completes_in_a_turn",
        (models.cancel_against_finish, models.cancel_against_begin),
        RunTurns,
        "end",
        (("if self.mailbox.held_by == get_ident():", "if True:"),),
    ),
    Mutant(
        "rings_once",
        (models.result_against_alarm,),
        RunTurns,
        "_note_time",
        (("self.mailbox.alarm, self.mailbox.alarm_at = None, inf", "pass"),),
    ),
    Mutant("lent_without_lock", (models.claim_against_grow,), ThreadPool, "submit", UNLOCKED),
    Mutant("arrives_alone", (models.arriving_in_line,), ThreadPool, "arrived", (("if not self._queue:", "if True:"),)),
    Mutant(
        "retires_with_work",
        (models.claim_against_retire,),
        ThreadPool,
        "park",
        (("gate.acquire()  # lent", "return False  # lent"),),
    ),
    Mutant(
        "ending_without_lock",
        (models.first_against_cancel,),
        MergedFuture,
        "_end",
        UNLOCKED,
        "opcode",
    ),
    Mutant(
        "derived_without_lock",
        (models.join_misses_nobody,),
        DerivedFuture,
        "_hear",
        (
            *UNLOCKED,  # and two lines in place of one call, in which threads are not switched
            (
                "ended = self._ends.failed if isinstance(ending, Failure) else self._ends.succeeded",
                "ended = self._ends.succeeded",
            ),
            ("ended.append(place)", "self._ends.succeeded = [*ended, place]"),
        ),
    ),
    Mutant(
        "answer_without_lock",
        (
            models.collect_against_lapse,
            models.first_frees_its_losers,
            models.answer_against_wait,
            models.collect_misses_nobody,
        ),
        Promise,
        "finish",
        UNLOCKED,
    ),
)
