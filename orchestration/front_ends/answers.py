"""Reads what a front end sends back to a run that waits for a person.

Only the JSON value `true` approves. What is missing, unknown or of another shape is an error, and never an approval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

from understudy.vocabulary.messages import JsonObject, JsonValue
from understudy.vocabulary.runs.outcomes import Approve, Decision, PauseAnswer, Reject

from .interrupts import InterruptId, is_id, parsed_id

Given: TypeAlias = "tuple[InterruptId, str | Decision]"


class Answers(NamedTuple):
    """What `resume` takes: `runner.resume(*answers_of(body))`."""

    token: str
    answer: Mapping[str, PauseAnswer]
    """Id of a pause -> the text for a question, or the decisions by call id."""


def answers_of(body: JsonObject) -> Answers:
    """Return the token and the answers in the body of a request of an AG-UI client or of the AI SDK.

    Args:
        body: with `resume`, as AG-UI has it: a list of `{"interruptId": …, "status": "resolved", "payload": …}`, in which the
            payload is `{"approved": true}`, `{"approved": false, "reason": …}`, `{"approved": true, "editedArgs": {…}}`,
            `{"answer": …}` or a text. Or with `messages` of the AI SDK: the last one is the assistant's, with responses
            to all approvals that were asked for, or the user's, whose text answers the one open question.

    Raises:
        ValueError: the body has no answers, or not all of those that the run waits for, or one of another shape, or
            with an id that no encoder made.
    """
    _check(isinstance(body, Mapping), "the body of the request must be a JSON object", body)
    resume = body.get("resume")
    given = list(_of_resume(resume) if resume is not None else _of_messages(body.get("messages")))
    return _sorted(given)


def shown_calls(body: JsonObject) -> list[str]:
    """Return the ids of the tool calls in the messages of a request: `shown` of an encoder, for a run that goes on.

    It takes any body, and leaves out what has another shape.
    """
    messages = _objects(body.get("messages"))
    ids = [call.get("id") for message in messages for call in _objects(message.get("toolCalls"))]
    if messages and messages[-1].get("role") == "assistant":  # the AI SDK goes on with this message
        ids += [part.get("toolCallId") for part in _objects(messages[-1].get("parts"))]
    return [id for id in ids if isinstance(id, str)]


def _sorted(given: Sequence[Given]) -> Answers:
    if not given:
        raise ValueError("the request holds no answer to a run that waits")
    first = given[0][0]
    answer: dict[str, PauseAnswer] = {}
    for id, each in given:
        if (id.token, id.of) != (first.token, first.of):
            raise ValueError("the request holds answers to different pauses; send only the answers to the latest pause")
        known = answer.get(id.pause_id)
        calls = dict(known) if isinstance(known, Mapping) else {}
        if id.call_id in calls or (known is not None and (id.call_id is None or not isinstance(known, Mapping))):
            about = "the question" if id.call_id is None else f"the call {id.call_id!r}"
            raise ValueError(f"there are two answers about {about} of one pause")
        if isinstance(each, str):
            answer[id.pause_id] = each
        elif id.call_id is not None:
            answer[id.pause_id] = {**calls, id.call_id: each}
    if len(given) != first.of:
        raise ValueError(f"the run waits for {first.of} answers, and the request holds {len(given)}")
    return Answers(first.token, answer)


# --- AG-UI


def _of_resume(resume: JsonValue) -> Iterator[Given]:
    _check(isinstance(resume, list), "resume must be a list of answers", resume)
    for entry in cast("list[JsonObject]", resume):
        _check(isinstance(entry, Mapping), "each answer in resume must be an object", entry)
        id = parsed_id(_text(entry.get("interruptId"), "interruptId"))
        yield id, _of_entry(id, entry)


def _of_entry(id: InterruptId, entry: JsonObject) -> str | Decision:
    status = entry.get("status", "resolved")
    if status == "cancelled":
        if id.call_id is None:
            raise ValueError("a question cannot be cancelled: the run waits for a text")
        return Reject("cancelled by the user")
    if status != "resolved":
        raise ValueError(f"the status of an answer must be 'resolved' or 'cancelled', got {_kind(status)}")
    payload = entry.get("payload")
    if id.call_id is None:
        return _text(payload.get("answer") if isinstance(payload, Mapping) else payload, "the answer to a question")
    _check(isinstance(payload, Mapping), "the payload for a tool call must be an object with 'approved'", payload)
    given = cast(JsonObject, payload)
    return _decision(given, given.get("editedArgs"))


# --- the AI SDK


def _of_messages(messages: JsonValue) -> Iterator[Given]:
    *before, last = _objects(messages) or [{}]
    if last.get("role") in ("assistant", "tool"):
        yield from _of_parts(last, None)
    elif last.get("role") == "user" and before and before[-1].get("role") == "assistant":
        yield from _of_parts(before[-1], last)


def _of_parts(asked: JsonObject, said: JsonObject | None) -> Iterator[Given]:
    """Yield the answers to one message.

    Args:
        asked: the assistant's message, with the approvals that it asked for, or a message with responses.
        said: the user's message after it.
    """
    questions: list[InterruptId] = []
    for part in _last_step(asked):
        approval = part.get("approval")
        if part.get("type") == "data-question" and is_id(str(part.get("id"))):
            questions.append(parsed_id(str(part.get("id"))))
        elif part.get("type") == "tool-approval-response":
            yield _approval_id(part.get("approvalId")), _decision(part, None)
        elif part.get("state") == "approval-requested":
            raise ValueError("a call of the message waits for an approval, and the request holds none")
        elif part.get("state") == "approval-responded":
            given: JsonObject = approval if isinstance(approval, Mapping) else {}
            yield _approval_id(given.get("id")), _decision(given, None)
    if said is not None and not questions:
        raise ValueError("the user's message answers no question: it is the input of another run")
    if len(questions) > 1:
        raise ValueError("the run asked several questions: answer them in 'resume', each by its id")
    for question in questions:
        yield question, _text(None if said is None else _words(said), "the answer to a question")


def _last_step(message: JsonObject) -> list[JsonObject]:
    """Return the parts since the last step began: only there a run can wait. All, in a message without steps."""
    content = message.get("parts", message.get("content"))
    parts = _objects(content)
    starts = [position for position, part in enumerate(parts) if part.get("type") == "step-start"]
    return parts[starts[-1] :] if starts else parts


def _approval_id(given: JsonValue) -> InterruptId:
    id = parsed_id(_text(given, "the id of an approval"))
    if id.call_id is None:
        raise ValueError("an approval cannot answer a question")
    return id


def _words(message: JsonObject) -> str:
    content = message.get("parts", message.get("content"))
    if isinstance(content, str):
        return content
    return "".join([str(part.get("text")) for part in _objects(content) if part.get("type") == "text"])


# --- both


def _decision(given: JsonObject, edited: JsonValue) -> Decision:
    approved, reason = given.get("approved"), given.get("reason")
    if approved is True:
        _check(edited is None or isinstance(edited, Mapping), "editedArgs must be an object", edited)
        return Approve(None if edited is None else dict(cast(JsonObject, edited)))
    if approved is False:
        return Reject(reason if isinstance(reason, str) else "")
    raise ValueError(f"'approved' must be true or false, got {_kind(approved)}")


def _objects(value: JsonValue) -> list[JsonObject]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [each for each in value if isinstance(each, Mapping)]


def _text(value: JsonValue, what: str) -> str:
    _check(isinstance(value, str) and value, f"{what} must be a text that is not empty", value)
    return str(value)


def _check(is_right: object, expected: str, given: object) -> None:
    if not is_right:
        raise ValueError(f"{expected}, got {_kind(given)}")


def _kind(value: object) -> str:
    """Describe a wrong value. A text is not quoted: it may be an id with a token that works."""
    if isinstance(value, str):
        return "a text"
    return "nothing" if value is None else repr(value) if isinstance(value, (bool, int)) else type(value).__name__
