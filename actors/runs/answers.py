"""What a person's answer does to a paused run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from understudy.errors import AnswerMissing, AnswerRefused, ProtocolViolation
from understudy.orchestration.agent.pauses import check_answers, sort_answers
from understudy.orchestration.front_ends.interrupts import is_id

from .edited_calls import UnfitArguments, check_edits
from .record import RunRecord

if TYPE_CHECKING:
    from understudy.actors.run_view.log import Finished
    from understudy.orchestration.definitions.port import Answer, ResumeOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.runs.outcomes import PauseAnswer


def feed_answer(
    record: RunRecord, runner: Runner[object], answer: Answer, options: ResumeOptions
) -> Sequence[Finished]:
    """Raise the limits and feed the answer to the run's machine, or change nothing.

    Returns:
        The calls that have their result by the answer; the caller notes them in the run's log.

    Raises:
        AnswerMissing: there is no answer, and the run waits for one.
        AnswerRefused: the answer is not of the kind the run waits for, or arguments of an approval do not fit.
        ProtocolViolation: an answer is for something that does not wait.
        ValueError: the run belongs to another runner, a limit would be lowered, or an incomplete run would stay so.
    """
    if runner.id != record.runner.id:
        raise ValueError(f"run {record.run_id} belongs to {record.runner.id!r}, not to {runner.id!r}")
    try:
        given = _sorted(record, runner, answer)
    except (TypeError, UnfitArguments, ProtocolViolation) as error:
        if answer is None:
            raise _missing(record, error) from None
        kind = ProtocolViolation if isinstance(error, ProtocolViolation) else AnswerRefused
        raise kind(f"run {record.run_id}: {_without_tokens(error, answer)}", run_id=record.run_id) from None
    return record.go_on(given, options)


def _without_tokens(error: Exception, answer: Answer) -> str:
    """Return the text of an error without ids that front ends were sent: they hold the token, which still works."""
    text = str(error)
    for key in answer if isinstance(answer, Mapping) else ():
        if isinstance(key, str) and is_id(key):  # pyright: ignore[reportUnnecessaryIsInstance]  # of users
            text = text.replace(repr(key), "of a front end, which us.answers_of reads")
    return text


def _missing(record: RunRecord, error: Exception) -> AnswerMissing:
    calls = [call for pause in record.pauses for call in pause.calls]
    questions = [pause.question for pause in record.pauses if pause.question is not None]
    return AnswerMissing(f"run {record.run_id}: {error}", run_id=record.run_id, calls=calls, questions=questions)


def _sorted(record: RunRecord, runner: Runner[object], answer: Answer) -> dict[str, PauseAnswer]:
    """Return what each pause gets, checked; empty for a run that needs no answer to go on."""
    why_none = record.takes_no_answer()
    if why_none:
        if answer is not None:
            raise TypeError(why_none)
        return {}
    pauses = record.pauses
    if answer is None and (record.by_error or not (pauses and record.needs_answer)):
        return {}  # after an error the run goes on and, if it waits for a person, says so
    given = sort_answers(pauses, answer)
    check_answers(pauses, given)
    check_edits(runner, pauses, given)
    return given
