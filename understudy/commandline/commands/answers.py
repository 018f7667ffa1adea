"""The options that answer a run that waits: `--answer`, `--approve`, `--reject`, `--happened`, and `--pause` before them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from understudy.commandline.report import UsageMistake, how_to_answer
from understudy.orchestration.definitions.port import Answer
from understudy.vocabulary.runs.outcomes import Approve, Decision, Pause, PauseAnswer, Reject
from understudy.vocabulary.tools.reconciling import Happened

from . import options


def add_answers(resume: argparse.ArgumentParser) -> None:
    """Add the options."""
    resume.set_defaults(pause=None, answers=[])
    resume.add_argument(
        "--pause",
        metavar="ID",
        action=_TakePause,
        help="the pause that the next answer is for; repeatable",
    )
    resume.add_argument("--answer", metavar="TEXT", type=options.text, action=_TakeAnswer, help="answer the question")
    resume.add_argument(
        "--approve",
        metavar="CALL",
        nargs="?",
        type=options.text,
        action=_TakeAnswer,
        help="run all calls that wait for an approval, or this one; a call in doubt is made again",
    )
    resume.add_argument(
        "--reject",
        metavar="REASON",
        nargs="?",
        const="",
        type=options.text,
        action=_TakeAnswer,
        help="run none of them, or with CALL=REASON not this one; the model reads the reason",
    )
    resume.add_argument(
        "--happened",
        metavar="CALL=RESULT",
        type=options.text,
        action=_TakeAnswer,
        help="give the model the result of a call in doubt; repeatable",
    )


class _TakePause(argparse.Action):
    """Keeps a `--pause` for the answer option that follows."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        refuse_unanswered(namespace)
        namespace.pause = values


def refuse_unanswered(arguments: argparse.Namespace) -> None:
    """Refuse a `--pause` without an answer after it: an answer before it would apply to all pauses by mistake."""
    if arguments.pause is not None:
        raise UsageMistake(
            f"--pause {arguments.pause}: no answer to it follows; expected --pause ID and then --answer TEXT, "
            "--approve, --reject REASON or --happened CALL=RESULT"
        )


class Given(NamedTuple):
    """One answer as it was given."""

    pause: str | None
    """The id of its pause; None if the run has only one, or the call says which."""
    option: str
    text: str | None

    @property
    def may_name_call(self) -> bool:
        """Whether it may be for one call, which the calls of the run tell."""
        if self.option == "--approve":
            return self.text is not None
        return self.option == "--happened" or (self.option == "--reject" and "=" in (self.text or ""))


class _TakeAnswer(argparse.Action):
    """Keeps an answer together with the `--pause` before it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        given = Given(namespace.pause, str(option_string), values if isinstance(values, str) else None)
        if given.option == "--approve" and given.text is not None and namespace.file is None:
            parser.error(f"argument --approve: {given.text!r} would be a call; expected --approve after FILE.yaml")
        before: list[Given] = namespace.answers
        for other in before:
            if _clash(given, other):
                parser.error(
                    f"argument {option_string}: not allowed with argument {other.option}; --pause ID tells apart"
                )
        namespace.answers = [*before, given]
        namespace.pause = None


def _clash(one: Given, other: Given) -> bool:
    if one.may_name_call and other.may_name_call:
        return False
    if None in (one.pause, other.pause):  # a call is found without its pause
        return not any(each.pause is None and each.may_name_call for each in (one, other))
    return one.pause == other.pause


def undecided(pauses: Sequence[Pause], given: Sequence[Given], answer: Answer) -> str:
    """Say which calls in doubt an answer leaves undecided, and the options that decide them; empty if there are none.

    Args:
        pauses: those in which the run waits.
        given: the answers; one for an unknown pause has another mistake.
        answer: what `answer_of` made of them.
    """
    if any(each.pause is not None and each.pause not in {pause.id for pause in pauses} for each in given):
        return ""
    named = set[str]()
    for key, value in answer.items() if isinstance(answer, Mapping) else ():
        named |= {key, *value} if isinstance(value, Mapping) else {key}
    open_ones = [(pause, [call for call in pause.in_doubt if call not in named]) for pause in pauses]
    calls = [call for _, left in open_ones for call in left]
    if not calls:
        return ""
    ways = [way for pause, left in open_ones if left for way in how_to_answer(pause, pauses)]
    return (
        f"the run waits for a decision about each of {', '.join(calls)}, which may have happened before their process "
        f"died\n  here: {', or '.join(ways)}"
    )


def answer_of(given: Sequence[Given], waiting_calls: Callable[[], Sequence[str]]) -> Answer:
    """Return what `resume` gets.

    Args:
        given: the answers.
        waiting_calls: returns the ids of the calls that the run waits with; asked if an answer may name one.

    Raises:
        UsageMistake: an answer is for a call that does not wait, or there are two for one.
    """
    calls = waiting_calls() if any(each.may_name_call for each in given) else ()
    answers: dict[str, PauseAnswer] = {}
    for each in given:
        call, answer = _read(each, calls)
        key = call if each.pause is None else each.pause
        if key is None:
            if len(given) > 1:
                raise UsageMistake(f"{each.option}: it is for all that waits; expected no other answer with it")
            return answer
        if call is not None and each.pause is not None:
            assert not isinstance(answer, str), "a call gets a decision"
            answers[key] = {**_earlier(answers, key, each), call: answer}
        elif key in answers:
            raise UsageMistake(f"{each.option}: there is an answer for {key!r} already")
        else:
            answers[key] = answer
    return answers or None


def _earlier(answers: Mapping[str, PauseAnswer], pause: str, given: Given) -> Mapping[str, Decision]:
    """Return the decisions about other calls of a pause."""
    earlier = answers.get(pause, {})
    if isinstance(earlier, Mapping):
        return earlier
    raise UsageMistake(f"{given.option}: there is an answer for all of {pause!r} already")


def _read(given: Given, calls: Sequence[str]) -> tuple[str | None, str | Decision]:
    """Return the call that an answer is for, and the answer; None for a whole pause."""
    text = given.text or ""
    match given.option:
        case "--answer":
            return None, text
        case "--approve":
            return (None if given.text is None else _known(given, text, calls)), Approve()
        case "--reject":
            call, rest = _parted(text, calls)
            return call, Reject(rest)
        case _:
            call, rest = _parted(text, calls)
            if call is None and text in calls:
                raise UsageMistake(
                    f"{given.option} {text}: the result is missing; expected {given.option} {text}=RESULT"
                )
            if call is None:
                raise _unknown(given, text.partition("=")[0], calls)
            return call, Happened(rest)


def _parted(text: str, calls: Sequence[str]) -> tuple[str | None, str]:
    """Part `CALL=TEXT`; without the id of a call before a `=`, it is all text."""
    found = [call for call in calls if text.startswith(f"{call}=")]
    if not found:
        return None, text
    call = max(found, key=len)
    return call, text[len(call) + 1 :]


def _known(given: Given, call: str, calls: Sequence[str]) -> str:
    if call in calls:
        return call
    raise _unknown(given, call, calls)


def _unknown(given: Given, call: str, calls: Sequence[str]) -> UsageMistake:
    known = ", ".join(calls) or "none"
    return UsageMistake(f"{given.option} {given.text}: the run waits with no call {call!r}; it waits with: {known}")
