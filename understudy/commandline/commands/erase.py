"""`understudy erase USER`: removes what a store has of a user, or all that it has."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, TextIO

from understudy.actors.stores.database import empty, parts_of
from understudy.actors.stores.open_store import MEMORY, open_database
from understudy.actors.stores.runs import owners_in
from understudy.actors.stores.store import Store
from understudy.commandline.report import COMPLETE, UsageMistake

from . import options
from .printing import put, warn
from .waiting import refuse_missing_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.vocabulary.runs.conversations import Erased

ABOUT = """\
Erase a user from a store: the turns and summaries of all conversations, the
values of sessions, and the runs that wait. What is erased cannot be brought
back, and the tokens of these runs are unknown afterwards.

Runs of the user that are under way end with an error when they would store
their turn. A run that pauses afterwards is kept: stop such programs first.

With --everything, all tables that understudy makes in a database go, also
those of another version, which this one refuses to open. Other tables stay.
Stop all programs that use the store first: it is refused while a living
process drives a run there.

examples:
  understudy erase ada --store sqlite:///shop.db --app shop
  understudy erase ada --store sqlite:///shop.db --yes
  understudy erase --everything --store sqlite:///shop.db
"""


def add_arguments(erase: argparse.ArgumentParser) -> None:
    """Add the arguments of `erase`."""
    erase.add_argument(
        "user", metavar="USER", type=options.text, nargs="?", help="the user_id; 'default' for runs without one"
    )
    erase.add_argument("--everything", action="store_true", help="all that the store has, of any user and version")
    options.add_store(erase)
    erase.add_argument(
        "--app",
        metavar="NAME",
        type=options.text,
        help="only what systems of this name have, 'understudy' for the commands run and chat; otherwise all",
    )
    erase.add_argument("--yes", action="store_true", help="do not ask")


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Erase the user, or all, and print how much it was."""
    if arguments.user is None and not arguments.everything:
        raise UsageMistake("expected USER, or --everything")
    if arguments.everything and (arguments.user is not None or arguments.app is not None):
        raise UsageMistake("--everything has no USER and no --app: it removes the tables of all systems")
    if not arguments.user and not arguments.everything:
        raise UsageMistake("USER must not be empty; runs without a user_id are those of 'default'")
    if arguments.store == MEMORY:
        raise UsageMistake("no store is named: pass --store URL, such as sqlite:///shop.db, or set UNDERSTUDY_STORE")
    refuse_missing_store(arguments.store, "the --store of a system")
    try:
        erased = _erased_all(arguments) if arguments.everything else _erased(arguments)
    except (ValueError, ImportError) as error:
        raise UsageMistake(f"--store: {error}") from error
    if erased is None:
        warn("nothing was erased")
    else:
        put(f"erased: {erased}", out)
    return COMPLETE


def _erased(arguments: argparse.Namespace) -> str | None:
    """Erase a user; returns how much that was, or None if the person did not agree."""
    database = open_database(arguments.store)
    if not parts_of(database):
        raise UsageMistake(f"--store: no system has had this database as its store: {database!r}")
    store = Store(database)
    where = "all apps" if arguments.app is None else f"app {arguments.app!r}"

    def what() -> str:
        return (
            f"user {arguments.user!r} in {where} of {store!r}: {_in_words(store.count(arguments.user, arguments.app))}"
        )

    if not arguments.yes and not _agreed(what):
        return None
    return _in_words(store.erase(arguments.user, arguments.app))


def _erased_all(arguments: argparse.Namespace) -> str | None:
    """Remove all tables; returns how many these were, or None if the person did not agree."""
    database = open_database(arguments.store)
    if database.locks is not None and any(map(database.locks.lives, owners_in(database))):
        raise UsageMistake(f"living processes drive runs in {database!r}: stop them first")
    if not arguments.yes and not _agreed(lambda: f"everything that understudy has in {database!r}"):
        return None
    return _counted(empty(database), "table")


def _agreed(what: Callable[[], str]) -> bool:
    if not sys.stdin.isatty():
        raise UsageMistake("nobody can be asked here; pass --yes to erase without a question")
    question = f"Erase {what()}? [y/N] "
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(EOFError):
        return input(question).strip().lower() in ("y", "yes")
    return False


def _in_words(erased: Erased) -> str:
    counts = {
        "conversation": erased.conversations,
        "turn": erased.turns,
        "summary": erased.summaries,
        "value": erased.values,
        "waiting run": erased.pauses,
        "unfinished run": erased.runs,
    }
    return ", ".join([_counted(number, name) for name, number in counts.items()])


def _counted(number: int, name: str) -> str:
    return f"{number} {name if number == 1 else _plural(name)}"


def _plural(name: str) -> str:
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
