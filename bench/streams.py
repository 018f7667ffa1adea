"""A streamed turn, without a network: what a client does for each delta."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial

import httpx

from understudy import OpenAI
from understudy.vocabulary.messages import ModelRequest, user_message
from understudy.vocabulary.pieces import TextPiece

from .batch import Round, timed, warmed
from .measure import Measure, Side
from .sizes import Sizes

DELTAS = 1_000
QUESTION = ModelRequest([user_message("go")])
HEADERS = {"content-type": "text/event-stream"}


def _chunk(choice: object) -> bytes:
    fixed = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "usage": None}
    return f"data: {json.dumps({**fixed, 'choices': [choice]})}\n\n".encode()


EVENTS = [
    *[_chunk({"index": 0, "delta": {"content": " word"}, "logprobs": None, "finish_reason": None})] * DELTAS,
    _chunk({"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}),
    b"data: [DONE]\n\n",
]


class _Body(httpx.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield from EVENTS


def _answer(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers=HEADERS, stream=_Body())


def _by_hand() -> int:
    """Read the same answer with httpx and json, without checks, limits or retries."""
    words = 0
    with httpx.Client(transport=httpx.MockTransport(_answer)) as client, client.stream("POST", "http://h/") as reply:
        left = b""
        for piece in reply.iter_bytes():
            *events, left = (left + piece).split(b"\n\n")
            for event in events:
                data = event.removeprefix(b"data: ")
                if data != b"[DONE]":
                    words += "content" in json.loads(data)["choices"][0]["delta"]
    return words


@contextmanager
def _deltas(sizes: Sizes) -> Generator[Round]:
    with OpenAI("m", api_key="k", transport=httpx.MockTransport(_answer)) as client:

        def streamed() -> int:
            return sum([type(piece) is TextPiece for piece in client.stream(QUESTION)])

        assert streamed() == _by_hand() == DELTAS
        sides = {"OpenAI.stream": partial(timed, streamed), "httpx and json by hand": partial(timed, _by_hand)}
        yield warmed(sides, sizes.samples)


STREAM = Measure(
    name="stream-1000",
    title=lambda _: f"a streamed turn of {DELTAS:,} deltas, each in a chunk of its own, without a network",
    ours=(Side(label="OpenAI.stream"),),
    references=(Side(label="httpx and json by hand"),),
    prepare=_deltas,
)
