"""What the definitions' `run`, `submit`, `resume` and `submit_resume` call, and which system a run uses: the one that this code
runs inside of, else the process's default one.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from understudy.actors.journal.call_transaction import refuse_runs
from understudy.actors.memory.conversations import remembers
from understudy.actors.memory.persistent import PersistentMemory, persistent_in
from understudy.actors.run_view.errors import named
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.run_handle import Handle
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.store import Store
from understudy.actors.system.actor_system import ActorSystem, entered, inside, parked_in, runs_of
from understudy.actors.system.argument_checks import checked_map_name
from understudy.actors.system.maps.map_answers import Answers
from understudy.actors.system.maps.named_answers import NamedAnswers
from understudy.actors.system.maps.named_map import NamedMap, inside_of_run
from understudy.actors.system.run_manager import RunManager
from understudy.actors.threads.forked import Stage, at_fork
from understudy.actors.tools.batch_call import CallerThreadCalls
from understudy.actors.waiting.graph import graph
from understudy.errors import CircularAgentCall
from understudy.orchestration import Agent
from understudy.orchestration.agent.feed_checks import checked_history, checked_input
from understudy.orchestration.agent.state import check_answered
from understudy.orchestration.definitions.call_checks import refused_call
from understudy.orchestration.definitions.port import Answer, MapOptions, ResumeOptions, RunOptions
from understudy.orchestration.definitions.runner import Runner, below
from understudy.vocabulary.checks import UNSET, Unset, checked_flag, checked_seconds, checked_whole
from understudy.vocabulary.context.ancestry import DEFAULT_MAX_HOPS, check_hops, check_permits, current_ancestry
from understudy.vocabulary.context.budget import Budget
from understudy.vocabulary.context.session_values import check_key
from understudy.vocabulary.messages import Part, ToolCall, ToolResult
from understudy.vocabulary.other_names import OF_SYSTEMS, explains_parameters
from understudy.vocabulary.runs.memory import MemoryNotUsed
from understudy.vocabulary.runs.outcomes import Complete, Outcome, TurnOutcome

if TYPE_CHECKING:
    from understudy.vocabulary.runs.pause_store import PauseStore

STORE = "UNDERSTUDY_STORE"
"""The variable of the environment that names the default system's store; read when that system starts."""

_default: ActorSystem | None = None
_inherited: ActorSystem | None = None
"""In a forked child: the parent's default system, until somebody here uses it or sets up another."""
_store: Store | None = None
"""What `configure` was given, opened."""
_max_hops = DEFAULT_MAX_HOPS
_require_user = False
_default_lock = threading.Lock()
"""Guards all of these."""


@explains_parameters("configure", OF_SYSTEMS)
def configure(
    *,
    store: str | PauseStore | Unset = UNSET,
    max_hops: int | None = None,
    require_user: bool | None = None,
) -> None:
    """Set up the default system of this process; call it before that system is used. What is not given stays as it was.

    A forked child has what its parent had, and may be set up anew before it uses the default system. Systems that you make
    yourself have arguments of their own.

    Args:
        store: where it keeps paused runs, as for `ActorSystem`; "memory:" for none. It is opened now. It stands above
            the variable `UNDERSTUDY_STORE`.
        max_hops, require_user: as for `ActorSystem`.

    Raises:
        RuntimeError: the default system of this process is in use.
        ValueError: `store` names no store.
        StoreError: the store cannot be opened.
    """
    global _store, _inherited, _max_hops, _require_user
    if store is None:  # mostly a variable of the environment that is not set
        raise TypeError('store must be a URL, such as "sqlite:///shop.db" or "memory:", or a store; got None')
    if store is UNSET and max_hops is None and require_user is None:
        raise TypeError("configure needs store=…, max_hops=… or require_user=…")
    if max_hops is not None:
        checked_whole("max_hops", max_hops, 1)
    if require_user is not None:
        checked_flag("require_user", require_user)
    opened = None if isinstance(store, Unset) else open_store(store)
    with _default_lock:
        if _default is not None:
            raise RuntimeError(
                "the default system of this process is in use already; call us.configure(…) before the first run"
            )
        if store is not UNSET:
            _store = opened
        if max_hops is not None:
            _max_hops = max_hops
        if require_user is not None:
            _require_user = require_user
        _inherited = None


