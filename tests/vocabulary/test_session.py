"""Sessions, and a tool call's own view of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

import pytest

from tests.support.copies import COPIES
from tests.support.together import all_at_once
from understudy.vocabulary.context.overlays import CallSession, SessionOverlay
from understudy.vocabulary.context.session import SessionState
from understudy.vocabulary.messages import JsonValue

# --- sessions


def test_a_session_is_a_mapping() -> None:
    session = SessionState({"customer": "ada", "n": 1})

    session["n"] = 2
    session["user:name"] = "Ada"
    del session["customer"]

    assert dict(session) == {"n": 2, "user:name": "Ada"}
    assert (len(session), "n" in session, session.get("nobody", 3)) == (2, True, 3)
    assert session == {"n": 2, "user:name": "Ada"}


def test_a_session_does_not_share_the_mapping_it_was_made_from() -> None:
    given: dict[str, JsonValue] = {"n": 1}
    session = SessionState(given)

    session["n"] = 2

    assert given == {"n": 1}


def test_a_missing_key_is_a_key_error() -> None:
    session = SessionState()

    with pytest.raises(KeyError):
        session["n"]
    with pytest.raises(KeyError):
        del session["n"]


@pytest.mark.parametrize("key", ["__", "__x", "__ask__"])
def test_keys_of_the_runtime_are_refused_to_users(key: str) -> None:
    session = SessionState()
    overlay = SessionOverlay({})

    for values in (session, overlay):
        with pytest.raises(ValueError, match="belong to the runtime"):
            values[key] = 1
        with pytest.raises(ValueError, match="belong to the runtime"):
            del values[key]
        with pytest.raises(ValueError, match="belong to the runtime"):
            values.setdefault(key, 1)
    with pytest.raises(ValueError, match="belong to the runtime"):
        SessionState({key: 1})


def test_one_underscore_is_a_user_s_own() -> None:
    assert SessionState({"_x": 1})["_x"] == 1


def test_keys_are_strings() -> None:
    session = SessionState()

    with pytest.raises(TypeError, match="session keys are strings, got 3"):
        session[3] = 1  # type: ignore[index]  # pyright: ignore[reportArgumentType]  # the mistake is the point


def test_values_stay_out_of_the_repr() -> None:
    assert repr(SessionState({"card": "4111"})) == "SessionState(['card'])"
    assert repr(SessionOverlay({"card": "4111"})) == "SessionOverlay(['card'])"


def test_a_session_may_change_while_someone_goes_through_it() -> None:
    session = SessionState({"a": 1, "b": 2})

    for key in session:
        session[key + key] = 0
        del session[key]

    assert session == {"aa": 0, "bb": 0}


def test_a_snapshot_stays_as_it_was() -> None:
    session = SessionState({"a": 1})
    snapshot = session.snapshot()

    session["a"] = 2

    assert snapshot == {"a": 1}


def test_several_changes_are_applied_at_once_and_removing_what_is_gone_is_no_error() -> None:
    session = SessionState({"a": 1, "b": 2})

    session.apply({"a": 3, "c": 4}, frozenset(["b", "gone"]))

    assert session == {"a": 3, "c": 4}


def test_many_threads_may_write_and_go_through_a_session() -> None:
    session = SessionState()

    def work(name: str) -> None:
        for i in range(300):
            session[f"{name}{i}"] = i
            assert sum(1 for _ in session) > 0
            if i % 3 == 0:
                del session[f"{name}{i}"]

    all_at_once(work, "abcd")

    assert len(session) == 4 * 200


# --- a tool call's view


def test_reads_fall_through_and_writes_stay() -> None:
    base = SessionState({"a": 1})
    view = SessionOverlay(base)

    view["b"] = 2
    view["a"] = 3
    base["c"] = 4

    assert view == {"a": 3, "b": 2, "c": 4}
    assert base == {"a": 1, "c": 4}
    assert (view.changes, view.removed) == ({"b": 2, "a": 3}, frozenset[str]())


def test_a_removed_key_is_gone_from_the_view_only() -> None:
    base = SessionState({"a": 1, "b": 2})
    view = SessionOverlay(base)

    del view["a"]

    assert view == {"b": 2}
    assert ("a" in view, len(view), list(view)) == (False, 1, ["b"])
    assert base == {"a": 1, "b": 2}
    with pytest.raises(KeyError):
        del view["a"]
    with pytest.raises(KeyError):
        view["a"]


def test_a_key_that_was_removed_may_be_set_again() -> None:
    view = SessionOverlay({"a": 1})

    del view["a"]
    view["a"] = 2

    assert view == {"a": 2}
    assert (view.changes, view.removed) == ({"a": 2}, frozenset[str]())


def test_a_key_of_the_view_s_own_may_be_removed() -> None:
    view = SessionOverlay({"a": 1})

    view["b"] = 2
    del view["b"]

    assert view == {"a": 1}
    assert view.changes == {}


def test_changes_of_a_view_carry_over_to_the_session() -> None:
    base = SessionState({"a": 1, "b": 2})
    view = SessionOverlay(base)
    view["c"] = 3
    del view["a"]

    base.apply(view.changes, frozenset(view.removed))

    assert base == view == {"b": 2, "c": 3}


Shown: TypeAlias = tuple[dict[str, JsonValue], tuple[str, ...]]
"""Values of a session, and keys removed."""

BESIDE: list[tuple[Shown, Shown, Shown, tuple[str, ...]]] = [
    (({}, ()), ({}, ()), ({}, ()), ()),
    (({"b": 2}, ()), ({}, ()), ({"b": 2}, ()), ()),
    (({"b": 2}, ()), ({"b": 2}, ()), ({}, ()), ()),
    (({"b": 2}, ()), ({"b": 2.0}, ()), ({"b": 2}, ()), ()),
    (({"b": 2}, ()), ({"b": True}, ()), ({"b": 2}, ()), ()),
    (({"b": 0.0}, ()), ({"b": -0.0}, ()), ({"b": 0.0}, ()), ()),
    (({"b": [1, 2]}, ()), ({"b": [1]}, ()), ({"b": [1, 2]}, ()), ()),
    (({"temp:b": 2}, ("temp:a",)), ({"temp:c": 1}, ()), ({}, ()), ()),
    (({}, ("a",)), ({}, ()), ({}, ("a",)), ()),
    (({}, ("a",)), ({}, ("a",)), ({}, ()), ()),
    (({}, ("a",)), ({"a": 2}, ()), ({}, ("a",)), ()),
    (({"a": 2}, ()), ({}, ("a",)), ({"a": 2}, ()), ()),
    (({}, ()), ({"a": 2, "b": 2}, ("c",)), ({}, ()), ("a", "b", "c")),
]
"""What a run changed of a session with a = 1; what is known of that; what is not known, and what is known wrongly."""


@pytest.mark.parametrize(("now", "said", "beside", "undone"), BESIDE)
def test_what_a_view_shows_beside_changes_that_are_known(
    now: Shown, said: Shown, beside: Shown, undone: tuple[str, ...]
) -> None:
    live, known = SessionOverlay({"a": 1}), SessionOverlay({})
    for view, (changes, gone) in ((live, now), (known, said)):
        view.changes, view.removed = changes, frozenset(gone)

    found = live.changes_beside(known)

    assert found == (*beside, undone)
    assert [repr(each) for each in found[0].values()] == [repr(each) for each in beside[0].values()]
    known.undo(undone)
    assert not known.changes.keys() & undone
    assert not known.removed & {*undone}


def test_each_key_is_seen_once() -> None:
    view = SessionOverlay({"a": 1, "b": 2})

    view["a"] = 5
    view["c"] = 6

    assert sorted(view) == ["a", "b", "c"]
    assert len(view) == 3


def test_a_view_may_change_while_someone_goes_through_it() -> None:
    view = SessionOverlay({"a": 1, "b": 2})
    view["c"] = 3

    for key in view:
        del view[key]
        view[key + key] = 0

    assert view == {"aa": 0, "bb": 0, "cc": 0}


@pytest.mark.parametrize("made", COPIES)
def test_a_copy_of_a_session_has_values_of_its_own(made: Callable[[SessionState], SessionState]) -> None:
    session = SessionState({"customer": "ada"})

    copied = made(session)
    copied["customer"] = "bob"

    assert (dict(session), dict(copied)) == ({"customer": "ada"}, {"customer": "bob"})


# --- a call's own copies of lists and dicts


def test_a_change_in_place_is_a_change_once_the_call_is_settled() -> None:
    base = SessionOverlay({"items": [1], "other": {"a": [1]}})
    view = CallSession(base)

    items_of(view).append(2)
    items_of(view).append(3)
    before = dict(base)
    is_changed = view.settle()
    view.commit()

    assert (before, is_changed) == ({"items": [1], "other": {"a": [1]}}, True)
    assert base.changes == {"items": [1, 2, 3]}


def test_what_is_only_read_is_no_change() -> None:
    view = CallSession(SessionOverlay({"items": [1, {"a": 2}]}))

    assert items_of(view) == [1, {"a": 2}]
    assert not view.settle()


def test_a_value_that_was_set_is_not_shared_with_those_who_hold_it() -> None:
    base, given = SessionOverlay({}), list[JsonValue]([1])
    view = CallSession(base)

    view["items"] = given
    view.setdefault("items", [])
    view.settle()
    view.commit()
    given.append(2)

    assert base["items"] == [1]


def test_a_key_that_is_set_or_removed_after_a_change_in_place_is_as_it_was_left() -> None:
    view = CallSession(SessionOverlay({"a": [1], "b": [1]}))

    for key in ("a", "b"):
        items_of(view, key).append(2)
    view["a"] = 3
    del view["b"]
    view.settle()

    assert (view.changes, view.removed) == ({"a": 3}, frozenset(["b"]))


def test_a_list_in_itself_and_objects_of_any_class_are_left_as_they_are() -> None:
    thing, ring = object(), list[JsonValue]()
    ring.append(ring)
    view = CallSession(SessionOverlay({"ring": ring, "things": [cast(JsonValue, thing)]}))

    assert view["ring"] is ring
    assert items_of(view, "things")[0] is thing
    assert not view.settle()


def items_of(values: Mapping[str, JsonValue], key: str = "items") -> list[JsonValue]:
    return cast("list[JsonValue]", values[key])
