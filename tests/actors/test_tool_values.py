"""What tools return: text, JSON, models, pictures and documents, in this process and in workers."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from types import MappingProxyType, SimpleNamespace
from typing import Any
from uuid import UUID

import pydantic
import pytest

import understudy as us
from tests.support import process_tools
from tests.support.scripts import finished, results_of
from understudy.actors.tools.results import MAX_MEDIA
from understudy.testing import ScriptedModel, calls, says

STARTS = 60.0  # Seconds for an interpreter on a busy machine.
PHOTO = us.ImagePart("QQ==")
PAPER = us.FilePart("QQ==", "application/pdf", name="a.pdf")


class Verdict(pydantic.BaseModel):
    label: str


class Color(enum.Enum):
    RED = "red"


class Shade(str, enum.Enum):  # noqa: UP042 (whose str() is its name, other than a StrEnum's)
    DARK = "dark"


class Opaque:
    """What shows nothing but its address, as a row of a database may."""


class Int64:
    """An integer as numpy has them: no `int`, and no number to JSON."""

    shape = ()

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value

    def __str__(self) -> str:
        return f"np.int64({self._value})"


class Float32:
    """A float or a bool as numpy has them: what it is comes out of `item()`."""

    shape = ()

    def __init__(self, value: object) -> None:
        self._value = value

    def item(self) -> object:
        return self._value


class Array:
    """An array of one number, which is no number."""

    shape = (1,)

    def __index__(self) -> int:
        raise TypeError("only integer scalar arrays can be converted to a scalar index")

    def item(self) -> float:
        return 1.5

    def __str__(self) -> str:
        return "[1.5]"


@dataclass
class Count:
    units: object


def result_for(value: object) -> us.ToolResult:
    """Have a tool return a value, and return its result."""

    def look() -> object:
        return value

    agent = us.Agent("clerk", model=ScriptedModel([calls("look"), says("ok")]), tools=[look])
    return results_of(agent.run("go"))[0]


@pytest.mark.parametrize(
    ("value", "content", "parts"),
    [
        (PHOTO, "image of type image/png, 1 bytes", (PHOTO,)),
        (PAPER, "file 'a.pdf' of type application/pdf, 1 bytes", (PAPER,)),
        (
            [PHOTO, PAPER],
            "image of type image/png, 1 bytes; file 'a.pdf' of type application/pdf, 1 bytes",
            (PHOTO, PAPER),
        ),
        (["Before:", PHOTO, us.TextPart("After:"), PAPER], "Before:\nAfter:", (PHOTO, PAPER)),
        (("Seen:", PHOTO, {"units": 7}, Verdict(label="ham")), 'Seen:\n{"units": 7}\n{"label":"ham"}', (PHOTO,)),
        (us.TextPart("Words."), "Words.", ()),
        ([us.TextPart("One."), "Two."], "One.\nTwo.", ()),
        (["One.", "Two."], '["One.", "Two."]', ()),
        ([], "[]", ()),
        (Verdict(label="ham"), '{"label":"ham"}', ()),
        (Color.RED, "red", ()),
        (Shade.DARK, "dark", ()),
        ({"color": Color.RED, "shade": Shade.DARK}, '{"color": "red", "shade": "dark"}', ()),
        (MappingProxyType({"units": 7}), '{"units": 7}', ()),
        (us.SessionState({"units": 7}), '{"units": 7}', ()),
        ([deque([1, 2]), range(2), {"a": 1}.values(), {"a": 1}.items()], '[[1, 2], [0, 1], [1], [["a", 1]]]', ()),
        (b"raw", "\"b'raw'\"", ()),
    ],
)
def test_a_value_is_text_and_the_parts_beside_it(value: object, content: str, parts: tuple[Any, ...]) -> None:
    result = result_for(value)

    assert (result.content, result.parts, result.is_error) == (content, parts, False)


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        ({"photo": PHOTO}, "raised", "returned by itself, or in a list or tuple"),
        (us.ImagePart(), "raised", "an image needs data or a url"),
        (map(str, [1]), "raised", "an iterator, generator or coroutine is no value"),
        ([zip([1], [2], strict=True)], "raised", "return what it makes, as in list"),
        ({"row": Opaque()}, "raised", "Opaque has neither JSON nor text; return what it holds"),
        (us.ImagePart("?"), "raised", "must be base64"),
        (
            us.ImagePart("A" * (MAX_MEDIA + 4)),
            "too_large",
            "look returned too much: its images and files have 10,485,764",
        ),
        ([us.FilePart("A" * (MAX_MEDIA // 2 + 4), "application/zip")] * 2, "too_large", "at most 10,485,760"),
    ],
)
def test_what_no_model_could_be_sent_is_the_call_s_own_error(value: object, kind: str, words: str) -> None:
    result = result_for(value)

    assert (result.error_kind, result.parts) == (kind, ())
    assert words in result.content


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (Int64(3), "3"),
        (Float32(1.5), "1.5"),
        (Float32(True), "true"),
        ([Int64(3), Float32(False)], "[3, false]"),
        ({"units": Int64(3), "share": (Float32(0.5),)}, '{"units": 3, "share": [0.5]}'),
        ({"counts": {Int64(3): Int64(1)}}, '{"counts": {"3": 1}}'),
        (Count(Int64(3)), '{"units": 3}'),
        (Count({Int64(3): {Int64(4)}}), '{"units": {"3": [4]}}'),
        (Array(), '"[1.5]"'),
    ],
)
def test_a_number_of_another_library_is_a_number(value: object, content: str) -> None:
    assert result_for(value).content == content


class Many:
    """An array as numpy has them, whose text leaves the middle out."""

    def __init__(self, values: list[object], kind: str = "i", shape: tuple[int, ...] | None = None) -> None:
        self._values = values
        self.dtype = SimpleNamespace(kind=kind)
        self.shape = shape or (len(values),)

    def astype(self, kind: type[str]) -> Many:
        return Many([kind(f"day {value}") for value in self._values], "U")

    def tolist(self) -> list[object]:
        return self._values

    def __str__(self) -> str:
        return "[0 ... 9]"


class Table(Many):
    """A table as pandas has them."""

    iloc = None

    def to_dict(self, orient: str = "dict") -> dict[str, object]:
        assert orient == "split"  # the usual form loses rows of one label
        return {"index": ["a", "a"], "columns": ["units"], "data": [[1], [2]]}


class Series(Many):
    """A column with labels as pandas has them; `tolist` is without the labels."""

    iloc = None

    def to_frame(self) -> Table:
        return Table([])


class Frame(Many):
    """A table as polars has them."""

    def to_dicts(self) -> list[dict[str, object]]:
        return [{"units": 1}, {"units": 2}]


SPLIT = '{"index": ["a", "a"], "columns": ["units"], "data": [[1], [2]]}'


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (Many([Int64(1), [Float32(0.5)]]), "[1, [0.5]]"),
        ({"found": Many([1, 2])}, '{"found": [1, 2]}'),
        (Many([1, 2], kind="M"), '["day 1", "day 2"]'),
        (Table([]), SPLIT),
        (Series([1, 2]), SPLIT),
        (Frame([]), '[{"units": 1}, {"units": 2}]'),
        (Many([]), "[]"),
    ],
)
def test_an_array_or_table_of_another_library_is_its_values(value: object, content: str) -> None:
    assert result_for(value).content == content


def test_an_array_of_more_values_than_a_result_has_characters_is_not_listed() -> None:
    result = result_for(Many([], shape=(4000, 4000)))

    assert result.error_kind == "too_large"
    assert "it has 16,000,000 values; at most 8,388,608 characters" in result.content


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (Decimal("1.10"), '"1.10"'),
        (UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        ({"a", "b"}, '["a", "b"]'),
        ({date(2026, 1, 2): Decimal(1)}, '{"2026-01-02": "1"}'),
        ({Color.RED: Verdict(label="spam")}, '{"red": {"label": "spam"}}'),
    ],
)
def test_a_value_without_json_is_its_text(value: object, content: str) -> None:
    assert result_for(value).content == content


def test_a_key_that_json_cannot_have_is_named() -> None:
    result = result_for({("a", 1): 2})

    assert result.error_kind == "raised"
    assert "a key of a dict is a tuple; expected text, a number" in result.content


def test_a_value_that_is_too_large_is_not_tried_again() -> None:
    attempts: list[int] = []

    @us.tool(retries=3)
    def look() -> us.ImagePart:
        attempts.append(1)
        return us.ImagePart("A" * (MAX_MEDIA + 4))

    us.Agent("clerk", model=ScriptedModel([calls("look"), says("ok")]), tools=[look]).run("go")

    assert attempts == [1]


def test_they_come_back_from_a_process() -> None:
    agent = us.Agent(
        "clerk",
        model=ScriptedModel([calls("photographs") + calls("returns_much_media"), says("ok")]),
        tools=process_tools.ALL,
    )

    photo, much = results_of(agent.run("go", timeout=STARTS))

    assert photo.content == "Two things:"
    assert photo.parts == (PHOTO, us.FilePart("QQ==", "application/pdf", "https://x.test/a.pdf", "a.pdf"))
    assert much.error_kind == "too_large"


def test_they_are_saved_with_a_run_that_waits() -> None:
    def look() -> us.ImagePart:
        return PHOTO

    agent = us.Agent("clerk", model="rehearsal", tools=[look])
    spec = us.RunSpec.of(agent)
    run = us.AgentRun(spec, "go")
    run.next_step()
    run.model_response(us.ModelTurn((us.ToolCall("a", "look"), us.ToolCall("b", "look"))))
    run.next_step()
    run.tool_results([us.ToolResult("a", "seen", parts=(PHOTO, PAPER))])

    again = us.AgentRun.from_json(run.to_json(), spec)
    again.tool_results([us.ToolResult("b", "seen")])

    assert [result.parts for result in again.messages[-1].tool_results] == [(PHOTO, PAPER), ()]


def test_the_next_model_call_gets_them() -> None:
    def look() -> us.ImagePart:
        return PHOTO

    model = ScriptedModel([calls("look"), says("A cat.")])
    assert finished(us.Agent("clerk", model=model, tools=[look]).run("go")).text == "A cat."

    assert model.requests[1].tool_results[0].parts == (PHOTO,)
