"""How a process and its workers talk: messages of JSON over a socket of their own, each after its length.

Standard output is the tool's. A message is at most `MAX_MESSAGE` bytes, so neither side can fill the other's memory.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import cast

from understudy.vocabulary.messages import JsonObject

MAX_MESSAGE = 32 * 2**20  # Bytes; more than any model reads, and no host runs out of memory for it.
PROGRESS = "progress"
"""The one field of a message that tells how far a call is; any other message of a worker's ends it."""
LENGTH = struct.Struct("!Q")
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)  # The other side may be gone, and the host may die of SIGPIPE.


class NotSendable(ValueError):
    """A message that is no JSON, or too long; the text says which."""


def encode(message: JsonObject) -> bytes:
    """Return the bytes of a message, its length first.

    Raises:
        NotSendable: it holds what JSON cannot, or has more than `MAX_MESSAGE` bytes.
    """
    try:
        # Text may hold halves of surrogate pairs, which plain UTF-8 refuses.
        body = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise NotSendable(f"only JSON goes from process to process: {error}") from error
    if len(body) > MAX_MESSAGE:
        raise NotSendable(f"{len(body):,} bytes are too many to go from process to process; at most {MAX_MESSAGE:,} do")
    return LENGTH.pack(len(body)) + body


class Garbled(Exception):
    """Something else than the two ends wrote on the line."""


class Channel:
    """One end. One thread sends and one receives; any thread may close."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, message: bytes) -> None:
        """Send what `encode` made. Blocks while the other side does not read. Raises `OSError` when it is gone."""
        self._end.sendall(message, NO_SIGNAL)

    def receive(self) -> JsonObject | None:
        """Wait for the next message; None when the other side is gone.

        Raises:
            Garbled: what came is no message.
        """
        try:
            (length,) = LENGTH.unpack(self._read(LENGTH.size))
            if length > MAX_MESSAGE:
                raise Garbled("what came is no message")
            message: object = json.loads(self._read(length).decode("utf-8", "surrogatepass"))
        except (OSError, EOFError):
            return None
        except (ValueError, RecursionError) as error:
            raise Garbled("what came is no message") from error
        if not isinstance(message, dict):
            raise Garbled("what came is no message")
        return cast(JsonObject, message)

    def _read(self, length: int) -> bytes:
        read = bytearray()
        while len(read) < length:
            part = self._end.recv(min(length - len(read), 2**20))
            if not part:
                raise EOFError
            read += part
        return bytes(read)

    @property
    def quiet(self) -> bool:
        """Whether the other side is there and has said nothing that nobody took."""
        try:
            self._end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False  # the other side has reset the line: it is not there
        return False

    def hang_up(self) -> None:
        """End the conversation for both sides; a thread that waits in `receive` wakes."""
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side has closed the connection already, so nobody waits in `receive`

    def close(self) -> None:
        """Give the descriptor back; says nothing to the other side while another process holds a copy."""
        self._end.close()
