"""Events as rows of a journal: what was told comes back, as far as JSON can carry it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from tests.support.run_events import event_values
from understudy.orchestration.journal.event_text import begun_in, event_of_text, event_text, key_of_event
from understudy.vocabulary.runs.events import Event


def there_and_back(event: Event) -> Event:
    found = event_of_text(event_text(event))
    assert found is not None
    return found.event


def words(error: BaseException) -> tuple[str, str]:
    """Return the type and words of an error as a reader gets them."""
    if type(error).__module__ == "understudy.errors":
        return type(error).__name__, str(error)
    return "RunError", f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("kind", get_args(Event))
@settings(max_examples=20)
@given(data=st.data())
def test_an_event_comes_back_as_it_was_told_and_its_error_in_type_and_words(
    kind: type[Event], data: st.DataObject
) -> None:
    event = data.draw(event_values(kind))
    found = there_and_back(event)

    assert (type(found), found.time, found.id) == (type(event), event.time, event.id)
    if isinstance(event, us.RunFailed):
        assert isinstance(found, us.RunFailed)
        assert words(found.error) == words(event.error)
        assert replace(found, error=event.error) == event
    elif isinstance(event, us.ChildFinished) and event.error is not None:
        assert isinstance(found, us.ChildFinished)
        assert found.error is not None
        assert words(found.error) == words(event.error)
        assert replace(found, error=event.error) == event
    else:
        assert found == event


def test_an_error_keeps_its_token_and_what_a_program_decides_by() -> None:
    error = us.RateLimited("slow down", status=429, retryable=True)
    error.token, error.path = "r.1.x", ("desk", "clerk")

    found = there_and_back(us.RunFailed(error=error))

    assert isinstance(found, us.RunFailed)
    assert isinstance(found.error, us.RateLimited)
    assert (found.error.token, found.error.path, found.error.status) == ("r.1.x", ("desk", "clerk"), 429)
    assert found.error.retryable


class RunError(us.RunError):
    """An error of a user's with the name of one of ours."""


def test_an_error_of_a_users_with_the_name_of_ours_comes_back_as_ours() -> None:
    found = there_and_back(us.RunFailed(error=RunError("no stock")))

    assert isinstance(found, us.RunFailed)
    assert (type(found.error), str(found.error)) == (us.RunError, "no stock")


@dataclass
class Shelf:
    sku: str
    units: int


class Sealed:
    def __repr__(self) -> str:
        raise RuntimeError("nobody may see this")

    __str__ = __repr__


@pytest.mark.parametrize(("output", "expected"), [(Shelf("A-113", 7), {"sku": "A-113", "units": 7}), ((1, 2), [1, 2])])
def test_an_answer_in_a_class_comes_back_as_plain_data(output: object, expected: object) -> None:
    found = there_and_back(us.RunFinished(outcome=us.Complete(text="x", output=output)))

    assert isinstance(found, us.RunFinished)
    assert found.outcome.output == expected


def test_an_answer_that_cannot_be_told_leaves_the_end_of_the_run_whole() -> None:
    found = there_and_back(us.RunFinished(outcome=us.Complete(text="x", output=Sealed(), run_id="r")))

    assert isinstance(found, us.RunFinished)
    assert (found.outcome.text, found.outcome.run_id) == ("x", "r")


def test_all_of_an_outcome_comes_back() -> None:
    inner = us.Complete(text="one", output="one", agent_id="one")
    task = us.TaskResult(name="first", status="failed", reason="ValueError: x", attempts=2, error=ValueError("x"))
    pause = us.Pause(
        id="p", path=("desk",), calls=(us.ToolCall("c1", "pay"),), reasons={"c1": "dear"}, in_doubt=("c1",)
    )
    outcome = us.NeedsApproval(
        calls=pause.calls,
        pauses=(pause,),
        token="r.1.x",
        run_id="r",
        usage=us.Usage(3, 4),
        cost_usd=0.5,
        messages=(us.Message("user", (us.TextPart("go"),)),),
        session={"a": [1, None]},
        tasks={"first": task},
        artifacts={"a1": us.Artifact("a1", "look", "c1", "long")},
        children=(inner, us.RunCancelled("stopped")),
    )

    found = there_and_back(us.RunFinished(outcome=outcome))

    assert isinstance(found, us.RunFinished)
    assert found.outcome == outcome
    assert found.outcome.children[0] == inner
    assert isinstance(found.outcome.children[1], us.RunCancelled)
    assert str(found.outcome.tasks["first"].error) == "ValueError: x"


@pytest.mark.parametrize("text", ['{"type": "Sung", "seq": 3}', '{"type": "TurnStarted"}', "{", "[]"])
def test_an_event_of_a_later_version_is_none(text: str) -> None:
    assert event_of_text(text) is None


def test_a_field_of_a_later_version_is_left_out() -> None:
    data: dict[str, Any] = json.loads(event_text(us.TurnStarted(turn=1, seq=3)))

    found = event_of_text(json.dumps({**data, "colour": "red"}))

    assert found is not None
    assert found.event == us.TurnStarted(turn=1, seq=3)


def test_what_was_shown_of_a_turn_comes_back() -> None:
    shown = [("text", "Yes", 0, "", ""), ("call", "{}", 0, "c1", "look")]

    found = event_of_text(event_text(us.TurnFinished(turn=1, response=us.ModelTurn(())), shown))

    assert found is not None
    assert found.shown == shown


def test_keys_have_the_order_of_the_numbers() -> None:
    keys = [key_of_event(seq) for seq in (9, 10, 999_999)]

    assert keys == sorted(keys)


def test_what_began_and_did_not_end_is_known_by_the_texts_of_events() -> None:
    def text(kind: str, **about: object) -> str:
        return json.dumps({"type": kind, **about})

    turn = [text("TurnStarted", turn=1), text("TurnFinished", turn=1)]
    call = [text("ToolStarted", call={"id": "c1"}), text("ToolFinished", call={"id": "c1"})]
    child = [text("ChildStarted", child_run_id="r-2"), text("ChildFinished", child_run_id="r-2")]

    assert begun_in([*turn, *call, *child, "{}", text("ToolProgress", call={"id": "c1"})]) == set()
    assert begun_in([*turn, *call[:1], *child[:1], text("TurnStarted", turn=2)]) == {"c1", "r-2", 2}
    assert begun_in([*call[:1], text("RunFinished")]) == set()  # it paused, and goes on anew
