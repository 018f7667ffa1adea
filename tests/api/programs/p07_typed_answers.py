"""Typed answers."""

from typing import Literal

import pydantic

import understudy as us
from tests.support.programs import Models
from understudy import testing

MODELS = Models({"judge": testing.ScriptedModel([testing.says("Spam."), testing.says('{"label": "spam", "score": 0.9}')])})

# The program:
class Verdict(pydantic.BaseModel):
    label: Literal["spam", "ham"]
    score: float

judge = us.Agent("judge", model="gemini:gemini-2.5-flash", output_type=Verdict)    # Agent[Verdict]
verdict: Verdict = judge.run("Win a prize!").output          # the provider's native mode; a bad answer goes back with the error, then raises InvalidOutput
