"""What the definitions' `run`, `submit`, `resume` and `submit_resume` call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, cast

from understudy.actors.journal.call_transaction import refuse_runs
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.run_handle import Handle
from understudy.actors.tools.caller_thread import CallerThreadCalls, needs_caller
from understudy.actors.waiting.graph import graph
from understudy.errors import CircularAgentCall
from understudy.orchestration import Agent
from understudy.orchestration.agent.feed_checks import checked_history, checked_input
from understudy.orchestration.agent.transcript import check_answered
from understudy.orchestration.definitions.call_checks import refused_call
from understudy.orchestration.definitions.port import Answer, MapOptions, ResumeOptions, RunOptions
from understudy.orchestration.definitions.runner import Runner
from understudy.vocabulary.checks import checked_flag, checked_seconds, checked_whole
from understudy.vocabulary.context.ancestry import check_hops, check_permits, current_ancestry
from understudy.vocabulary.context.budget import Budget
from understudy.vocabulary.context.session_values import check_key
from understudy.vocabulary.messages import Part, ToolCall, ToolResult
from understudy.vocabulary.runs.outcomes import Complete, Outcome, TurnOutcome

from .actor_system import ActorSystem, inside, parked_in, runs_of
from .argument_checks import checked_map_name
from .default_system import current_system
from .maps.map_answers import Answers
from .maps.named_answers import NamedAnswers
from .maps.named_map import NamedMap, inside_of_run
from .memory_notice import warn_of_lost_conversations, warn_of_unused_memory
from .run_manager import RunManager

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
    if needs_caller(record.runner) is None:
        record.host.launch(record)
        record.promise.wait()
    else:
        with CallerThreadCalls() as caller_calls, inside(system):
            record.caller_calls = caller_calls
            record.host.launch(record)
            caller_calls.run_until_over(record.promise)
    return record.promise.get()


def _refuse_caller_tools(runner: Runner[object]) -> None:
    name = needs_caller(runner)
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
