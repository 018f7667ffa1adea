"""Server-sent events: split the same, wherever the transport cuts the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.providers.wire.server_events import EventSplitter, ServerEvent

LONG = 1_000


def split(*chunks: bytes, longest: int = LONG) -> list[tuple[str, bytes]]:
    splitter = EventSplitter(longest)
    found = [event for chunk in chunks for event in splitter.feed(chunk)]
    return [(event.name, event.data) for event in [*found, *splitter.end()]]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [("", b"a"), ("", b"b")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [("", b"a"), ("", b"b")]),
        (b"data: a\r\rdata: b\r\r", [("", b"a"), ("", b"b")]),
        (b"data: a\r\n\ndata: b\n\r\n", [("", b"a"), ("", b"b")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [("x", b"a"), ("", b"b")]),
        (b"data:a\ndata:  b\ndata\ndata: c\n\n", [("", b"a\n b\n\nc")]),
        (b": OPENROUTER PROCESSING\n\n:\n\ndata: a\n: ping\n\n", [("", b"a")]),
        (b"id: 7\nretry: 10\nother: x\nmore\ndata: a\n\n", [("", b"a")]),
        (b"event: ping\n\nevent: x\ndata:\n\ndata: a\n\n", [("", b"a")]),
        (b"event: x\ndata: \n\n", []),
        (b": data: a\n\nevent: data: b\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [("", b"a")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [("", b"a")]),
        (b"data: a\n\ndata: last", [("", b"a"), ("", b"last")]),
        (b"data: a\n\ndata: last\n", [("", b"a"), ("", b"last")]),
        (b"data: a\n\nda", [("", b"a")]),
        (b"", []),
        (b"\n\n\n", []),
        ('data: {"s": "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"}\n\n'.encode(), None),
        ("event: ping\u00fc\ndata: \u00e4\U0001f60a\n\n".encode(), [("ping\u00fc", "\u00e4\U0001f60a".encode())]),
    ],
)
def test_events_are_the_same_wherever_the_bytes_are_cut(body: bytes, events: list[tuple[str, bytes]] | None) -> None:
    if events is None:  # nothing in the string ends a line
        events = [("", body.removeprefix(b"data: ").removesuffix(b"\n\n"))]

    assert split(body) == events
    assert split(*[body[i : i + 1] for i in range(len(body))]) == events
    for cut in range(len(body)):
        assert split(body[:cut], b"", body[cut:]) == events


@given(
    st.lists(st.sampled_from([b"data: a", b"data", b":", b"event: e", b"\r", b"\n", b"\r\n", b" ", b"\xef\xbb\xbf"]))
)
def test_random_bytes_split_as_the_same_bytes_in_one_piece(pieces: list[bytes]) -> None:
    assert split(*pieces) == split(b"".join(pieces))


def test_an_event_is_given_with_its_last_byte() -> None:
    splitter = EventSplitter(LONG)

    assert splitter.feed(b"data: a\r\n") == []
    assert splitter.feed(b"\r") == [ServerEvent("", b"a")]  # without a wait for the LF that belongs to it
    assert splitter.feed(b"\ndata: b\n\n") == [ServerEvent("", b"b")]


@pytest.mark.parametrize("size", [1, 7, 100, 1_000])
@pytest.mark.parametrize(
    "body",
    [b"data: " + b"x" * 50 + b"\ndata: " + b"y" * 50, b"data: " + b"x" * 100 + b"\n\n", b": " + b"x" * 100 + b"\n"],
)
def test_an_event_longer_than_the_limit_is_refused(body: bytes, size: int) -> None:
    with pytest.raises(ValueError, match="an event is longer than 100 bytes"):
        split(*[body[i : i + size] for i in range(0, len(body), size)], longest=100)


def test_a_line_longer_than_the_limit_is_refused_before_its_end() -> None:
    splitter = EventSplitter(100)
    splitter.feed(b"data: a\ndata: " + b"x" * 80)

    with pytest.raises(ValueError, match="an event is longer than 100 bytes"):
        splitter.feed(b"x" * 10)


def test_an_event_may_be_as_long_as_the_limit() -> None:
    body = b"event: x\ndata: " + b"x" * 86 + b"\n\n"

    assert split(body, longest=100) == [("x", b"x" * 86)]


def test_many_events_and_comments_may_be_longer_than_the_limit_together() -> None:
    body = b"data: a\n\n" + b": comment\n" * 50 + b"data: b\n\n" * 50

    assert len(split(body, longest=20)) == 51
