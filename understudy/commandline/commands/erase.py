"""`understudy erase USER`: removes what a store has of a user."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, TextIO

from understudy.actors.stores.open_store import MEMORY, open_store
from understudy.commandline.report import COMPLETE, UsageMistake

from . import options
from .printing import put, warn
from .waiting import refuse_missing_store

if TYPE_CHECKING:
    from understudy.actors.stores.store import Store
    from understudy.vocabulary.runs.conversations import Erased

ABOUT = """\
Erase a user from a store: the turns and summaries of all conversations, the
values of sessions, and the runs that wait. What is erased cannot be brought
back, and the tokens of these runs are unknown afterwards.

Runs of the user that are under way end with an error when they would store
their turn. A run that pauses afterwards is kept: stop such programs first.

examples:
  understudy erase ada --store sqlite:///shop.db --app shop
  understudy erase ada --store sqlite:///shop.db --yes
"""


def add_arguments(erase: argparse.ArgumentParser) -> None:
    """Add the arguments of `erase`."""
    erase.add_argument("user", metavar="USER", type=options.text, help="the user_id; 'default' for runs without one")
    options.add_store(erase)
    erase.add_argument(
        "--app",
        metavar="NAME",
        type=options.text,
        help="only what systems of this name have, 'understudy' for the commands run and chat; otherwise all",
    )
    erase.add_argument("--yes", action="store_true", help="do not ask")


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Erase the user, and print how much it was."""
    if not arguments.user:
        raise UsageMistake("USER must not be empty; runs without a user_id are those of 'default'")
    if arguments.store == MEMORY:
        raise UsageMistake("no store is named: pass --store URL, such as sqlite:///shop.db, or set UNDERSTUDY_STORE")
    refuse_missing_store(arguments.store)
    try:
        store = open_store(arguments.store)
    except (ValueError, ImportError) as error:
        raise UsageMistake(f"--store: {error}") from error
    if not arguments.yes and not _agreed(store, arguments):
        warn("nothing was erased")
        return COMPLETE
    put(f"erased: {_in_words(store.erase(arguments.user, arguments.app))}", out)
    return COMPLETE


def _agreed(store: Store, arguments: argparse.Namespace) -> bool:
    if not sys.stdin.isatty():
        raise UsageMistake("nobody can be asked here; pass --yes to erase without a question")
    where = "all apps" if arguments.app is None else f"app {arguments.app!r}"
    found = _in_words(store.count(arguments.user, arguments.app))
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(EOFError):
        return input(f"Erase user {arguments.user!r} in {where} of {store!r}: {found}? [y/N] ").strip().lower() in (
            "y",
            "yes",
        )
    return False


def _in_words(erased: Erased) -> str:
    counts = {
        "conversation": erased.conversations,
        "turn": erased.turns,
        "summary": erased.summaries,
        "value": erased.values,
        "waiting run": erased.pauses,
    }
    return ", ".join([f"{number} {name if number == 1 else _plural(name)}" for name, number in counts.items()])


def _plural(name: str) -> str:
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
