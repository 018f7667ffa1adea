"""Which processes live: each holds a lock that the operating system frees when the process ends, however it ends.

The lock is on a file of its own beside the database, with a name that is never used again. A record lock of POSIX belongs
to the process alone: a forked child does not hold it on, as it would hold other kinds of locks. The process itself must
never open and close the file again, for that would free the lock; so it asks nothing about its own names.

If something else removes the files, a process that lives makes its own anew. Until then, nobody may take it for dead: a name
says in which folder its file was made, and a folder that was emptied or removed has another mark afterwards.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from understudy.actors.threads.forked import Stage, at_fork
from understudy.errors import StoreError

MARK = "folder"
"""The file with the mark of the folder."""
UNREADY = ".new"
NOBODY = "0"  # The name of no process: all locks say that it does not live.


class Locks(Protocol):
    """Which processes that have a store live."""

    def name(self) -> str:
        """Return the name of this process, under which it lives from the first call on. Raises `StoreError`."""
        ...

    def lives(self, name: str) -> bool:
        """Whether the process of a name lives; also if nobody knows."""
        ...


@runtime_checkable
class HasLocks(Protocol):
    """A database that tells which processes that have it live."""

    @property
    def locks(self) -> Locks | None:
        """None if the operating system has no such locks."""
        ...


class ProcessLocks:
    """The names of living processes, as files in a folder.

    Args:
        folder: made when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        """Guards the name. The folder is touched under it, which takes microseconds."""
        self._name = ""
        self._file = -1

    def leave_to_parent(self) -> None:
        """Have no name, in a forked child. The lock is the parent's, and closing the child's copy does not free it."""
        file = self._file
        self._begin_anew()
        if file >= 0:
            with suppress(OSError):
                os.close(file)

    def name(self) -> str:
        """Return the name of this process, under which it lives from the first call on.

        Raises:
            StoreError: the file cannot be made or locked.
        """
        with self._lock:
            if not self._name or not os.path.exists(self._folder / self._name):
                try:
                    self._take_name()
                except OSError as error:
                    raise StoreError(
                        f"store: no lock file can be made in {str(self._folder)!r}: {error}", store=str(self._folder)
                    ) from error
            return self._name

    def _take_name(self) -> None:
        """Make the file of this process, under the name that it has already if the file was removed."""
        import fcntl

        self._folder.mkdir(mode=0o700, parents=not self._name, exist_ok=True)
        name = self._name or f"{os.getpid()}-{self._mark()}-{secrets.token_hex(8)}"
        made = self._folder / f"{name}{UNREADY}"  # nobody sees the file before it is locked
        file = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(made, self._folder / name)
        except OSError:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._name, self._file = name, file

    def _mark(self) -> str:
        """Return the mark of the folder, which is made with its first name."""
        with suppress(FileExistsError):
            made = self._folder / f"{secrets.token_hex(8)}{UNREADY}"
            made.write_text(secrets.token_hex(4))
            try:
                os.link(made, self._folder / MARK)  # fails if another process was first
            finally:
                made.unlink()
        return (self._folder / MARK).read_text()

    def lives(self, name: str) -> bool:
        """Whether the process of a name lives; also if nobody knows. The file of a dead one is removed."""
        import fcntl

        if name == self._name:
            return True
        try:
            file = os.open(self._folder / name, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return self._may_live(name)
        except OSError:
            return True  # nobody knows: others keep what they have
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(OSError):
                os.unlink(self._folder / name)  # the name is never used again
        except OSError:
            return True
        finally:
            os.close(file)
        return False

    def _may_live(self, name: str) -> bool:
        """Whether a process without a file may live: the file was removed by something else, and its number is in use."""
        pid, *others = name.split("-")
        with suppress(OSError):
            if len(others) != 2 or others[0] == (self._folder / MARK).read_text():
                return False
        try:
            os.kill(int(pid), 0)
        except (ProcessLookupError, ValueError):
            return False
        except PermissionError:  # it is another user's
            pass
        return True


_by_folder: dict[Path, ProcessLocks] = {}
_registering = threading.Lock()


def _has_record_locks() -> bool:
    return importlib.util.find_spec("fcntl") is not None  # not on Windows


def process_locks(folder: Path) -> ProcessLocks | None:
    """Return the locks of this process in a folder: one object, for the process must not probe its own lock.

    None on a system without record locks.
    """
    if not _has_record_locks():
        return None
    with _registering:
        found = _by_folder.get(folder)
        if found is None:
            found = _by_folder[folder] = ProcessLocks(folder)
        return found


def _leave_all() -> None:
    global _registering
    _registering = threading.Lock()
    for each in _by_folder.values():
        each.leave_to_parent()


at_fork(Stage.STORES, _leave_all)
