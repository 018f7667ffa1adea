"""Splits a body of server-sent events. Pure: bytes in, events out, wherever the transport cuts the bytes.

The library httpx-sse (0.4.3) is not used: it leaves a byte order mark in the first event, drops a last event without a blank
line, decodes by the charset of a header, and keeps events of any length.
"""

from __future__ import annotations

import re
from typing import NamedTuple

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
USUAL = re.compile(rb"(?:event: (.*+)\n)?+data: (.++)\n\n")
"""One event in the form that servers write; most come whole, and each in a chunk of its own. A chunk that is none is told at
once: the expression never goes back.
"""


class ServerEvent(NamedTuple):
    """One event."""

    name: str
    """Its field `event`; empty if it has none."""
    data: bytes
    """Its `data` lines, joined with a newline; never empty."""


class EventSplitter:
    """Splits one body (HTML Living Standard, 9.2.6: Interpreting an event stream).

    Args:
        longest: bytes of the longest event that is accepted.
    """

    __slots__ = ("_begun", "_begun_size", "_data", "_is_first", "_longest", "_name", "_size", "_skips_newline")

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun: list[bytes] = []
        """Pieces of a line whose end has not come."""
        self._begun_size = 0
        """Bytes of that line."""
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        """Bytes of the lines of the event so far."""
        self._is_first = True
        """Whether no line has ended yet."""
        self._skips_newline = False
        """Whether the last byte was a CR, so that an LF after it ends no further line."""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that end in the next bytes.

        Raises:
            ValueError: an event is longer than the limit.
        """
        if not chunk:
            return []
        if self._skips_newline and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._skips_newline = False
        if b"\r" in chunk:
            self._skips_newline = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not self._size and not self._begun_size and len(chunk) <= self._longest:
            usual = USUAL.fullmatch(chunk)
            if usual is not None:
                self._is_first = False
                name, data = usual.groups(b"")
                return [ServerEvent(name.decode("utf-8", "replace"), data)]
        return self._split(chunk)

    def end(self) -> list[ServerEvent]:
        """Return the event that the body ended in without a blank line, if there is one."""
        return self._end_lines([b"", b""])

    def _split(self, chunk: bytes) -> list[ServerEvent]:
        *lines, begun = chunk.split(b"\n")
        found = self._end_lines(lines) if lines else []
        if begun:
            self._begun.append(begun)
            self._begun_size += len(begun)
            if self._size + self._begun_size > self._longest:
                raise self._too_long()
        return found

    def _end_lines(self, lines: list[bytes]) -> list[ServerEvent]:
        """Take the ends of lines, at least one; return the events that the blank ones end."""
        if self._begun:
            lines[0] = b"".join([*self._begun, lines[0]])
            self._begun.clear()
            self._begun_size = 0
        if self._is_first:
            self._is_first = False
            lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[ServerEvent]:
        """Take whole lines; return the events that the blank ones end. One loop, because a function for each line takes longer."""
        found: list[ServerEvent] = []
        name, data, size = self._name, self._data, self._size
        for line in lines:
            if not line:
                whole = data[0] if len(data) == 1 else b"\n".join(data)
                if whole:
                    found.append(ServerEvent(name.decode("utf-8", "replace"), whole))
                name, data, size = b"", [], 0
                continue
            longer = size + len(line)
            if longer > self._longest:
                raise self._too_long()
            field, _, value = line.partition(b":")  # a comment has an empty field
            if field == b"data":
                data.append(value[1:] if value.startswith(b" ") else value)
                size = longer
            elif field == b"event":
                name = value[1:] if value.startswith(b" ") else value
                size = longer
        self._name, self._data, self._size = name, data, size
        return found

    def _too_long(self) -> ValueError:
        return ValueError(f"an event is longer than {self._longest} bytes")