def current_system() -> ActorSystem:
    """Return the system this code runs inside of, else the process's default one, which `agent.run()` uses.

    The default system is made at its first use; `configure` comes before. Once it is stopped, runs need a system of your own.

    Raises:
        ValueError: `UNDERSTUDY_STORE` names no store.
        StoreError: its store cannot be opened.
    """
    inside = entered.get()
    if inside is not None:
        return inside
    return _default if _default is not None else _start_default()


def _start_default() -> ActorSystem:
    global _default, _inherited
    with _default_lock:
        if _default is None:
            if _inherited is not None:
                _default, _inherited = _inherited, None
            else:
                store = _store if _store is not None else _store_named_outside()
                _default = ActorSystem(store=store, max_hops=_max_hops, require_user=_require_user)
        return _default


def _store_named_outside() -> Store:
    """Open the store that the environment names."""
    try:
        return open_store(os.environ.get(STORE) or None)
    except ValueError as error:
        raise ValueError(f"{STORE}: {error}") from None


def _begin_anew_in_child() -> None:
    """Make the lock anew in a forked child: another thread may have held it. The default system is not in use yet."""
    global _default_lock, _default, _inherited
    _default_lock = threading.Lock()
    if _default is not None:
        _default, _inherited = None, _default


at_fork(Stage.DEFAULT_SYSTEM, _begin_anew_in_child)


RAISED = {"max_iterations": 0, "max_turns": 1, "max_continues": 0, "max_output_retries": 0}
"""Limits that `resume` can raise, and the lowest of each."""
REFUSED = "the code that submitted it was refused to wait for it"


class ThreadRuntime:
    """Carries out runs on this process's actor systems."""

    def submit(self, runner: object, input: str | Sequence[Part], options: RunOptions) -> Handle:
        """Begin a run and return its handle."""
        checked = _runner(runner)
        _refuse_caller_tools(checked)
        return _launched(*_prepare(checked, input, options))

    def run(self, runner: object, input: str | Sequence[Part], options: RunOptions) -> Outcome[object]:
        """Begin a run and wait for its outcome."""
        checked = _runner(runner)
        _refuse_circle(checked, options.system)
        return _carry_out(*_prepare(checked, input, options))

    def resume(self, runner: object, token: str, answer: Answer, options: ResumeOptions) -> Outcome[object]:
        """Go on with a paused run and wait for its outcome."""
        _check_resume(token, options)
        checked = _runner(runner)
        _refuse_circle(checked, options.system)
        return _carry_out(*_prepare_again(checked, token, answer, options))

    def submit_resume(self, runner: object, token: str, answer: Answer, options: ResumeOptions) -> Handle:
        """Go on with a paused run and return its handle."""
        _check_resume(token, options)
        checked = _runner(runner)
        _refuse_caller_tools(checked)
        system, record = _prepare_again(checked, token, answer, replace(options, stream=True))
        return _launched(system, record)

    def run_turn(self, runner: object, input: str | Sequence[Part], options: RunOptions) -> TurnOutcome[object]:
        """Begin a run and carry out its first turn."""
        checked = _runner(runner)
        _refuse_circle(checked, options.system)
        return _carry_out(*_prepare(checked, input, options, RunManager.prepare_turn))

    def execute(self, agent: object, call: ToolCall, options: RunOptions) -> ToolResult:
        """Make one call of a tool of an agent's and return its result."""
        checked = _runner(agent)
        assert isinstance(checked, Agent), "nothing but an agent has tools"
        _check("call", options)
        refused = refused_call(checked.run_spec, call)
        if refused is not None:
            return refused
        system = _system(options.system)
        outcome = _carry_out(system, runs_of(system).prepare_call(checked, call, options))
        assert isinstance(outcome, Complete)
        return cast(ToolResult, outcome.output)

    def go_on_turn(
        self, runner: object, token: str, answer: Answer, options: ResumeOptions, lease: float
    ) -> TurnOutcome[object]:
        """Carry out the next turn of a paused run."""
        _check_resume(token, options)
        if checked_seconds("lease", lease) is None:
            raise TypeError("lease must be a number of seconds, got None")
        checked = _runner(runner)
        _refuse_circle(checked, options.system)
        system = _system(options.system)
        _refuse_forbidden(checked, system)
        return _carry_out(system, runs_of(system).paused.go_on_turn(checked, token, answer, options, lease))

    def map(self, runner: object, inputs: Iterable[object], options: MapOptions) -> Answers:
        """Return the generator of the answers to many inputs."""
        checked = _runner(runner)
        _check_map(inputs, options)
        _refuse_caller_tools(checked)
        _refuse_circle(checked, options.system)
        system = _system(options.system)
        _refuse_forbidden(checked, system)
        prepare, named = partial(_prepare_one, system, checked), _named_map(system, checked, options)
        if named is None:
            return Answers(system, checked, iter(inputs), options, prepare)
        return NamedAnswers(system, checked, iter(inputs), options, prepare, named)


