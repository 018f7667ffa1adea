"""The pauses of a run: the questions and approvals that are open, and how a person's answers are matched to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from understudy.errors import ProtocolViolation
from understudy.vocabulary.messages import ToolResult, user_message
from understudy.vocabulary.runs.outcomes import Approve, Decision, NeedsApproval, NeedsInput, Pause, PauseAnswer, Reject
from understudy.vocabulary.tools.reconciling import Happened

from .rounds import check_decisions, take_decisions
from .state import PausedChild, RunState, ToolRound

APPROVAL = "approval"
QUESTION = "question"
CHILD = "child"
"""The first words of pause ids; ids are opaque to users."""


def pauses_of(runner_id: str, state: RunState) -> tuple[Pause, ...]:
    """Return the open pauses: the run's own, then its children's in call order, with paths from this run."""
    path = (runner_id,)
    if state.phase == "input":
        return (Pause(id=QUESTION, path=path, question=state.question),)
    if state.phase != "tools" or state.round is None or not state.round.admitted:
        return ()
    return tuple(_pauses_in(state.round, path))


def _pauses_in(round_: ToolRound, path: tuple[str, ...]) -> Iterator[Pause]:
    if round_.waiting:
        reasons = {call_id: why for call_id, why in round_.reasons.items() if call_id in round_.waiting}
        yield Pause(id=APPROVAL, path=path, calls=round_.waiting_calls(), reasons=reasons, in_doubt=round_.in_doubt)
    for call_id, question in round_.questions.items():
        yield Pause(id=f"{QUESTION}/{call_id}", path=path, question=question)
    for call in round_.calls:
        child = round_.children.get(call.id)
        if child is not None and not child.answers:  # one that was stopped has no pauses
            yield from pauses_of_child(call.id, child, path)


def pauses_of_child(key: str | int, child: PausedChild, path: tuple[str, ...]) -> Iterator[Pause]:
    """Yield the pauses of a child as pauses of the run at `path`; `key` names the child in their ids."""
    for pause in child.pauses:
        yield replace(pause, id=_in_child(key, pause.id), path=(*path, *pause.path))


def _in_child(key: str | int, pause_id: str) -> str:
    return f"{CHILD}/{key}/{pause_id}"


def paused_by(pauses: Sequence[Pause]) -> NeedsInput | NeedsApproval:
    """Return the outcome of a run with these pauses; the first one decides between `NeedsInput` and `NeedsApproval`."""
    question = pauses[0].question
    if question is not None:
        return NeedsInput(
            question=question, completion_reason=f"it waits for an answer to: {question}", pauses=tuple(pauses)
        )
    calls = tuple([call for pause in pauses for call in pause.calls])
    doubted = {call_id for pause in pauses for call_id in pause.in_doubt}
    names = [f"{call.name} (in doubt)" if call.id in doubted else call.name for call in calls]
    why = "it waits for a decision about " + ", ".join(names)
    return NeedsApproval(calls=calls, completion_reason=why, pauses=tuple(pauses))


def sort_answers(
    pauses: Sequence[Pause], answer: str | Decision | Mapping[str, PauseAnswer] | None
) -> dict[str, PauseAnswer]:
    """Split an answer into one answer for each pause, by pause id.

    Raises:
        TypeError: the answer fits no pause, or fits several.
        ProtocolViolation: a key is no id of a pause or of a waiting call.
    """
    match answer:
        case str():
            questions = [pause.id for pause in pauses if pause.question is not None]
            if len(questions) != 1:
                raise TypeError(f"{_waits_for(pauses)}; got a text, and {_asked(len(questions))}")
            return {questions[0]: answer}
        case Approve() | Reject() | Happened():
            return _by_one_decision(pauses, answer)
        case Mapping():
            return _by_pause(pauses, answer)
        case _:
            raise TypeError(f"{_waits_for(pauses)}; got {answer!r}")


def _by_one_decision(pauses: Sequence[Pause], decision: Decision) -> dict[str, PauseAnswer]:
    """Split one decision for all calls. It does not cover calls in doubt: each has to be named, for it may have happened."""
    decided: dict[str, PauseAnswer] = {}
    for pause in pauses if not isinstance(decision, Happened) else ():
        certain = [call.id for call in pause.calls if call.id not in pause.in_doubt]
        if certain:
            decided[pause.id] = decision if not pause.in_doubt else dict.fromkeys(certain, decision)
    if not decided:
        raise TypeError(f"{_waits_for(pauses)}; got {decision!r}")
    return decided


def _asked(questions: int) -> str:
    if not questions:
        return "no question was asked; a call is decided by Approve() or Reject('why')"
    return f"{questions} questions were asked: give a mapping of their ids to texts"


def _by_pause(pauses: Sequence[Pause], answers: Mapping[str, PauseAnswer]) -> dict[str, PauseAnswer]:
    ids = {pause.id for pause in pauses}
    sorted_: dict[str, PauseAnswer] = {key: value for key, value in answers.items() if key in ids}
    decisions: dict[str, dict[str, Decision]] = {}
    for key, value in answers.items():
        if key in ids:
            continue
        holders = [pause.id for pause in pauses if any(call.id == key for call in pause.calls)]
        if len(holders) != 1:
            why = f"several pauses have a call {key!r}" if holders else f"nothing waits under the id {key!r}"
            raise ProtocolViolation(f"{why}; {_waits_for(pauses)}; {_ids(pauses)}")
        if holders[0] in sorted_:
            raise ProtocolViolation(
                f"pause {holders[0]!r} is answered twice: as a whole, and by the id of call {key!r}"
            )
        decisions.setdefault(holders[0], {})[key] = cast(Decision, value)
    return sorted_ | decisions


def check_answers(pauses: Sequence[Pause], answers: Mapping[str, PauseAnswer]) -> None:
    """Check that answers fit the pauses.

    Raises:
        ProtocolViolation: there are no answers, or an id is unknown.
        TypeError: an answer is of another kind than its pause.
    """
    by_id = {pause.id: pause for pause in pauses}
    unknown = [key for key in answers if key not in by_id]
    if unknown or not answers:
        raise ProtocolViolation(f"answers for {unknown or 'nothing'}; {_ids(pauses)}")
    for key, answer in answers.items():
        _check_answer(by_id[key], answer)


def _check_answer(pause: Pause, answer: PauseAnswer) -> None:
    if pause.question is not None:
        if not isinstance(answer, str):
            raise TypeError(f"{_waits_for([pause])}; got {answer!r}")
    elif isinstance(answer, Mapping):
        check_decisions([call.id for call in pause.calls], answer, pause.in_doubt)
    # Of calls in doubt, one decision for all would make again what may have happened.
    elif pause.in_doubt or not isinstance(answer, (Approve, Reject)):
        raise TypeError(f"{_waits_for([pause])}; got {answer!r}")


def take_answers(state: RunState, answers: Mapping[str, PauseAnswer]) -> None:
    """Apply answers that `check_answers` accepted."""
    if state.phase == "input":
        state.messages.append(user_message(cast(str, answers[QUESTION])))
        state.question = ""
        state.phase = "model"
        return
    round_ = state.round
    assert round_ is not None
    if APPROVAL in answers:
        take_decisions(round_, _by_call([call.id for call in round_.waiting_calls()], answers[APPROVAL]))
    for call in round_.calls:
        text = answers.get(f"{QUESTION}/{call.id}")
        if isinstance(text, str):
            del round_.questions[call.id]
            round_.results[call.id] = ToolResult(call.id, text, name=call.name)
    for call_id, child in round_.children.items():
        answer_child(call_id, child, answers)


def answer_child(key: str | int, child: PausedChild, answers: Mapping[str, PauseAnswer]) -> bool:
    """Store the answers to a child's pauses with the child; return whether there were any."""
    answered = False
    for pause in child.pauses:
        answer = answers.get(_in_child(key, pause.id))
        if answer is not None:
            child.answers[pause.id] = dict(answer) if isinstance(answer, Mapping) else answer
            answered = True
    return answered


