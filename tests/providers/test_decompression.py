"""Compressed answers: how they are read, and that a short one cannot fill the memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.support.http import HELLO
from understudy.errors import BadReply
from understudy.providers import OpenAI

SPACES = b" " * 64_000_000

pytestmark = pytest.mark.usefixtures("bare_environment")


def compressed(coding: str, body: bytes) -> httpx.MockTransport:
    """Return a transport whose answers are streams: httpx decompresses a response made of bytes before a client sees it."""
    pieces = [body[at : at + 65_536] for at in range(0, len(body), 65_536)]
    return httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-encoding": coding}, stream=Chunks(pieces))
    )


class Chunks(httpx.SyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)


def bare_deflate(body: bytes) -> bytes:
    made = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return made.compress(body) + made.flush()


def with_more_behind(body: bytes) -> bytes:
    return gzip.compress(body) + b"behind the end"


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress),
        ("X-GZIP", gzip.compress),
        ("identity, gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", bare_deflate),
        ("gzip", with_more_behind),
        ("utf-8", bytes),
    ],
)
def test_an_answer_is_decompressed(coding: str, packed: Callable[[bytes], bytes]) -> None:
    long = "x" * 300_000 + "é"
    body = json.dumps({"choices": [{"finish_reason": "stop", "message": {"content": long}}]}).encode()

    assert OpenAI("m", api_key="k", transport=compressed(coding, packed(body))).complete(HELLO).text == long


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("coding", "body", "told"),
    [
        ("gzip", b"no gzip", "does not decompress"),
        ("deflate", b"no deflate", "does not decompress"),
        ("gzip, gzip", gzip.compress(gzip.compress(SPACES)), "'gzip, gzip', expected gzip or deflate, once"),
        ("br", b"some brotli", "'br', expected"),
        ("gzip", gzip.compress(SPACES), "longer than 1000000 bytes"),
        ("deflate", zlib.compress(SPACES), "longer than 1000000 bytes"),
    ],
)
def test_a_body_is_decompressed_once_and_no_further_than_the_limit(
    coding: str, body: bytes, told: str, streamed: bool
) -> None:
    model = OpenAI("m", api_key="k", transport=compressed(coding, body), max_reply_bytes=1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(BadReply, match=told):
            list(model.stream(HELLO)) if streamed else model.complete(HELLO)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < len(SPACES) / 4
