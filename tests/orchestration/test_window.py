"""What two views of one conversation tell of what came between."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from understudy.orchestration.agent.state import count_new
from understudy.vocabulary.messages import Message, user_message


def messages(*texts: object) -> list[Message]:
    return [user_message(str(text)) for text in texts]


@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.integers(0, 16))
def test_of_a_conversation_whose_beginning_is_forgotten_the_new_messages_are_counted(
    old: int, new: int, forgotten: int, forgotten_since: int
) -> None:
    whole = messages(*range(old + new))
    first = min(forgotten, old)
    later = min(first + forgotten_since, old + new)

    assert count_new(whole[first:old], whole[later:]) == old + new - max(old, later)


def test_nothing_is_new_of_what_is_the_same() -> None:
    assert count_new(messages("a", "b"), messages("a", "b")) == 0
    assert count_new(messages(), messages()) == 0


def test_all_is_new_of_a_conversation_that_was_empty_or_is_forgotten() -> None:
    assert count_new(messages(), messages("a", "b")) == 2
    assert count_new(messages("a", "b"), messages("c", "d")) == 2
    assert count_new(messages("a", "b"), messages()) == 0


def test_a_conversation_that_repeats_itself_has_as_little_new_as_can_be() -> None:
    assert count_new(messages("a", "a"), messages("a", "a", "a")) == 1
