"""Applies `--store`: makes the system with the store, and tells whether a token outlives the process."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import replace

from understudy.actors import ActorSystem
from understudy.actors.stores.open_store import MEMORY
from understudy.actors.system.runtime import STORE
from understudy.commandline.report import UsageMistake
from understudy.errors import UnderstudyError
from understudy.providers.tape.redaction import Redactor
from understudy.vocabulary.runs.outcomes import Complete, Outcome

from .options import usual_store


def system_of(arguments: argparse.Namespace, name: str = "understudy") -> ActorSystem:
    """Return a system of a name with the named store."""
    try:
        return ActorSystem(name, store=arguments.store)
    except ValueError as error:
        named_by = STORE if arguments.store == os.environ.get(STORE) else "--store"
        raise UsageMistake(f"{named_by}: {error}") from error


def redacted(text: str) -> str:
    """Return a text without what looks like a secret."""
    return Redactor().text(text)


def refuse_missing_store(store: str, expected: str = "the --store that the run was begun with") -> None:
    """Refuse a missing file: no run waits in it, and opening the store would create it."""
    path = store.removeprefix("sqlite:///").partition("?")[0]
    if store.startswith("sqlite:///") and path and "\0" not in path and not os.path.exists(path):
        raise UsageMistake(f"{path}: there is no such store; expected {expected}")


def repeated(arguments: argparse.Namespace) -> str:
    """Return the arguments that `understudy resume TOKEN` must repeat to continue the run."""
    words: list[str] = [arguments.file]
    for file in arguments.tools:
        words += ["--tools", file]
    if arguments.store != usual_store():
        words += ["--store", redacted(arguments.store)]
    for agent, model in arguments.model:
        words += ["--model", f"{agent}={model}" if agent else str(model)]
    if arguments.rehearse:
        words += ["--rehearse"]
    if arguments.replay is not None:
        words += ["--replay", arguments.replay]
    return shlex.join(words)


def without_vain_token(
    ended: Outcome[object] | BaseException, arguments: argparse.Namespace
) -> Outcome[object] | BaseException:
    """Return how a run ended; without the token if no store keeps it beyond this process."""
    if arguments.store != MEMORY:
        return ended
    if isinstance(ended, KeyboardInterrupt):
        ended.__cause__ = None
    elif isinstance(ended, UnderstudyError):
        ended.token = ""
    elif not isinstance(ended, (BaseException, Complete)):
        return replace(ended, token="")
    return ended
