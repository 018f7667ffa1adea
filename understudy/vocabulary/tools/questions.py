"""How a model asks a person: by the tool `ask_user`, or by a text that begins with `__ask_user__:`."""

from __future__ import annotations

from .decorator import tool
from .definition import Tool

QUESTION = "question"  # The parameter of `ask_user`.
MARK = "__ask_user__:"  # A text that begins so is a question, not an answer.


@tool
def ask_user(question: str) -> str:
    """Ask the person you work for a question that only they can answer, and wait for the answer.

    Args:
        question: the whole question, as it is to be shown
    """
    raise RuntimeError("ask_user is answered by a person: the run pauses, and resume(token, answer) goes on")


def asks_user(given: Tool[..., object]) -> bool:
    """Whether a tool is `ask_user`, or a copy of it with another name."""
    return given.is_copy_of(ask_user)


def is_question(text: str) -> bool:
    """Whether a model's text asks a person."""
    return text.strip().startswith(MARK)


def question_in(text: str) -> str:
    """Return what a text asks, of which `is_question` is true."""
    return text.strip().removeprefix(MARK).strip()