def note_child(round_: ToolRound, call_id: str, child: PausedChild) -> None:
    """Note that the child run of a pending call paused.

    Raises:
        ProtocolViolation: the call is not pending, or the child has no pause.
    """
    pending = [call.id for call in round_.pending()]
    if call_id not in pending or not child.pauses:
        raise ProtocolViolation(
            f"a pause of the child of {call_id!r}, with {len(child.pauses)} pauses; "
            f"pending: {', '.join(pending) or 'none'}"
        )
    round_.children[call_id] = child


def note_stopped(round_: ToolRound, call_id: str, saved: str) -> None:
    """Note that the child run of a pending call was stopped. Raises `ProtocolViolation` if the call is not pending."""
    pending = [call.id for call in round_.pending()]
    if call_id not in pending:
        raise ProtocolViolation(f"{call_id!r} is no call with a child; pending: {', '.join(pending) or 'none'}")
    round_.children[call_id] = PausedChild(saved, ())


def has_stopped(state: RunState) -> bool:
    """Whether the child run of a call was stopped; it waits for no person."""
    return state.round is not None and any(not child.pauses for child in state.round.children.values())


def waits_for_person(state: RunState) -> bool:
    """Whether the run has nothing to do before a person answers."""
    if state.phase != "tools" or state.round is None:
        return state.phase == "input"
    return state.round.admitted and not state.round.pending() and not state.round.is_complete()


def _by_call(call_ids: Sequence[str], answer: PauseAnswer) -> Mapping[str, Decision]:
    if isinstance(answer, Mapping):
        return answer
    return dict.fromkeys(call_ids, cast(Decision, answer))


def _waits_for(pauses: Sequence[Pause]) -> str:
    """Describe the open pauses, and the arguments that answer them."""
    questions = [pause.question for pause in pauses if pause.question is not None]
    calls = [call.id for pause in pauses for call in pause.calls if call.id not in pause.in_doubt]
    waits: list[str] = []
    if questions:
        waits.append(f"an answer to {', '.join(map(repr, questions))}: pass a string")
    if calls:
        waits.append(f"decisions about {', '.join(calls)}: pass Approve() or Reject(…)")
    doubted = [(pause.id, call_id) for pause in pauses for call_id in pause.in_doubt]
    if doubted:
        ids = [call_id for _, call_id in doubted]
        first = f"{{{ids[0]!r}: Approve()}}"
        if len(set(ids)) < len(ids):
            first = f"{{{doubted[0][0]!r}: {first}}}"  # calls of several pauses have one id
        waits.append(
            f"a decision about each of {', '.join(ids)}, which may have happened before the process died: pass "
            f"{first} to make a call again, Happened(…) in its place for its result, or Reject(…)"
        )
    several = ", or {pause.id: answer} for some" if len(questions) + len(calls) > 1 else ""
    return "it waits for " + (" and for ".join(waits) or "nothing") + several


def _ids(pauses: Sequence[Pause]) -> str:
    return f"pauses: {', '.join(pause.id for pause in pauses) or 'none'}"
