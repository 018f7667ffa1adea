"""Splits a body of server-sent events. Pure: bytes in, events out, wherever the transport cuts the bytes.

The library httpx-sse (0.4.3) is not used: it leaves a byte order mark in the first event, drops a last event without a blank
line, decodes by the charset of a header, and keeps events of any length.
"""

from __future__ import annotations

from typing import NamedTuple

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
        *lines, begun = chunk.split(b"\n")
        found: list[ServerEvent] = []
        for line in lines:
            event = self._end_line(line)
            if event is not None:
                found.append(event)
        if begun:
            self._begun.append(begun)
            self._begun_size += len(begun)
            self._check(self._begun_size)
        return found

    def end(self) -> list[ServerEvent]:
        """Return the event that the body ended in without a blank line, if there is one."""
        last = (self._end_line(b""), self._end_line(b""))
        return [event for event in last if event is not None]

    def _check(self, more: int) -> None:
        if self._size + more > self._longest:
            raise ValueError(f"an event is longer than {self._longest} bytes")

    def _end_line(self, line: bytes) -> ServerEvent | None:
        """Take the end of a line; return the event that it ends, if the line is blank."""
        if self._begun:
            line = b"".join([*self._begun, line])
            self._begun.clear()
            self._begun_size = 0
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(BYTE_ORDER_MARK)
        if not line:
            return self._end_event()
        size = len(line)
        self._check(size)
        field, _, value = line.partition(b":")  # a comment has an empty field
        if field == b"data":
            self._data.append(value[1:] if value.startswith(b" ") else value)
            self._size += size
        elif field == b"event":
            self._name = value[1:] if value.startswith(b" ") else value
            self._size += size
        return None

    def _end_event(self) -> ServerEvent | None:
        name, data = self._name, self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._name, self._data, self._size = b"", [], 0
        return ServerEvent(name.decode("utf-8", "replace"), data) if data else None
