"""What is wrong with an SQLite file, in words."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

_BREAKING = frozenset(
    (
        *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL),
    )
)

_WRITE_LOCK = "120"  # The byte of the file `-shm` that a writer in WAL mode locks.


def is_locked(error: BaseException) -> bool:
    """Whether others have the file locked, so that it may be tried again."""
    # PROTOCOL: several processes opened or left the file at once.
    codes = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
    return isinstance(error, sqlite3.Error) and _code(error) in codes


def is_broken(error: BaseException) -> bool:
    """Whether the connection may be spoilt by the error, so that it is not used again."""
    return isinstance(error, MemoryError) or (isinstance(error, sqlite3.Error) and _code(error) in _BREAKING)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest tells variants; what Python itself raises has none


def why(error: BaseException, path: Path, patience: float) -> str:
    """Say what is wrong with the file, and what was expected.

    Args:
        error: what SQLite, the operating system or the decoding raised.
        path: the file.
        patience: seconds for which a locked file was tried.
    """
    if isinstance(error, UnicodeDecodeError):
        return f"what it holds is not UTF-8, at byte {error.start}; expected what this store wrote"
    if not os.path.isdir(path.parent):
        return f"there is no folder {path.parent}; expected one in which the file can be made"
    if os.path.isdir(path):
        return "this is a folder; expected an SQLite file, or none yet"
    if not os.path.exists(path):
        return f"the file is not there; expected what was made when the store was opened ({error})"
    code = _code(error) if isinstance(error, sqlite3.Error) else 0
    if is_locked(error):
        who = _writer_now(path)
        told = f"process {who} writes now" if who else "expected it to be free sooner"
        return f"others have kept it locked for {patience:g} s; {told} ({error})"
    if code == sqlite3.SQLITE_NOTADB:
        return "this is no SQLite database; expected one, or no file yet"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"it cannot be written to by this process; expected a file and a folder that can ({error})"
    if code == sqlite3.SQLITE_FULL:
        return f"its disk is full; nothing was changed, expected room for it ({error})"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT):
        return f"what it holds is damaged; expected a whole SQLite database, such as a copy of an earlier day ({error})"
    if code == sqlite3.SQLITE_IOERR:
        return f"it could not be read or written, {_changed(error)}; expected a disk that works and has room ({error})"
    if "no such table" in str(error):
        return f"its tables are gone; expected the file with which the store was opened ({error})"
    return f"{error}"


def _writer_now(path: Path) -> int:
    """Return the id of the process that has the lock for writers; 0 where the system does not tell. Linux does."""
    try:
        inode = os.stat(f"{path}-shm").st_ino
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:  # such as "3: POSIX  ADVISORY  WRITE 4711 08:01:131 120 120"
        words = line.split()
        if len(words) == 8 and words[3] == "WRITE" and words[5].endswith(f":{inode}") and words[6] == _WRITE_LOCK:
            return max(0, int(words[4]))
    return 0


def _changed(error: BaseException) -> str:
    """Say whether the transaction changed anything: pages that were not synced may come back after a crash."""
    unknown = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)
    if getattr(error, "sqlite_errorcode", 0) in unknown:
        return "and whether something was changed is not known"
    return "and nothing was changed"
