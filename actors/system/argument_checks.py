"""Mistakes in the arguments of a system's methods: each is found before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import pykka

from understudy.actors.actor.actor import Actor
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.supervision.restarts import Strategy
from understudy.orchestration.supervision.supervisor import Supervisor
from understudy.vocabulary.actors.system_events import SystemEvent
from understudy.vocabulary.checks import checked_flag, checked_number, checked_plain, checked_text, is_async
from understudy.vocabulary.runs.stored_runs import ChangedRun, LeftRun

LEASE = 15.0  # Seconds; a thread that has to beat beside 100 busy ones was late by 3.3 s.
SHORTEST_LEASE = 1.0
STORE_PATIENCE = 30.0  # Seconds; a server that fails over, or starts again, is back by then.
LONGEST_LEASE = 86_400.0  # A day; the runs of a frozen process wait so long.
Deps: TypeAlias = Callable[[LeftRun], object]
Migrate: TypeAlias = Callable[[ChangedRun], str | None]


def checked_name(name: str) -> str:
    """Return a system's name."""
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"a system's name must be a string that is not empty, got {name!r}")
    return name


def checked_map_name(name: str) -> str:
    """Return the name of a map that keeps its results, if it can be one."""
    if not checked_text("the name of a map", name) or "\0" in name:
        raise ValueError(f"the name of a map must not be empty, nor have a NUL character; got {name!r}")
    return name


def checked_max_runs(max_runs: int | None) -> int | None:
    """Return how many runs may be under way at once."""
    whole = isinstance(max_runs, int) and not isinstance(max_runs, bool)
    if max_runs is not None and not (whole and max_runs >= 1):
        raise ValueError(f"max_runs must be a whole number of at least 1, or None; got {max_runs!r}")
    return max_runs


class Changed(NamedTuple):
    """How runs of another definition go on; without either, they are left."""

    adopt: bool
    migrate: Migrate | None


@dataclass(frozen=True, slots=True)
class Recovering:
    """How a system goes on with runs that were left, and whether it looks for them."""

    is_always: bool
    deps: Deps | None
    runners: Mapping[str, Runner[object]]
    """Beside those that were spawned, by id."""
    changed: Changed


def checked_recovering(
    recover: object, deps: Deps | None, runners: Iterable[Runner[Any]], adopt: bool, migrate: Migrate | None
) -> Recovering:
    """Return how a system goes on with runs that were left."""
    if recover not in (None, "always"):
        raise ValueError(f"recover must be 'always', or None to call system.recover() by hand; got {recover!r}")
    known, changed = by_id("ActorSystem", runners), checked_changed("ActorSystem", adopt, migrate)
    if recover is not None:
        return Recovering(True, checked_deps("ActorSystem", deps), known, changed)
    given = {"deps": deps is not None, "runners": known, "adopt": adopt, "migrate": migrate is not None}
    for name in [name for name, is_given in given.items() if is_given]:
        raise ValueError(f"{name}= is for recover='always'; without it, pass it to system.recover({name}=…)")
    return Recovering(False, None, {}, changed)


def checked_deps(where: str, deps: Deps | None) -> Deps | None:
    """Return the function that makes the dependencies of a run that goes on."""
    if deps is not None and (not callable(deps) or is_async(deps)):
        raise TypeError(f"{where}: deps must be a plain function of a run, as in deps=lambda run: Shop(); got {deps!r}")
    return deps


def checked_changed(where: str, adopt: bool, migrate: Migrate | None) -> Changed:
    """Return how runs of another definition go on."""
    checked_flag(f"{where}: adopt", adopt)
    if migrate is not None and (not callable(migrate) or is_async(migrate)):
        raise TypeError(f"{where}: migrate must be a plain function of a changed run; got {migrate!r}")
    if adopt and migrate is not None:
        raise ValueError(f"{where}: pass adopt=True or migrate=, not both; to adopt a run, migrate returns its state")
    return Changed(adopt, migrate)


def checked_run_ids(run_ids: Iterable[str] | None) -> frozenset[str] | None:
    """Return the ids of runs, or None for all of them."""
    if run_ids is None:
        return None
    if isinstance(run_ids, str) or not isinstance(run_ids, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"recover: run_ids must be a list of ids of runs, got {run_ids!r}")
    return frozenset([checked_text("recover: run_ids", each) for each in run_ids])


