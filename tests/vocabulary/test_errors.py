"""Errors: one tree, and attributes that survive a copy and another process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import cast

import pytest

from tests.support.copies import COPIES
from understudy import errors
from understudy.errors import (
    ActorError,
    BudgetExceeded,
    MailboxFull,
    MaxIterationsExceeded,
    ProviderError,
    RunError,
    SeveralErrors,
    SpecChanged,
    SpecError,
    TokenUsed,
    ToolError,
    UnderstudyError,
    UnknownToken,
    had_its_retries,
    in_words,
    joined,
    kind_and_message,
)

CLASSES = [
    found
    for found in vars(errors).values()
    if inspect.isclass(found) and issubclass(found, UnderstudyError) and found.__module__ == errors.__name__
]


def filled(cls: type[UnderstudyError]) -> UnderstudyError:
    """Make an error with something else than the default in every attribute."""
    given: dict[str, object] = {}
    own = [base for base in cls.__mro__ if base.__module__ == errors.__name__ and "__init__" in vars(base)]
    for name, parameter in [entry for base in own for entry in inspect.signature(base).parameters.items()]:
        if parameter.kind is parameter.KEYWORD_ONLY and name in vars(cls("")):
            is_number, is_claim = name in ("limit", "spent", "status"), name in ("inherited", "retryable")
            given[name] = 7 if is_number else 1.5 if name == "retry_after" else True if is_claim else "some"
    make: Callable[..., UnderstudyError] = cls
    return make("what happened", **given)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_survives_with_its_message_and_attributes(
    cls: type[UnderstudyError], way: Callable[[UnderstudyError], object]
) -> None:
    error = filled(cls)
    error.retries_used_up = True
    error.add_note("in the second turn")

    again = way(error)

    assert type(again) is cls
    assert isinstance(again, UnderstudyError)
    assert again is not error
    assert str(again) == "what happened"
    assert vars(again) == vars(error)
    assert repr(again.args) == repr(error.args)  # an error among them is another one then


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_needs_no_more_than_a_message(cls: type[UnderstudyError]) -> None:
    assert str(cls("what happened")) == "what happened"


def test_there_is_a_class_for_each_name_in_the_tree_and_no_other() -> None:
    tree = (errors.__doc__ or "").split("UnderstudyError", 1)[1].split("Every argument")[0]

    assert all(f" {cls.__name__}" in tree for cls in CLASSES if cls is not UnderstudyError)
    assert len([line for line in tree.splitlines() if "──" in line]) == len(CLASSES) - 1


@pytest.mark.parametrize("cls", [SpecError, SpecChanged, UnknownToken, TokenUsed])
def test_what_is_a_caller_s_mistake_is_a_value_error_too(cls: type[Exception]) -> None:
    assert issubclass(cls, ValueError)


def test_attributes_have_defaults_that_say_unknown() -> None:
    provider = ProviderError("x")
    run = RunError("x")
    limit = MaxIterationsExceeded("x")
    tool = ToolError("x")

    assert (provider.provider, provider.status, provider.code, provider.retry_after) == ("", None, "", None)
    assert provider.retryable is False
    assert (run.run_id, run.token) == ("", "")
    assert (limit.limit, limit.what) == (0, "max_iterations")
    assert (tool.tool, tool.call_id) == ("", "")
    budget = BudgetExceeded("x")
    assert (budget.what, budget.limit, budget.spent, budget.inherited) == ("", 0, 0, False)
    assert (ActorError("x").actor, ActorError("x").retryable, MailboxFull("x").retryable) == ("", False, True)


def test_an_error_had_its_retries_when_it_or_what_it_came_of_says_so() -> None:
    spent, fresh, wrapped, unrelated = ProviderError("x"), ProviderError("x"), LookupError("y"), LookupError("z")
    spent.retries_used_up = True
    wrapped.__cause__ = spent
    unrelated.__context__ = spent

    assert [had_its_retries(error) for error in (spent, wrapped, fresh, unrelated)] == [True, True, False, False]


def test_an_error_in_words_has_its_notes() -> None:
    error = LookupError("no such order")
    plain = in_words(error)
    error.add_note("in the second turn")
    error.add_note("of three")

    assert (plain, in_words(error)) == (
        "LookupError: no such order",
        "LookupError: no such order; in the second turn; of three",
    )


class Mute(Exception):
    """An error whose message cannot be made."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_an_error_without_a_message_is_its_type_alone_in_words() -> None:
    error = KeyboardInterrupt()
    plain = in_words(error)
    error.add_note("in the second turn")

    assert (plain, in_words(error)) == ("KeyboardInterrupt", "KeyboardInterrupt; in the second turn")
    assert kind_and_message(TimeoutError()) == "TimeoutError"


def test_an_error_whose_message_cannot_be_made_says_so() -> None:
    assert in_words(Mute()) == "Mute (it has no message that can be shown)"
    assert kind_and_message(Mute()) == "Mute: (it has no message that can be shown)"


def several() -> SeveralErrors:
    error = SeveralErrors("none of 2 succeeded", [ProviderError("busy"), ValueError("wrong")], run_id="r-1")
    error.path = ("panel",)
    return error


def test_several_errors_are_one_of_understudy_s_and_a_group() -> None:
    with pytest.raises(UnderstudyError):
        raise several()
    with pytest.raises(ExceptionGroup, match="none of 2 succeeded"):
        raise several()


def test_except_star_finds_what_several_errors_hold() -> None:
    found: list[BaseException] = []
    try:
        try:
            raise several()
        except* ProviderError as busy:
            found.append(busy)
    except SeveralErrors as left:
        found.append(left)

    assert [type(each) for each in found] == [SeveralErrors] * 2
    assert [str(error) for each in found for error in cast(SeveralErrors, each).exceptions] == ["busy", "wrong"]
    assert [cast(SeveralErrors, each).path for each in found] == [("panel",)] * 2


@pytest.mark.parametrize("way", COPIES)
def test_what_several_errors_hold_survives_a_copy(way: Callable[[UnderstudyError], object]) -> None:
    again = way(several())

    assert isinstance(again, SeveralErrors)
    assert [(type(each), str(each)) for each in again.exceptions] == [(ProviderError, "busy"), (ValueError, "wrong")]
    assert (again.path, again.run_id) == (("panel",), "r-1")


def test_an_exit_among_several_errors_is_a_run_error_with_the_exit_as_its_cause() -> None:
    leaves, wrong = SystemExit(3), ValueError("wrong")

    exceptions = joined("all failed", [leaves, wrong]).exceptions

    assert (type(exceptions[0]), str(exceptions[0])) == (RunError, "SystemExit: 3")
    assert exceptions[0].__cause__ is leaves
    assert exceptions[1] is wrong
