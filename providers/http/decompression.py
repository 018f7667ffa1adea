"""Decompresses the body of an answer in small pieces.

httpx decompresses whatever came in one read at once: 64 KiB of gzip can be 64 MiB of text, and a body that is compressed
twice a thousand times more, before any limit of length sees a byte of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

ASKED_FOR = "gzip, deflate"
"""The value of `accept-encoding`. The standard library decompresses both in pieces."""
WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
"""RFC 9110, 8.4.1: content codings, and what zlib calls them."""
OTHERS = frozenset({"br", "compress", "x-compress", "zstd", "dcb", "dcz"})
PIECE = 65_536  # Bytes; as much as is read from a socket at once.
LONGEST_NAME = 40  # Characters of a header in an error.


def decompressed(response: httpx.Response) -> Generator[bytes]:
    """Yield the body of an answer that is not read yet, in pieces of at most 64 KiB where it is compressed.

    A word that is no content coding is passed over, as some servers write a charset there.

    Raises:
        httpx.DecodingError: the body is compressed in a way that was not asked for, more than once, or wrongly.
    """
    import httpx

    if response.is_stream_consumed:  # made by a test's transport from a text: httpx has decompressed it
        yield from response.iter_bytes()
        return
    given: str = response.headers.get("content-encoding", "")
    codings = [
        word for word in (each.strip().lower() for each in given.split(",")) if word in WINDOWS or word in OTHERS
    ]
    if len(codings) > 1 or not OTHERS.isdisjoint(codings):
        raise httpx.DecodingError(f"its content-encoding is {given[:LONGEST_NAME]!r}, expected gzip or deflate, once")
    if not codings:
        yield from response.iter_raw()
        return
    inflate = _Inflate(WINDOWS[codings[0]])
    for chunk in response.iter_raw():
        try:
            yield from inflate.pieces(chunk)
        except zlib.error as error:
            raise httpx.DecodingError(str(error)) from error


class _Inflate:
    def __init__(self, window: int) -> None:
        self._decoder = zlib.decompressobj(window)
        self._may_be_bare = window == zlib.MAX_WBITS
        """Whether this may be a `deflate` without the zlib format around it, which RFC 9110, 8.4.1.2, mentions."""

    def pieces(self, chunk: bytes) -> Generator[bytes]:
        left = chunk
        while not self._decoder.eof:  # what stands behind the end is no part of the body
            piece = self._some(left)
            left = self._decoder.unconsumed_tail
            if piece:
                yield piece
            if not left and len(piece) < PIECE:
                return

    def _some(self, chunk: bytes) -> bytes:
        may_be_bare, self._may_be_bare = self._may_be_bare, False
        try:
            return self._decoder.decompress(chunk, PIECE)
        except zlib.error:
            if not may_be_bare:
                raise
        self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
        return self._decoder.decompress(chunk, PIECE)