def by_id(where: str, runners: Iterable[Runner[Any]]) -> dict[str, Runner[object]]:
    """Return runners by their ids."""
    if isinstance(runners, (str, bytes, Mapping, Runner)) or not isinstance(runners, Iterable):
        raise TypeError(f"{where}: runners must be a list of agents, groups or workflows; got {runners!r}")
    known: dict[str, Runner[object]] = {}
    for runner in runners:
        if not isinstance(runner, Runner):
            raise TypeError(f"{where}: runners must be agents, groups or workflows; got {runner!r}")
        if known.setdefault(runner.id, runner) is not runner:
            raise ValueError(f"{where}: two different runners have the id {runner.id!r}; expected one for each id")
    return known


def checked_lease(lease: float) -> float:
    """Return how many seconds a process keeps its runs without a beat."""
    if checked_number("lease", lease) < SHORTEST_LEASE:
        raise ValueError(f"lease must be at least {SHORTEST_LEASE:g} second, got {lease!r}")
    if lease > LONGEST_LEASE:
        raise ValueError(f"lease must be at most {LONGEST_LEASE:.0f} seconds, which is a day; got {lease!r}")
    return float(lease)


def checked_patience(store_patience: float) -> float:
    """Return how many seconds a run asks a store that fails again."""
    if checked_number("store_patience", store_patience) < 0:
        raise ValueError(f"store_patience must be 0 seconds or more, got {store_patience!r}")
    return float(store_patience)


def refuse_arguments(actor: object, arguments: Sequence[object], options: Collection[str]) -> None:
    """Say how an object gets its arguments: in Pykka, they go to the method that starts the actor."""
    if not arguments and not options:
        return
    unknown = (
        f"no option {', '.join(f'{name}=' for name in options)}" if options else "one argument, and options by name"
    )
    made = actor.__name__ if isinstance(actor, type) else "MyActor"
    hint = f"; an object with arguments is made by a function: spawn(lambda: {made}(…), name='…')"
    raise TypeError(f"spawn takes {unknown}{hint if callable(actor) else ''}")


def check_supervisor(supervisor: Supervisor, *options: object) -> None:
    """Refuse a supervisor that has an actor of bare Pykka, and options that belong to the supervisor itself."""
    for each in supervisor.everyone():
        _refuse_pykka_class(each.actor)
    if any(option is not None for option in options):
        raise TypeError("a supervisor has its name and strategy itself, and its children their mailboxes")


def check_actor(actor: object, name: str | None, strategy: object) -> None:
    """Refuse an actor of bare Pykka, and a strategy or a name that is none."""
    _refuse_pykka_class(actor)
    if strategy is not None and not isinstance(strategy, Strategy):
        raise TypeError(f"spawn: strategy must be OneForOne(…) or another, or None; got {strategy!r}")
    if name is not None and not checked_text("spawn: name", name):
        raise ValueError("spawn: name must not be empty; without one, it is made from the class's name")


def _refuse_pykka_class(actor: object) -> None:
    if isinstance(actor, type) and issubclass(actor, pykka.Actor) and not issubclass(actor, Actor):
        raise TypeError(
            f"spawn takes a class derived from us.Actor, and {actor.__name__} is an actor of bare Pykka: start it with "
            f"{actor.__name__}.start(), and both can hold each other's references"
        )


def check_kinds(kinds: Sequence[object]) -> None:
    """Refuse kinds of events that are no classes of system events."""
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(cast("type[object]", kind), SystemEvent)):
            raise TypeError(f"subscribe takes classes of system events, such as us.ActorRestarted; got {kind!r}")


def check_subscriber(subscriber: object, buffer: int) -> None:
    """Refuse a subscriber that cannot be called, and a buffer without room."""
    if not callable(subscriber):
        raise TypeError(f"subscribe takes a function or an actor's reference, got {subscriber!r}")
    checked_plain("a subscriber", subscriber)
    if buffer < 1:
        raise ValueError(f"a buffer holds at least 1 event, got {buffer!r}")
