"""Results that are too long: the model gets head and tail, the run keeps the whole, and a flood harms only its own call."""

from __future__ import annotations

import re

import pytest

import understudy as us
from tests.support import process_tools
from tests.support.scripts import finished, needs_approval, results_of, scripted
from understudy.testing import ScriptedModel, calls, says
from understudy.vocabulary.tools.options import DEFAULT_MAX_RESULT, MAX_RESULT

STARTS = 60.0  # Seconds for an interpreter on a busy machine.
LONG = "".join([f"line {number}\n" for number in range(10_000)])


def pages() -> str:
    return LONG


def test_the_model_gets_head_and_tail_and_the_run_keeps_the_whole() -> None:
    outcome = finished(scripted(calls("pages"), says("ok"), tools=[pages]).run("go"))

    (result,) = results_of(outcome)
    (artifact,) = outcome.artifacts.values()
    assert (artifact.id, artifact.tool, artifact.call_id) == ("artifact-1", "pages", result.call_id)
    assert artifact.text == LONG
    head, mark, tail = re.split(r"\n(\[… .*? …\])\n", result.content)
    left_out = len(LONG) - DEFAULT_MAX_RESULT
    assert mark == f"[… {left_out:,} of {len(LONG):,} characters are left out here; the whole is artifact-1 …]"
    assert len(head) + len(tail) == DEFAULT_MAX_RESULT
    assert LONG.startswith(head)
    assert LONG.endswith(tail)
    assert not result.is_error


def test_what_fits_is_not_touched() -> None:
    @us.tool(max_result=3)
    def fits() -> str:
        return "äöü"

    @us.tool(max_result=None)
    def goes_uncut() -> str:
        return LONG

    outcome = scripted(calls("fits") + calls("goes_uncut"), says("ok"), tools=[fits, goes_uncut]).run("go")

    assert [result.content for result in results_of(outcome)] == ["äöü", LONG]
    assert dict(outcome.artifacts) == {}


def test_json_and_the_text_beside_a_picture_are_cut_too() -> None:
    @us.tool(max_result=8)
    def rows() -> list[int]:
        return list(range(100))

    @us.tool(max_result=8)
    def photo() -> list[object]:
        return ["a long caption", us.ImagePart("QQ==")]

    outcome = scripted(calls("rows") + calls("photo"), says("ok"), tools=[rows, photo]).run("go")

    first, second = results_of(outcome)
    assert first.content.startswith("[0, 1,\n[… ")
    assert sorted(artifact.tool for artifact in outcome.artifacts.values()) == ["photo", "rows"]
    assert second.content.startswith("a long\n[… 6 of 14 characters")
    assert second.parts == (us.ImagePart("QQ=="),)


def test_a_document_that_is_too_long_a_text_is_the_call_s_own_error() -> None:
    @us.tool(max_result=8)
    def table() -> us.FilePart:
        return us.FilePart.from_bytes(b"123456789", "text/csv", name="a.csv")

    (result,) = results_of(scripted(calls("table"), says("ok"), tools=[table]).run("go"))

    assert result.error_kind == "too_large"
    assert "file 'a.csv' of type text/csv, 9 bytes, is text of 9 characters; at most 8" in result.content


def test_a_flood_is_the_call_s_own_error_and_the_run_goes_on() -> None:
    def flood() -> str:
        return "x" * 500_000_000

    def fine() -> str:
        return "fine"

    outcome = finished(scripted(calls("flood") + calls("fine"), says("ok"), tools=[flood, fine]).run("go"))

    first, second = results_of(outcome)
    assert (first.error_kind, first.is_error, second.content) == ("too_large", True, "fine")
    assert first.content == (
        "flood returned too much: its text has 500,000,000 characters; at most 8,388,608 go into a result"
    )
    assert dict(outcome.artifacts) == {}


def test_an_error_at_great_length_is_cut() -> None:
    def complains() -> str:
        raise LookupError("no " * 1_000_000)

    def asks_back() -> str:
        raise us.Retry("later " * 1_000_000)

    outcome = scripted(calls("complains") + calls("asks_back"), says("ok"), tools=[complains, asks_back]).run("go")

    assert [result.error_kind for result in results_of(outcome)] == ["raised", "retry"]
    for result in results_of(outcome):
        assert len(result.content) < 21_000
        assert "characters are left out here" in result.content


def test_the_whole_comes_from_a_process_too_and_a_flood_does_not() -> None:
    turn = calls("returns_megabytes", count=1) + calls("returns_megabytes", count=40)
    agent = us.Agent("clerk", model=ScriptedModel([turn, says("ok")]), tools=process_tools.ALL)

    outcome = agent.run("go", timeout=STARTS)

    long, flood = results_of(outcome)
    assert len(outcome.artifacts["artifact-1"].text) == 2**20
    assert len(long.content) < 51_000
    assert (flood.error_kind, "41,943,040 characters; at most" in flood.content) == ("too_large", True)


def test_a_model_that_may_reads_more_and_is_told_so() -> None:
    model = ScriptedModel(
        [
            calls("pages"),
            calls("read_artifact", id="artifact-1", offset=60_000, limit=20),
            calls("read_artifact", id="artifact-2"),
            calls("read_artifact", id="artifact-1", offset=len(LONG)),
            calls("read_artifact", id="artifact-1", limit=20_001),
            calls("read_artifact", id="artifact-1", offset=len(LONG) - 5),
            says("ok"),
        ]
    )
    agent = us.Agent("clerk", model=model, tools=[pages, us.read_artifact])

    first, piece, unknown, beyond, much, end = results_of(agent.run("go"))

    assert "; the whole is artifact-1; read_artifact reads more of it …]" in first.content
    assert piece.content == f"[characters 60,000 to 60,019 of {len(LONG):,}]\n{LONG[60_000:60_020]}"
    assert [result.error_kind for result in (unknown, beyond, much)] == ["retry"] * 3
    assert "there is no artifact 'artifact-2', or it is not kept any more; there are: artifact-1" in unknown.content
    assert end.content.endswith("]\n" + LONG[-5:])


def test_tools_see_the_artifacts_of_their_run_and_so_does_who_resumes_it() -> None:
    @us.tool(approval=True)
    def count(ctx: us.ToolContext) -> list[int]:
        return [len(artifact.text) for artifact in ctx.artifacts.values()]

    agent = us.Agent("clerk", model=ScriptedModel([calls("pages"), calls("count"), says("ok")]), tools=[pages, count])

    paused = needs_approval(agent.run("go"))
    assert list(paused.artifacts) == ["artifact-1"]
    outcome = finished(agent.resume(paused.token, us.Approve()))

    assert results_of(outcome)[1].content == f"[{len(LONG)}]"
    assert outcome.artifacts["artifact-1"].text == LONG


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (0, ValueError, "max_result must be at least 1, got 0"),
        (MAX_RESULT + 1, ValueError, "max_result must be at most 8,388,608"),
        (1.5, TypeError, "max_result must be a whole number or None, got 1.5"),
        (True, TypeError, "max_result must be a whole number or None, got True"),
    ],
)
def test_a_limit_that_is_none_is_refused_when_the_tool_is_made(
    given: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        us.Tool(pages, max_result=given)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