def _named_map(system: ActorSystem, runner: Runner[object], options: MapOptions) -> NamedMap | None:
    if options.name is None:
        return None
    if current_ancestry():
        raise ValueError(inside_of_run(options.name))
    runs = runs_of(system)
    maps = runs.journaling.maps_for(f"map(…, name={options.name!r})")
    return NamedMap(maps, runs, runner, options, parked_in(system))


Prepare: TypeAlias = Callable[[RunManager, Runner[object], str | Sequence[Part], RunOptions], RunRecord]


def _prepare(
    runner: Runner[object],
    input: str | Sequence[Part],
    options: RunOptions,
    prepare: Prepare = RunManager.prepare,
) -> tuple[ActorSystem, RunRecord]:
    _check(input, options)
    system = _system(options.system)
    _refuse_forbidden(runner, system)
    warn_of_unused_memory(runner, options)
    runs = runs_of(system)
    if options.conversation_id is not None:
        warn_of_lost_conversations(runner, runs)
    return system, prepare(runs, runner, input, options)


def _prepare_one(system: ActorSystem, runner: Runner[object], input: object, options: RunOptions) -> RunRecord:
    given = checked_input(input)
    _refuse_forbidden(runner, system)
    return runs_of(system).prepare(runner, given, options)


def _prepare_again(
    runner: Runner[object], token: str, answer: Answer, options: ResumeOptions
) -> tuple[ActorSystem, RunRecord]:
    system = _system(options.system)
    _refuse_forbidden(runner, system)
    return system, runs_of(system).paused.go_on(runner, token, answer, options)


def _launched(system: ActorSystem, record: RunRecord) -> Handle:
    handle = Handle(record)
    if record.link.begun_in:
        record.link.drop = partial(record.host.endings.cancel, record, REFUSED, kept=record.is_resumed)
    try:
        record.host.launch(record)
    except BaseException:  # an interrupt: nobody gets the handle, so nobody could end the run
        handle.drop()
        raise
    return handle


def _carry_out(system: ActorSystem, record: RunRecord) -> Outcome[object]:
    callers = current_ancestry()
    try:
        if not callers:
            return _launch_and_wait(system, record)
        record.ancestry = (*callers, record.link)
        with graph.waiting(callers, record.link):
            return _launch_and_wait(system, record)
    except BaseException:
        # Ctrl-C, SystemExit, a greenlet's exit: nobody will ask for this run again. A run that is done stays done.
        Handle(record).drop()
        raise


