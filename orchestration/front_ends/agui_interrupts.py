"""The questions and approvals of a paused run as interrupts of AG-UI."""

from __future__ import annotations

from understudy.vocabulary.messages import JsonValue

from .agui_marks import NAMESPACE, Plain
from .event_json import call_json
from .interrupts import Interrupt

APPROVAL_SCHEMA: Plain = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "editedArgs": {"type": "object"},
    },
    "required": ["approved"],
}
ANSWER_SCHEMA: Plain = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


def interrupt_json(asked: Interrupt, tool_call_id: str) -> Plain:
    """Return one interrupt.

    Args:
        asked: the question or the call.
        tool_call_id: the id under which the client has the call; empty if it has it not, as a call of a run inside.
    """
    path: list[JsonValue] = list(asked.pause.path)
    if asked.call is None:
        told: Plain = {"id": asked.id, "reason": "input_required", "message": asked.pause.question}
        return {**told, "responseSchema": ANSWER_SCHEMA, "metadata": {NAMESPACE: {"path": path}}}
    about: Plain = {"path": path, "call": call_json(asked.call)}
    if asked.in_doubt:
        about["in_doubt"] = True
    told = {"id": asked.id, "reason": "tool_call", "message": asked.reason or f"Call {asked.call.name}?"}
    if tool_call_id:
        told["toolCallId"] = tool_call_id
    return {**told, "responseSchema": APPROVAL_SCHEMA, "metadata": {NAMESPACE: about}}
