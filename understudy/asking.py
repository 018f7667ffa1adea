"""`ask_user`: the tool with which a model asks a person."""

from __future__ import annotations

from understudy.tools import tool

QUESTION = "question"  # The parameter of `ask_user`.


@tool
def ask_user(question: str) -> str:
    """Ask the person you work for a question that only they can answer, and wait for the answer.

    Args:
        question: the whole question, as it is to be shown
    """
    raise RuntimeError("ask_user is answered by a person: the run pauses, and resume(token, answer) goes on")
