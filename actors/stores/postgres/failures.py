"""The language of PostgreSQL: statements with its parameters, and its errors in words."""

from __future__ import annotations

import re

PASSING_STATES = {
    "40001",  # could not be put in a row with others
    "40P01",  # deadlock
    "55P03",  # a lock could not be had in time
    "25P03",  # idle in a transaction for too long
    "23505",  # somebody else has inserted the same key meanwhile; read again, it is there
    "42P07",  # somebody else has made the same table or index meanwhile
    "42701",  # somebody else has added the same column meanwhile
    "42710",  # somebody else has made the type of the same table's rows meanwhile, and not yet the table
    "57P01",  # the server is shut down by its administrator
    "57P02",  # another process of the server crashed
    "57P03",  # the server is starting
    "53200",  # it has no memory for more locks now
    "53300",  # it has too many connections
}

IN_THE_WAY = {"40001", "40P01", "55P03"}
"""Those of the states above in which others were in the way for certain."""

CONFLICTS = IN_THE_WAY | {"23505"}
"""Those in which others were in the way of a transaction that makes its keys anew when it is repeated."""

LONGEST = 2_600  # Bytes of all columns of an index; a bit more if they can be compressed.

HIDDEN = "postgresql://…"
_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[\w.%-]*)(?::\d*)?"
_URL = re.compile(rf"postgres(?:ql)?://(?:[^@/]*@)?({_HOST}(?:,{_HOST})*(?:/[^@?#:\s]*)?)(?:\?[^@]*)?")

_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


def statement_of(statement: str) -> str:
    """Return a statement with its parameters as psycopg reads them."""
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%"))


def is_passing(error: BaseException) -> bool:
    """Whether a transaction that failed before its commit may succeed when it is done again."""
    from psycopg import InterfaceError, OperationalError
    from psycopg_pool import PoolClosed

    if isinstance(error, PoolClosed):  # the process ends
        return False
    state: str | None = getattr(error, "sqlstate", None)
    if state is not None:
        return state in PASSING_STATES or state.startswith("08")
    if isinstance(error, OperationalError):
        return "password" not in str(error) and "does not exist" not in str(error)
    return isinstance(error, InterfaceError)


def is_conflict(error: BaseException) -> bool:
    """Whether others were in the way of a transaction."""
    return getattr(error, "sqlstate", None) in CONFLICTS


def is_in_the_way(error: BaseException) -> bool:
    """Whether others were in the way of a transaction whose keys are those of a tool, which are never made anew."""
    return getattr(error, "sqlstate", None) in IN_THE_WAY


def is_unfit(error: BaseException) -> bool:
    """Whether the server refused a value that it can never keep."""
    return str(getattr(error, "sqlstate", "")).startswith(("22", "54"))


def is_violation(error: BaseException) -> bool:
    """Whether a constraint refused a value."""
    return str(getattr(error, "sqlstate", "")).startswith("23")


def why(error: BaseException, patience: float) -> str:
    """Say what is wrong with the server, and what was expected.

    Args:
        error: what psycopg raised last.
        patience: seconds for which it was tried.
    """
    said = " ".join(str(error).split())
    state: str | None = getattr(error, "sqlstate", None)
    if is_conflict(error):
        return f"others were in the way for {patience:g} s; expected them to be done sooner ({said})"
    if state == "53100":
        return f"the disk of its server is full; nothing was changed ({said})"
    if state == "25006":
        return f"its server only takes reads; expected one that can be written to ({said})"
    if state == "42501":
        return f"its user may not do this; expected one who may make and change tables ({said})"
    if state == "54000":
        return f"an id or a key is too long for an index; expected at most {LONGEST} bytes ({said})"
    if state == "57014":
        return f"its server took too long for one statement; nothing was changed ({said})"
    if type(error).__name__ == "PoolTimeout":
        return f"all of its connections were in use for {patience:g} s ({said})"
    if is_passing(error):
        return f"its server could not be reached for {patience:g} s; expected one that answers ({said})"
    return said


def shown_url(url: str) -> str:
    """Return a URL of PostgreSQL for errors and logs: host and database, and never the user, the password or options.

    A URL of another form is not shown: a password with a character that has a meaning in URLs may be taken for any part of it.
    """
    found = _URL.fullmatch(url)
    return HIDDEN if found is None else f"postgresql://{found[1]}"


def has_stray_at(url: str) -> bool:
    """Whether a URL has an `@` more than libpq takes for the end of the password: a part of it counts as host or database."""
    rest = url.partition("://")[2]
    before, _, after = rest.partition("@")
    return "@" in (rest if "/" in before else after).partition("?")[0]
