"""Statements that a tool writes itself: what they may do inside of a transaction of the runtime's, and their parameters.

Values stand at `?` or `:name`, in every database alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from understudy.vocabulary.context.transactions import SqlParameters

_TOKEN = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?\*/ )
    | (?P<space> [ \t\n\r\f\v]+ )
    | (?P<quoted> [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | \$(?P<tag>(?:(?:[A-Za-z_]|[^\x00-\x7f])(?:\w|[^\x00-\x7f])*)?)\$.*?\$(?P=tag)\$ )
    | (?P<cast> :: )
    | (?P<name> :[A-Za-z_][\w$]* )
    | (?P<mark> \? )
    | (?P<word> (?:[A-Za-z_]|[^\x00-\x7f])(?:[\w$]|[^\x00-\x7f])* )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)

_WORD = re.compile("[A-Za-z]+")
_ENDS = {"begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare"}
_CONNECTION = {"attach", "detach", "pragma", "vacuum", "set", "reset", "discard", "listen", "unlisten", "checkpoint"}


def check_statement(statement: object) -> str:
    """Return a statement of a tool's.

    Raises:
        TypeError: it is no text.
        ValueError: it begins or ends a transaction, changes the connection, is more than one statement, or is one that databases
            read in different ways.
    """
    if not isinstance(statement, str):
        raise TypeError(f"execute: the statement must be a string, got {type(statement).__name__}")
    first, ended = "", False
    for kind, text in _tokens(statement):
        if kind == "comment":
            _check_comment(text)
        if kind in ("comment", "space") or (text == "(" and not first):
            continue
        if ended and text != ";":
            raise ValueError("execute: this is more than one statement; expected one, without a ';' inside")
        ended = ended or text == ";"
        if not first and not ended and not _WORD.fullmatch(text):
            raise ValueError(f"execute: the statement begins with {text[:20]!r}; expected a word of SQL")
        first = first or text.lower()
    if first in _ENDS:
        raise ValueError(
            f"execute: {first.upper()} is refused: the runtime commits the transaction when the tool has returned, and undoes "
            "it if an exception leaves the block"
        )
    if first in _CONNECTION:
        raise ValueError(f"execute: {first.upper()} is refused: it concerns the connection, which others use later")
    return statement


def _check_comment(text: str) -> None:
    """Refuse a comment whose end depends on the database: PostgreSQL nests them, and ends a line at a carriage return too."""
    if text.startswith("/*") and "/*" in text[2:]:
        raise ValueError("execute: a comment begins inside of a comment; expected one after the other")
    if text.startswith("--") and "\r" in text.rstrip("\r"):
        raise ValueError("execute: a comment has a carriage return inside; expected a line feed at its end")


def check_parameters(parameters: object) -> SqlParameters:
    """Return the parameters of a statement.

    Raises:
        TypeError: they are neither a sequence nor a mapping; a text, of which each character would be a value.
    """
    if isinstance(parameters, Mapping):
        return parameters  # pyright: ignore[reportUnknownVariableType] (the database checks what is in it)
    if isinstance(parameters, (tuple, list)):
        return parameters  # pyright: ignore[reportUnknownVariableType] (the same)
    raise TypeError(
        f"execute: the parameters must be a tuple or list for ?, or a dict for :name; got {type(parameters).__name__}"
    )


def for_psycopg(statement: str, *, named: bool) -> str:
    """Return a statement with its parameters as psycopg reads them.

    Args:
        statement: of a tool.
        named: whether `:name` stands for values; else `?` does. The other one is left as it is.
    """
    found: list[str] = []
    for kind, text in _tokens(statement):
        if kind == "mark" and not named:
            found.append("%s")
        elif kind == "name" and named:
            found.append(f"%({text[1:]})s")
        else:
            found.append(text.replace("%", "%%"))
    return "".join(found)


def _tokens(statement: str) -> Iterator[tuple[str, str]]:
    for token in _TOKEN.finditer(statement):
        kind = token.lastgroup
        yield "quoted" if kind in (None, "tag") else kind, token[0]
