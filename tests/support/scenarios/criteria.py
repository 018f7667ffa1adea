"""Texts that must meet a criterion, and the continue messages between them."""

from __future__ import annotations

from tests.support.machines import asked, asks, call, said
from understudy.vocabulary.messages import TextPart, Usage, says

from .cast import clerk, met
from .scenario import Scenario

JUDGED = clerk(criteria=[met], max_continues=2, continue_message="And?")
ONE, TWO, THREE = says("One."), says("Two."), says("Three.")
SEVEN = {"Seven.": "it is a number"}

SCENARIOS = (
    Scenario(
        rule="a text that meets no criterion is answered with the continue message and one that does ends the run",
        agent=JUDGED,
        turns=(ONE, says("Seven.")),
        met=SEVEN,
        steps="model > model > complete",
        reason="it is a number",
        rounds=0,
        history=(said(TextPart("One.")), asked("And?"), said(TextPart("Seven."))),
    ),
    Scenario(
        rule="after the last continue message the run is incomplete and not failed",
        agent=JUDGED,
        turns=(ONE, TWO, THREE),
        steps="model > model > model > incomplete",
        text="Three.",
        reason="no criterion was met after 2 continue messages",
        history=(
            said(TextPart("One.")),
            asked("And?"),
            said(TextPart("Two.")),
            asked("And?"),
            said(TextPart("Three.")),
        ),
    ),
    Scenario(
        rule="without continue messages the first text that meets nothing is incomplete",
        agent=clerk(criteria=[met], max_continues=0),
        turns=(ONE,),
        steps="model > incomplete",
        text="One.",
        history=(said(TextPart("One.")),),
    ),
    Scenario(
        rule="an incomplete run goes on when its limit is raised",
        agent=clerk(criteria=[met], max_continues=1, continue_message="And?"),
        turns=(ONE, TWO, says("Seven.")),
        met=SEVEN,
        answers=({"max_continues": 2},),
        steps="model > model > incomplete > model > complete",
        history=(
            said(TextPart("One.")),
            asked("And?"),
            said(TextPart("Two.")),
            asked("And?"),
            said(TextPart("Seven.")),
        ),
    ),
    Scenario(
        rule="a question to a person is not judged",
        agent=JUDGED,
        turns=(says("__ask_user__: Which city?"), says("Seven.")),
        met=SEVEN,
        unjudged=("__ask_user__: Which city?",),
        answers=("Paris",),
        steps="model > asks Which city? > model > complete",
    ),
    Scenario(
        rule="text beside tool calls is not judged",
        agent=JUDGED,
        turns=(asks(call("a"), before="Let me see."), says("Seven.", usage=Usage(1, 1))),
        met={**SEVEN, "Let me see.": "it must not be asked"},
        unjudged=("Let me see.",),
        steps="model > tools a > model > complete",
        rounds=1,
    ),
)
