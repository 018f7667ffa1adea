"""The supervision of a group as a machine: a table says which transition follows an event in which phase.

The supervisor feeds events to `handle` under a lock, and carries out the commands outside of it. Time and chance come with the
events. A command to a member has the number of its round. When the group is begun, halted or given up, earlier begins and
restarts are superseded: their rounds are gone, so answers to them are ignored, and a member asks `is_current` before it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, get_args

from .group_events import (
    Begin,
    Begun,
    ChildFailed,
    Command,
    Done,
    Escalate,
    Event,
    FailureEscalated,
    Forgiven,
    GivenUp,
    GiveUp,
    Halt,
    Halted,
    ParentBegins,
    ParentGivesUp,
    ParentHalts,
    RestartDue,
    Rule,
    StartDue,
    StaysDown,
    StopAsked,
    StopMember,
    Stopped,
    TellDelay,
    TellEscalation,
    TryAgain,
    Worked,
)
from .group_state import GroupRound, GroupState, Phase
from .restarts import decide

M = TypeVar("M")
R = TypeVar("R")
Transition: TypeAlias = Callable[[GroupState[Any, Any], Any], "list[Command[Any, Any]]"]

_RESTARTING: Mapping[Phase, Phase] = {"working": "restarting", "beginning": "beginning, restarting"}
_RESTARTED: Mapping[Phase, Phase] = {after: before for before, after in _RESTARTING.items()}
_BEGUN: Mapping[Phase, Phase] = {"beginning": "working", "beginning, restarting": "restarting"}


def handle(group: GroupState[M, R], event: Event[M, R]) -> list[Command[M, R]]:
    """Return the commands that follow, in this order; for `ChildFailed` exactly one `Rule`."""
    return TABLE[group.phase, type(event)](group, event)


# --- a member failed


def _rule(group: GroupState[M, R], event: ChildFailed[M]) -> list[Command[M, R]]:
    return [Rule(decide(event.wanted, event.restart, group.budget, event.now, event.run))]


def _rule_in_restart(group: GroupState[M, R], event: ChildFailed[M]) -> list[Command[M, R]]:
    """A member that the restart has not begun again gets a new object already, so the budget is not spent."""
    if event.member in group.restart().unbegun and not event.starting:
        return [Rule("restart")]
    return _rule(group, event)


def _rule_restart(group: GroupState[M, R], event: ChildFailed[M]) -> list[Command[M, R]]:
    return [Rule("restart")]  # it begins again with the whole group, so the budget is not spent


def _rule_escalate(group: GroupState[M, R], event: ChildFailed[M]) -> list[Command[M, R]]:
    return [Rule("escalate")]  # no member begins again in a group that is given up


def _restart(group: GroupState[M, R], event: RestartDue[M]) -> list[Command[M, R]]:
    affected = group.strategy.affected(group.members, event.member)
    delay = group.budget.delay(event.chance)
    started = group.start("restart", "halt", affected, cause=event.cause, after=delay)
    started.unbegun.update(affected)
    group.phase = _RESTARTING[group.phase]
    return [*_tell_delay(delay), *_go_on(group, started)]


def _restart_later(group: GroupState[M, R], event: RestartDue[M]) -> list[Command[M, R]]:
    if event.member not in group.restart().unbegun:  # it has begun already, and failed since
        group.failed_meanwhile += (event,)
    return []


def _start(group: GroupState[M, R], event: StartDue[M]) -> list[Command[M, R]]:
    if event.epoch != group.epoch:
        return []
    for each in list(group.rounds.values()):
        if each.kind == "start again" and each.waits_for == event.member:
            del group.rounds[each.number]
    delay = group.budget.delay(event.chance)
    return [
        *_tell_delay(delay),
        *_go_on(group, group.start("start again", "begin", (event.member,), after=delay)),
    ]


def _tell_delay(seconds: float) -> list[TellDelay]:
    return [TellDelay(seconds)] if seconds > 0 else []


def _stay_down(group: GroupState[M, R], event: StaysDown[M]) -> list[Command[M, R]]:
    return _member_begun(group, event.member, group.count)


def _escalate(group: GroupState[M, R], event: FailureEscalated) -> list[Command[M, R]]:
    starting = group.phase in _BEGUN
    group.supersede()
    group.phase, group.cause = "given up", event.cause
    started = group.start("escalate", "give up", group.members, cause=event.cause)
    started.starting = starting
    return [TellEscalation(event.cause), *_go_on(group, started)]


def _work(group: GroupState[M, R], event: Worked) -> list[Command[M, R]]:
    group.budget.worked()
    return []


# --- the parent, or a message to an actor that was given up


def _begin(group: GroupState[M, R], event: ParentBegins[R]) -> list[Command[M, R]]:
    group.parent_round, group.reply = event.round, event.reply
    return _begin_all(group, event.after)


def _try_again(group: GroupState[M, R], event: TryAgain) -> list[Command[M, R]]:
    return _begin_all(group, 0.0)


def _begin_all(group: GroupState[M, R], after: float) -> list[Command[M, R]]:
    group.supersede()  # also the begin of a member that failed after it was halted
    group.phase, group.cause = "beginning", None
    group.budget.renew()
    started = group.start("begin", "begin", group.members, after=after)
    group.begun = started.number
    return _go_on(group, started)


def _halt(group: GroupState[M, R], event: ParentHalts[R]) -> list[Command[M, R]]:
    if event.round < group.parent_round:
        return [Done(event.reply)]
    if group.phase != "given up":  # a group that is given up stays so, until it begins
        group.phase = "halted"
    group.supersede()
    return _go_on(group, group.start("halt", "halt", group.members, cause=event.cause, reply=event.reply))


def _give_up(group: GroupState[M, R], event: ParentGivesUp[R]) -> list[Command[M, R]]:
    """Give the members up, also in a group that was given up before: they may have been halted since."""
    if event.round < group.parent_round:
        return [Done(event.reply)]
    group.supersede()
    group.phase, group.cause = "given up", event.cause if group.cause is None else group.cause
    group.reply = None
    return _go_on(group, group.start("give up", "give up", group.members, cause=event.cause, reply=event.reply))


def _stop(group: GroupState[M, R], event: StopAsked[R]) -> list[Command[M, R]]:
    return _go_on(group, group.start("stop", "stop", group.members, reply=event.reply))


def _forgive(group: GroupState[M, R], event: Forgiven) -> list[Command[M, R]]:
    group.phase, group.cause = "working", None
    return _renew(group, event)


def _renew(group: GroupState[M, R], event: Forgiven) -> list[Command[M, R]]:
    group.budget.renew()
    return []


# --- a member answered


def _answer(group: GroupState[M, R], event: Halted[M] | GivenUp[M] | Stopped[M]) -> list[Command[M, R]]:
    found = group.rounds.get(event.round)
    if found is None or found.waits_for != event.member or found.action == "begin":
        return []
    return _go_on(group, found)


def _begun(group: GroupState[M, R], event: Begun[M]) -> list[Command[M, R]]:
    return _member_begun(group, event.member, event.round) if group.is_current(event.round) else []


def _member_begun(group: GroupState[M, R], member: M, last: int) -> list[Command[M, R]]:
    """Go on with each round up to the `last` that waits for this member: a group answers only the latest order to begin."""
    commands: list[Command[M, R]] = []
    for each in list(group.rounds.values()):
        if each.number <= last and each.action == "begin" and each.waits_for == member:
            each.unbegun.discard(member)
            commands += _go_on(group, each)
    return commands


def _nothing(group: GroupState[M, R], event: object) -> list[Command[M, R]]:
    return []


# --- rounds


def _go_on(group: GroupState[M, R], round: GroupRound[M, R]) -> list[Command[M, R]]:
    """Return the command to the next member, or those that follow at the end of the round."""
    if round.left:
        round.waits_for = round.left.pop()
        return [_command(round, round.waits_for)]
    if round.kind == "restart" and round.action == "halt":
        round.action, round.left = "begin", list(reversed(round.members))
        return _go_on(group, round)
    del group.rounds[round.number]
    return _ended(group, round)


def _command(round: GroupRound[M, R], member: M) -> Command[M, R]:
    match round.action:
        case "halt":
            return Halt(member, round.number, round.cause, with_siblings=round.kind == "restart")
        case "begin":
            after, round.after = round.after, 0.0
            return Begin(member, round.number, after, with_group=round.kind == "begin")
        case "give up":
            assert round.cause is not None
            return GiveUp(member, round.number, round.cause)
        case "stop":
            return StopMember(member, round.number)


def _ended(group: GroupState[M, R], round: GroupRound[M, R]) -> list[Command[M, R]]:
    match round.kind:
        case "restart":
            group.phase = _RESTARTED[group.phase]
            return _restart_next(group)
        case "escalate":
            assert round.cause is not None
            return [Escalate(round.cause, round.number, round.starting)]
        case "begin":
            group.phase = _BEGUN[group.phase]
            reply, group.reply = group.reply, None
        case _:
            reply = round.reply
    return [] if reply is None else [Done(reply)]


def _restart_next(group: GroupState[M, R]) -> list[Command[M, R]]:
    if not group.failed_meanwhile:
        return []
    failed, *rest = group.failed_meanwhile
    group.failed_meanwhile = tuple(rest)
    cause = RuntimeError(f"{group.name}: it failed while others were restarted")
    return _restart(group, RestartDue(failed.member, cause, failed.chance))


# --- the table


def _row(event: type[object], *transitions: Transition) -> dict[tuple[Phase, type[object]], Transition]:
    phases: tuple[Phase, ...] = get_args(Phase)
    if len(transitions) == 1:
        transitions *= len(phases)
    return {(phase, event): transition for phase, transition in zip(phases, transitions, strict=True)}


# fmt: off
TABLE: Mapping[tuple[Phase, type[object]], Transition] = {
    #                       working     beginning   restarting        beginning, restarting  halted  given up
    **_row(ChildFailed,      _rule,      _rule,      _rule_in_restart, _rule_in_restart, _rule_restart, _rule_escalate),
    **_row(RestartDue,       _restart,   _restart,   _restart_later,   _restart_later,   _nothing,      _nothing),
    **_row(StartDue,         _start,     _start,     _start,           _start,           _nothing,      _nothing),
    **_row(FailureEscalated, _escalate,  _escalate,  _escalate,        _escalate,        _escalate,     _nothing),
    **_row(Forgiven,         _renew,     _renew,     _renew,           _renew,           _renew,        _forgive),
    # the same in each phase
    **_row(ParentBegins, _begin),
    **_row(ParentHalts, _halt),
    **_row(ParentGivesUp, _give_up),
    **_row(StopAsked, _stop),
    **_row(TryAgain, _try_again),
    **_row(StaysDown, _stay_down),
    **_row(Worked, _work),
    **_row(Halted, _answer),
    **_row(Begun, _begun),
    **_row(GivenUp, _answer),
    **_row(Stopped, _answer),
}
# fmt: on
"""(phase, class of the event) -> the transition; every pair is there."""
