"""The writers of this process, one for each SQLite file, and what becomes of them at a fork and at the end of the process."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from pathlib import Path

from understudy.actors.threads.forked import Stage, at_fork

from . import sqlite_file
from .sqlite_writer import SQLiteWriter

FORK_WAIT = 5.0  # Seconds for which a fork waits for transactions in progress.
EXIT_WAIT = 1.0  # Seconds for which the end of the process does; what is not committed then is rolled back.

_writers: weakref.WeakValueDictionary[Path, SQLiteWriter] = weakref.WeakValueDictionary()
_registering = threading.RLock()  # a signal handler may open a store while its own thread does


def writer_of(path: str) -> SQLiteWriter:
    """Return the writer of a file, which lives as long as a store has it."""
    real = Path(os.path.realpath(path))
    with _registering:
        writer = _writers.get(real)
        if writer is None:
            writer = _writers[real] = SQLiteWriter(real)
        return writer


def _before_fork() -> None:
    until = time.monotonic() + FORK_WAIT
    sqlite_file.before_fork(until)
    for writer in list(_writers.values()):
        writer.file.before_fork(until)


def _after_fork_in_parent() -> None:
    for writer in list(_writers.values()):
        writer.file.after_fork_in_parent()
    sqlite_file.after_fork_in_parent()


def _after_fork_in_child() -> None:
    global _registering
    _registering = threading.RLock()
    sqlite_file.after_fork_in_child()
    for writer in list(_writers.values()):
        writer.after_fork_in_child()


def _close_files() -> None:
    """Close the files at the end of the process, as before a fork; they are opened again if somebody goes on."""
    until = time.monotonic() + EXIT_WAIT
    for writer in list(_writers.values()):
        writer.file.before_fork(until)
        writer.file.after_fork_in_parent()


at_fork(Stage.STORES, _after_fork_in_child, before=_before_fork, in_parent=_after_fork_in_parent)
atexit.register(_close_files)
