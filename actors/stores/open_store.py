"""From what users say of a store to the store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from understudy.vocabulary.checks import is_async, named_safely
from understudy.vocabulary.runs.pause_store import PauseStore

from .store import Store

if TYPE_CHECKING:
    from .postgres.database import PostgresDatabase
    from .sqlite_database import SQLiteDatabase

MEMORY = "memory:"
SQLITE = "sqlite:///"
KINDS = (
    "'memory:', 'sqlite:///shop.db' (in the current folder), 'sqlite:////var/lib/shop.db', 'postgresql://USER@HOST/DATABASE', "
    "or an object like us.PauseStore"
)

DURABLE = {"durability=normal": False, "durability=full": True}
"""Option of an SQLite file -> whether each transaction is on the disk before it is done."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_HIDING = re.compile("[@?=]")


def open_store(given: str | PauseStore | Store | None) -> Store:
    """Return the store that was meant. Opens it: blocks for as long as its file is locked, up to 5 s.

    Raises:
        ValueError: a URL that names no store.
        TypeError: neither a URL nor a store, or a store with methods that are coroutine functions.
        StoreError: the store cannot be opened.
        ImportError: it is in PostgreSQL, and the extra `postgres` is not installed.
    """
    if given is None or given == MEMORY:
        return Store()
    if isinstance(given, Store):
        return given
    if isinstance(given, str):
        return _open_url(given)
    if not isinstance(given, PauseStore) or isinstance(given, type):
        raise TypeError(f"store must be {KINDS}; got {named_safely(given)}")
    for name in ("put", "get", "take", "close"):
        if is_async(getattr(given, name)):
            store = named_safely(given)
            raise TypeError(f"store {store} has {name}() as async def; the methods of a store are plain functions")
    return Store(pauses=given)


def _open_url(url: str) -> Store:
    return Store(open_database(url))


def open_database(url: str) -> PostgresDatabase | SQLiteDatabase:
    """Return the database of a URL, whatever tables it has; blocks and raises as `open_store`."""
    check_address(url)
    if is_postgres(url):
        from .postgres.database import PostgresDatabase

        return PostgresDatabase(url)
    from .sqlite_database import SQLiteDatabase

    path, _, options = url.removeprefix(SQLITE).partition("?")
    return SQLiteDatabase(path, durable=DURABLE[options] if options else False)


def is_postgres(url: str) -> bool:
    """Whether a URL names a database on a server."""
    scheme, colon, _ = url.partition(":")
    return bool(colon) and scheme in ("postgresql", "postgres")


def check_address(url: str) -> None:
    """Raise `ValueError` for a URL that names no store. Opens nothing."""
    if url == MEMORY:
        return
    if is_postgres(url):
        if not url.partition(":")[2].startswith("//"):  # the rest may have a password
            raise ValueError("store postgresql:…: expected postgresql://USER@HOST/DATABASE")
        return
    scheme, colon, rest = url.partition(":")
    if not colon or scheme != "sqlite":
        is_path = url and not colon and _is_shown(url)
        hint = f"; a file {url!r} is '{SQLITE}{url}'" if is_path else ""
        raise ValueError(f"store {_shown(url)}: expected {KINDS}{hint}")
    path, question, options = rest.removeprefix("///").partition("?")
    if not rest.startswith("///") or not path:
        raise ValueError(f"store {_shown(url)}: expected three slashes and a path, as in sqlite:///shop.db")
    if path == MEMORY or path == ":memory:":
        raise ValueError(f"store {_shown(url)}: a database in memory is nobody else's; expected {KINDS}")
    if "#" in path or "\0" in path:
        raise ValueError(f"store {_shown(url)}: a path has no '?', '#' or NUL here")
    if question and options not in DURABLE:
        raise ValueError(f"store {_shown(url)}: there is one option, {' or '.join(DURABLE)}; got another, or several")


def shown_store(url: str) -> str:
    """Return a URL that names a store for texts, without what may be a password."""
    if not is_postgres(url):
        return repr(url)
    from .postgres.failures import shown_url

    return repr(shown_url(url))


def _shown(url: str) -> str:
    """Return a URL for an error, without what may be a password: others hold them before an @, and after a ? or an =."""
    scheme, colon, _ = url.partition(":")
    if _is_shown(url):
        return repr(url)
    return f"{scheme}:…" if colon and _SCHEME.fullmatch(scheme) else "with an '@', '?' or '=' in it"


def _is_shown(url: str) -> bool:
    return not _HIDING.search(url)