def _launch_and_wait(system: ActorSystem, record: RunRecord) -> Outcome[object]:
    if _needs_caller(record.runner) is None:
        record.host.launch(record)
        record.promise.wait()
    else:
        with CallerThreadCalls() as caller_calls, inside(system):
            record.caller_calls = caller_calls
            record.host.launch(record)
            caller_calls.run_until_over(record.promise)
    return record.promise.get()


def _needs_caller(runner: Runner[object]) -> str | None:
    """Return the name of the first tool, of the runner or those inside of it, whose calls run on the caller's thread."""
    for each in (runner, *below([runner])) if runner.inner_runners else (runner,):
        for tool in each.tools if isinstance(each, Agent) else ():
            if tool.isolation == "caller":
                return tool.name
    return None


def _refuse_caller_tools(runner: Runner[object]) -> None:
    name = _needs_caller(runner)
    if name is not None:
        raise ValueError(
            f"tool {name!r} has isolation='caller': its calls run on the thread that waits in run() or resume(), "
            "and after submit() or submit_resume() none does"
        )


def _refuse_circle(runner: Runner[object], given: object) -> None:
    callers = current_ancestry()
    if not callers:
        return
    try:
        graph.check(callers, runner)
    except CircularAgentCall as error:
        runs_of(_system(given)).tell_refused(runner, error)
        raise


def _refuse_forbidden(runner: Runner[object], system: ActorSystem) -> None:
    refuse_runs()
    check_permits(runner)
    check_hops(runner, runs_of(system).max_hops)


def _runner(given: object) -> Runner[object]:
    if not isinstance(given, Runner):
        raise TypeError(f"expected an agent, a group or a workflow, got {given!r}")
    return cast("Runner[object]", given)


def _system(given: object) -> ActorSystem:
    if given is None:
        return current_system()
    if not isinstance(given, ActorSystem):
        raise TypeError(f"system must be an ActorSystem, got {given!r}")
    return given


def _check(input: object, options: RunOptions) -> None:
    """Find a caller's mistakes before anything starts."""
    checked_input(input)
    _check_session(options.session)
    if options.history is not None:
        if isinstance(options.history, str) or not isinstance(options.history, Sequence):
            raise TypeError(f"history must be a sequence of Message objects, got {type(options.history).__name__}")
        checked_history(options.history)
        check_answered(options.history)
    if options.budget is not None and not isinstance(options.budget, Budget):
        raise TypeError(f"budget must be Budget(…) or None, got {options.budget!r}")
    user = options.user_id
    if user is not None and not isinstance(user, str):
        raise TypeError(f"user_id must be a string, or None if it is not known; got {user!r}")
    if user == "":  # a form field that was left empty would make one of all users
        raise ValueError("user_id must not be empty; leave it out where there is one user")
    given = options.conversation_id
    if given is not None and not isinstance(given, str):
        raise TypeError(f"conversation_id must be a string, or None; got {given!r}")
    if given == "":  # a form field that was left empty would put strangers into one conversation
        raise ValueError("conversation_id must not be empty; None is for a run that stands alone")
    checked_seconds("timeout", options.timeout)


def _check_session(session: object) -> None:
    if session is not None and not isinstance(session, Mapping):
        raise TypeError(f"session must be a SessionState or a mapping, got {type(session).__name__}")
    for key in cast("Mapping[str, object]", session or ()):
        check_key(key)


def _check_map(inputs: Iterable[object], options: MapOptions) -> None:
    """Find a caller's mistakes before anything starts; what is wrong with one of the inputs is found in its turn."""
    named = type(inputs).__name__
    if isinstance(inputs, (str, bytes, Mapping)) or not isinstance(inputs, Iterable):
        raise TypeError(f"map: inputs must be an iterable of inputs, such as a list, got {named}")
    checked_whole("map: max_parallel", options.max_parallel, 1)
    checked_flag("map: keep_errors", options.keep_errors)
    checked_flag("map: ordered", options.ordered)
    if options.name is not None:
        checked_map_name(options.name)
    each = RunOptions(
        session=options.session,
        user_id=options.user_id,
        timeout=options.timeout,
        budget=options.budget,
    )
    _check("", each)


