"""What is kept of results that were cut, and how they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.vocabulary.context import artifacts
from understudy.vocabulary.context.artifacts import Artifacts, cut


def test_artifacts_have_ids_in_the_order_in_which_they_came() -> None:
    kept = Artifacts()

    first = kept.add("look", "c1", "one")
    kept.add("find", "c1", "two")

    assert (first.id, first.tool, first.call_id, first.text) == ("artifact-1", "look", "c1", "one")
    assert list(kept) == ["artifact-1", "artifact-2"]
    assert (len(kept), kept["artifact-2"].text, kept.snapshot()) == (2, "two", dict(kept))


def test_the_oldest_are_forgotten_when_there_is_too_much_and_the_last_one_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(artifacts, "MAX_KEPT", 10)
    kept = Artifacts()

    for text in ("aaaa", "bbbb", "cc", "dddd"):
        kept.add("look", "c", text)
    assert [artifact.text for artifact in kept.values()] == ["bbbb", "cc", "dddd"]

    kept.add("look", "c", "e" * 11)
    assert [artifact.text for artifact in kept.values()] == ["e" * 11]


def test_artifacts_go_on_counting_and_forgetting_where_the_run_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MAX_KEPT", 10)
    before = Artifacts()
    for text in ("aaaa", "bbbb", "cccc"):
        before.add("look", "c", text)

    after = Artifacts(before.snapshot().values())
    after.add("look", "c", "dddd")

    assert {artifact.id: artifact.text for artifact in after.values()} == {"artifact-3": "cccc", "artifact-4": "dddd"}


def test_a_cut_text_says_how_much_is_missing_between_its_head_and_tail() -> None:
    text = "abcdefghijklmnopqrstuvwxyz"

    assert cut(text, 8, "; the whole is artifact-1") == (
        "abcdef\n[… 18 of 26 characters are left out here; the whole is artifact-1 …]\nyz"
    )


@given(st.text(min_size=2), st.data())
def test_a_cut_text_holds_so_many_characters_of_the_whole(text: str, data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, len(text) - 1))

    told = f"\n[… {len(text) - limit:,} of {len(text):,} characters are left out here …]\n"
    head, mark, tail = cut(text, limit, "").partition(told)

    assert mark
    assert len(head) + len(tail) == limit
    assert text.startswith(head)
    assert text.endswith(tail)
