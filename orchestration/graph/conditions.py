"""The conditions of tasks: `${check.label} == spam and ${check.n} > 3`. They are parsed by a closed grammar; nothing is executed.

A condition that does not fit the grammar raises an error before anything runs; it never counts as false.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import TypeAlias

from understudy.vocabulary.messages import JsonValue

from .references import Reference, from_text
from .references import reference as one_reference

LONGEST_KEPT = 10_000  # Characters of a condition that is kept parsed; longer ones would fill the memory.
DEEPEST = 50  # Brackets in brackets: the parser goes down with them.
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
TOKEN = re.compile(
    r"""(?P<place>\$\{[^{}]*\})
    | (?P<quoted>'[^']*'|"[^"]*")
    | (?P<sign>==|!=|<=|>=|[<>()\[\],])
    | (?P<word>(?:(?!\$\{|==|!=)[^\s<>()\[\],])+)
    | (?P<space>\s+)""",
    re.VERBOSE,
)
SYMBOLS = re.compile(r"[=!&|]+")
KEYWORDS = ("and", "or", "not", "in")
FLAGS: Mapping[str, JsonValue] = {"true": True, "false": False, "null": None}
ORDERS: Mapping[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
"""Signs that compare numbers -> how."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value written in the condition itself: text, a number, or true, false and null."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class Listed:
    """`[spam, ${label}, 3]`, of which one must be the same."""

    entries: tuple[Fixed | Reference, ...]


Operand: TypeAlias = "Fixed | Listed | Reference"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison; without a sign, a reference that must be neither empty nor false."""

    left: Operand
    sign: str = ""
    right: Operand = Fixed(None)


@dataclass(frozen=True, slots=True)
class Joined:
    """Conditions joined by `and`, `or`; or one that must not hold, by `not`."""

    by: str
    parts: tuple[Condition, ...]


Condition: TypeAlias = "Comparison | Joined"


def references_in(condition: str) -> list[Reference]:
    """Return the references of a condition, in order.

    Raises:
        ValueError: the text is no condition.
    """
    return list(_references(parsed(condition)))


def parsed(condition: str) -> Condition:
    """Parse a condition into a tree.

    Raises:
        ValueError: the text is no condition; the message names the character that does not fit.
    """
    return _cached(condition) if len(condition) <= LONGEST_KEPT else _Parser(condition).whole()


@lru_cache(maxsize=512)
def _cached(condition: str) -> Condition:
    return _Parser(condition).whole()


# --- the parser


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the text."""

    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else _short(self.text)


class _Parser:
    """Goes down a condition: `or` joins what `and` joins, of comparisons, which `not` may precede."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._cut())
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        found = self._either()
        if self._here.kind != "end":
            raise self._error("expected 'and', 'or' or the end")
        return found

    def _cut(self) -> Iterator[Token]:
        at = 0
        while at < len(self._text):
            found = TOKEN.match(self._text, at)
            if found is None:
                raise ValueError(f"{_short(self._text)} is no condition: the '${{' at character {at + 1} is not closed")
            kind, text, at = str(found.lastgroup), found.group(), found.end()
            if kind == "word" and text[0] in "'\"":
                raise ValueError(
                    f"{_short(self._text)} is no condition: the quote at character {found.start() + 1} is never closed"
                )
            if kind == "word" and text.lower() in KEYWORDS:
                kind = text.lower()
            if kind == "sign":
                kind = text
            if kind != "space":
                yield Token(kind, text, found.start(), at)
        yield Token("end", "", at, at)

    @property
    def _here(self) -> Token:
        return self._tokens[self._next]

    def _take(self, *kinds: str) -> Token | None:
        """Consume and return the next token if it is of one of these kinds."""
        here = self._here
        if here.kind not in kinds:
            return None
        self._next += 1
        return here

    def _error(self, expected: str, at: Token | None = None) -> ValueError:
        found = self._here if at is None else at
        return ValueError(
            f"{_short(self._text)} is no condition: {expected}, got {found} at character {found.start + 1}; "
            "put text with other signs or words such as 'and' in quotes"
        )

    def _either(self) -> Condition:
        return self._joined("or", lambda: self._joined("and", self._negated))

    def _joined(self, by: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._take(by):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Joined(by, tuple(parts))

    def _negated(self) -> Condition:
        negated = False
        while self._take("not"):
            negated = not negated
        found = self._inner() if self._take("(") else self._comparison()
        return Joined("not", (found,)) if negated else found

    def _inner(self) -> Condition:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(f"expected at most {DEEPEST} brackets in one another")
        found = self._either()
        if not self._take(")"):
            raise self._error("expected 'and', 'or' or ')'")
        self._depth -= 1
        return found

    def _comparison(self) -> Comparison:
        start = self._here
        left = self._operand()
        sign = self._sign()
        found = Comparison(left, sign, self._operand()) if sign else Comparison(left)
        problem = _problem(found)
        if problem:
            raise self._error(problem, start)
        return found

    def _sign(self) -> str:
        if self._here.kind == "not" and self._tokens[self._next + 1].kind == "in":
            self._next += 2
            return "not in"
        found = self._take("==", "!=", *ORDERS, "in")
        return found.kind if found else ""

    def _operand(self) -> Operand:
        if not self._take("["):
            return self._value()
        entries = [self._value()]
        while self._take(","):
            entries.append(self._value())
        if not self._take("]"):
            raise self._error("expected ',' or ']'")
        return Listed(tuple(entries))

    def _value(self) -> Fixed | Reference:
        place = self._take("place")
        if place:
            return one_reference(place.text)
        quoted = self._take("quoted")
        if quoted:
            return Fixed(quoted.text[1:-1])
        words: list[Token] = []
        while word := self._take("word"):
            if SYMBOLS.fullmatch(word.text):
                raise self._error("expected ==, !=, <, <=, >, >=, in, and, or, not", word)
            words.append(word)
        if not words:
            raise self._error("expected ${name}, text or a number")
        text = self._text[words[0].start : words[-1].end]
        if NUMBER.fullmatch(text):
            number = number_in(text)
            if number is None:
                raise self._error("expected a number that is not too large", words[0])
            return Fixed(number)
        return Fixed(FLAGS.get(text.lower(), text))


def _problem(found: Comparison) -> str:
    """Return what would have to stand in place of a comparison that means nothing; empty if it means something."""
    left, sign, right = found.left, found.sign, found.right
    if not any(True for _ in _references(found)):
        return "expected a comparison of a reference such as ${check.label}"
    if sign in ("in", "not in"):
        if isinstance(left, Listed):
            return f"expected one value before {sign!r}"
        return f"expected a reference or a list such as [spam, ham] after {sign!r}" if isinstance(right, Fixed) else ""
    if isinstance(left, Listed) or isinstance(right, Listed):
        return "expected a list after 'in' or 'not in' only"
    if sign in ORDERS:
        fixed = [each.value for each in (left, right) if isinstance(each, Fixed)]
        if any(number_in(each) is None or isinstance(each, str) for each in fixed):
            return f"expected numbers on both sides of {sign!r}"
    return ""


def _references(found: Condition | Operand) -> Iterator[Reference]:
    match found:
        case Reference():
            yield found
        case Listed():
            yield from (each for each in found.entries if isinstance(each, Reference))
        case Comparison():
            yield from _references(found.left)
            yield from _references(found.right)
        case Joined():
            for part in found.parts:
                yield from _references(part)
        case Fixed():
            pass


def number_in(value: JsonValue) -> int | float | None:
    """Return a number, or the number that a text holds; None for anything else."""
    found = read(value)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return None
    return None if isinstance(found, float) and not math.isfinite(found) else found


def read(value: JsonValue) -> JsonValue:
    """Return the value of a JSON text; models answer with text."""
    return from_text(value.strip()) if isinstance(value, str) else value


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