def _check_resume(token: object, options: ResumeOptions) -> None:
    """Find a caller's mistakes before the token is looked for."""
    if not isinstance(token, str):
        hint = "; pass its .token" if hasattr(token, "token") else ""
        raise TypeError(f"a token is a string, got a value of type {type(token).__name__}{hint}")
    _check_session(options.session)
    for name, least in RAISED.items():
        limit = getattr(options, name)
        if limit is not None:
            checked_whole(name, limit, least)
    if options.budget is not None and not isinstance(options.budget, Budget):
        raise TypeError(f"budget must be Budget(…) or None, got {options.budget!r}")
    checked_flag("adopt", options.adopt)
    checked_seconds("timeout", options.timeout)


runtime = ThreadRuntime()


MOST = 100  # Ids that are told of; a service that makes agents with ids of their own must not fill its log.

_looked_at: weakref.WeakSet[Runner[object]] = weakref.WeakSet()
"""Runners that had a run without a conversation. A race tells of one twice at the worst."""
_told: set[str] = set()
"""Ids that were told of: an agent that is made anew for each request is the same to people."""


_looked_at_without_store: weakref.WeakSet[Runner[object]] = weakref.WeakSet()
"""Runners that had a run with a conversation in a system without a store."""
_told_of_store: set[str] = set()
"""Ids that were told of it."""


def warn_of_lost_conversations(runner: Runner[object], runs: RunManager) -> None:
    """Warn once for each agent whose `PersistentMemory` has no store, of a run with a conversation."""
    if runs.memories.has_store or runner in _looked_at_without_store:
        return
    _looked_at_without_store.add(runner)
    agents = [each for each in (runner, *below([runner])) if isinstance(each, Agent)]
    lost = next((each.id for each in agents if _needs_store(each.memory)), None)
    if lost is None or lost in _told_of_store or len(_told_of_store) == MOST:
        return
    _told_of_store.add(lost)
    warnings.warn(
        f"agent {lost!r} has a PersistentMemory, and system {runs.app!r} has no store: its conversations end with the system. "
        "Give one of them a store, as by ActorSystem(store='sqlite:///shop.db') or us.configure(store='sqlite:///shop.db')",
        MemoryNotUsed,
        stacklevel=_depth_of_caller(),
    )


def _needs_store(memory: object) -> bool:
    found = persistent_in(memory)
    return memory is PersistentMemory or (found is not None and not found.has_own_store)


def warn_of_unused_memory(runner: Runner[object], options: RunOptions) -> None:
    """Warn once for each agent that its memory has no part in a run that its caller begins without a conversation."""
    if options.conversation_id is not None or options.history is not None or runner in _looked_at:
        return
    _looked_at.add(runner)
    if not remembers(runner, has_history=False) or runner.id in _told or len(_told) == MOST:
        return
    _told.add(runner.id)
    alone = isinstance(runner, Agent)
    has = "has a memory" if alone else "runs agents with a memory"
    instead = ", or history=[] to say that the run stands alone" if alone else ""
    warnings.warn(
        f"{named(runner)} {has}, and a run without conversation_id neither reads nor writes it; "
        f"pass conversation_id=…{instead}",
        MemoryNotUsed,
        stacklevel=_depth_of_caller(),
    )


def _depth_of_caller() -> int:
    """Return how far up the first frame is that is not the package's, counted from who asks: it is whose line is shown."""
    depth, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage] (documented all the same)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "understudy":
        depth, frame = depth + 1, frame.f_back
    return depth
