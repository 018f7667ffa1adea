"""What tools return beside text, in the form of each API."""

from __future__ import annotations

import base64

import pytest

from tests.support.bodies import body_of
from tests.support.wire import objs
from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    JsonObject,
    JsonValue,
    Message,
    ModelRequest,
    TextPart,
    ToolCall,
    ToolResult,
)

PHOTO = ImagePart("QQ==", "image/jpeg")
PAPER = FilePart("QQ==", "application/pdf", name="a.pdf")
NOTES = FilePart(base64.b64encode("a,b\nü,2".encode()).decode(), "text/csv", name="a.csv")
ARCHIVE = FilePart("QQ==", "application/zip", name="a.zip")
NOTES_IN_WORDS = "[file 'a.csv' of type text/csv, 8 bytes:]\na,b\nü,2"
ARCHIVE_IN_WORDS = "[file 'a.zip' of type application/zip, 1 bytes, which cannot be shown to you here]"


def request_with(*results: ToolResult) -> ModelRequest:
    calls = tuple([ToolCall(result.call_id, "look") for result in results])
    return ModelRequest([Message("assistant", calls), Message("user", (*results, TextPart("Well?")))])


def last_of(api: str, *results: ToolResult) -> list[JsonObject]:
    """Return what the body holds for the results and what follows them."""
    request = request_with(*results)
    match api:
        case "anthropic":
            return objs(objs(body_of(api, request)["messages"])[-1]["content"])
        case "openai-responses":
            return objs(body_of(api, request)["input"])[len(results) :]
        case "openai":
            return objs(body_of(api, request)["messages"])[1:]
        case _:
            return objs(objs(body_of("gemini", request)["contents"])[-1]["parts"])


def looked(*parts: ImagePart | FilePart, id: str = "c1", content: str = "Two things.") -> ToolResult:
    return ToolResult(id, content, name="look", parts=parts)


def test_anthropic_gets_them_inside_of_the_result() -> None:
    first, second, words = last_of("anthropic", looked(PHOTO, PAPER), looked(id="c2"))

    assert first == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [
            {"type": "text", "text": "Two things."},
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "QQ=="}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
                "title": "a.pdf",
            },
        ],
    }
    assert second == {"type": "tool_result", "tool_use_id": "c2", "content": "Two things."}
    assert words == {"type": "text", "text": "Well?"}


def test_openai_gets_them_in_a_user_s_message_after_all_results() -> None:
    sent = last_of("openai", looked(PHOTO, PAPER), looked(id="c2"))

    assert sent[:2] == [
        {"role": "tool", "tool_call_id": "c1", "content": "Two things."},
        {"role": "tool", "tool_call_id": "c2", "content": "Two things."},
    ]
    assert sent[2:] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Returned by look, call c1:"},
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QQ=="}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}},
                {"type": "text", "text": "Well?"},
            ],
        }
    ]


def test_the_responses_api_gets_them_inside_of_the_result() -> None:
    first, second, words = last_of("openai-responses", looked(PHOTO, PAPER), looked(id="c2"))

    assert first == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [
            {"type": "input_text", "text": "Two things."},
            {"type": "input_image", "image_url": "data:image/jpeg;base64,QQ==", "detail": "auto"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
        ],
    }
    assert second == {"type": "function_call_output", "call_id": "c2", "output": "Two things."}
    assert words == {"role": "user", "content": "Well?"}


def test_google_gets_them_beside_all_results() -> None:
    sent = last_of("google", looked(PHOTO, PAPER), looked(id="c2"))

    response: JsonValue = {"functionResponse": {"name": "look", "response": {"result": "Two things."}}}
    assert sent == [
        response,
        response,
        {"text": "Returned by look, call c1:"},
        {"inlineData": {"mimeType": "image/jpeg", "data": "QQ=="}},
        {"inlineData": {"mimeType": "application/pdf", "data": "QQ=="}},
        {"text": "Well?"},
    ]


def words_of(api: str, result: ToolResult) -> object:
    sent = last_of(api, result)
    match api:
        case "anthropic" | "openai":
            return sent[0]["content"]
        case "openai-responses":
            return sent[0]["output"]
        case _:
            response = sent[0]["functionResponse"]
            assert isinstance(response, dict)
            return response["response"]


@pytest.mark.parametrize("api", ["anthropic", "openai", "openai-responses", "google"])
def test_what_an_api_does_not_take_is_said_in_words_in_the_result(api: str) -> None:
    whole = f"Two things.\n{NOTES_IN_WORDS}\n{ARCHIVE_IN_WORDS}"

    assert words_of(api, looked(NOTES, ARCHIVE)) in (whole, {"result": whole})
    assert words_of(api, looked(ARCHIVE, content="")) in (ARCHIVE_IN_WORDS, {"result": ARCHIVE_IN_WORDS})
    assert len(last_of(api, looked(NOTES, ARCHIVE))) == 2


@pytest.mark.parametrize(
    ("api", "part", "shown"),
    [
        ("anthropic", ImagePart("QQ==", "image/gif"), True),
        ("anthropic", ImagePart("QQ==", "image/tiff"), False),
        ("anthropic", ImagePart("A" * (5 * 2**20 + 4)), False),
        ("anthropic", ImagePart(url="https://x.test/a.png"), True),
        ("anthropic", FilePart(url="https://x.test/a.pdf", media_type="application/pdf"), True),
        ("anthropic", FilePart(url="https://x.test/a.zip", media_type="application/zip"), False),
        ("openai", FilePart("QQ==", "audio/mpeg"), True),
        ("openai", FilePart("QQ==", "image/png"), True),
        ("openai", ImagePart("QQ==", "image/svg+xml"), False),
        ("openai", ImagePart(url="https://x.test/a.png"), True),
        ("openai", FilePart(url="https://x.test/a.pdf", media_type="application/pdf"), False),
        ("openai-responses", FilePart("QQ==", "audio/mpeg"), False),
        ("openai-responses", FilePart("QQ==", "image/png"), True),
        ("openai-responses", ImagePart("QQ==", "image/svg+xml"), False),
        ("openai-responses", ImagePart(url="https://x.test/a.png"), True),
        ("openai-responses", FilePart(url="https://x.test/a.pdf", media_type="application/pdf"), True),
        ("openai-responses", FilePart(url="https://x.test/a.zip", media_type="application/zip"), False),
        ("google", ImagePart("QQ==", "image/heic"), True),
        ("google", ImagePart("QQ==", "image/gif"), False),
        ("google", FilePart("QQ==", "video/mp4"), True),
        ("google", FilePart(url="gs://shop/a.pdf", media_type="application/pdf"), True),
    ],
)
def test_an_api_is_shown_what_it_reads_and_told_of_the_rest(api: str, part: ImagePart | FilePart, shown: bool) -> None:
    sent = str(last_of(api, looked(part)))

    assert ("which cannot be shown to you here" not in sent) is shown
    assert (part.url or part.data) in sent or not shown
    assert part.url in sent
