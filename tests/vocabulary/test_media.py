"""Pictures and documents made of bytes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from understudy.vocabulary.media import check_media, described, text_of
from understudy.vocabulary.messages import FilePart, ImagePart, user_message

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
HEADS = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0 and so on",
    "image/gif": b"GIF89a and so on",
    "image/webp": b"RIFF\0\0\0\0WEBPVP8 ",
}


@pytest.mark.parametrize("media_type", HEADS)
def test_an_image_s_first_bytes_tell_its_type(media_type: str) -> None:
    part = ImagePart.from_bytes(HEADS[media_type])

    assert part == ImagePart(base64.b64encode(HEADS[media_type]).decode(), media_type)


def test_a_type_that_is_given_is_kept() -> None:
    assert ImagePart.from_bytes(b"<svg/>", "image/svg+xml").media_type == "image/svg+xml"
    assert FilePart.from_bytes(b"a,b", "text/csv", name="a.csv") == FilePart("YSxi", "text/csv", name="a.csv")


MISTAKES: list[Any] = [
    (lambda: ImagePart.from_bytes(b"hello"), ValueError, "no PNG, JPEG, GIF or WebP"),
    (lambda: ImagePart.from_bytes(PNG, "text/plain"), ValueError, "begins with 'image/', got 'text/plain'"),
    (lambda: ImagePart.from_bytes(b""), ValueError, "got none"),
    (lambda: ImagePart.from_bytes("a.png"), TypeError, "got str"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: FilePart.from_bytes(b"x", "pdf"), ValueError, "such as 'application/pdf', got 'pdf'"),
    (lambda: FilePart.from_bytes(b"x", None), ValueError, "got None"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
]


@pytest.mark.parametrize(("make", "error", "words"), MISTAKES)
def test_what_is_no_image_or_file_is_refused_when_it_is_made(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (ImagePart(), "an image needs data or a url"),
        (FilePart(media_type="text/plain"), "a file needs data or a url"),
        (ImagePart("QQ==", "text/plain"), "begins with 'image/'"),
        (FilePart("QQ==", "pdf"), "such as 'application/pdf'"),
        (ImagePart("no base64!"), "must be base64"),
        (ImagePart(b"QQ=="), "as text in base64"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_part_that_nobody_could_be_sent_is_refused(part: ImagePart | FilePart, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        check_media(part)


@pytest.mark.parametrize(
    "part", [ImagePart("QQ=="), ImagePart(url="https://x.test/a.png"), FilePart("QQ==", "application/pdf")]
)
def test_a_part_that_can_be_sent_is_taken_into_a_message(part: ImagePart | FilePart) -> None:
    check_media(part)

    assert user_message([part]).parts == (part,)


def test_a_part_in_words_has_its_name_type_and_size() -> None:
    assert described(FilePart.from_bytes(b"x" * 1234, "application/zip", name="a.zip")) == (
        "file 'a.zip' of type application/zip, 1,234 bytes"
    )
    assert described(ImagePart("QQ==")) == "image of type image/png, 1 bytes"
    assert described(ImagePart(url="https://x.test/a.png")) == "image at https://x.test/a.png"


def test_only_a_document_that_is_text_has_a_text() -> None:
    words = base64.b64encode("Grüße".encode()).decode()

    assert text_of(FilePart(words, "text/csv")) == "Grüße"
    assert text_of(FilePart(words, "application/json")) == "Grüße"
    assert text_of(FilePart(words, "application/pdf")) is None
    assert text_of(FilePart("/w==", "text/plain")) is None
    assert text_of(FilePart(url="https://x.test/a.txt", media_type="text/plain")) is None
