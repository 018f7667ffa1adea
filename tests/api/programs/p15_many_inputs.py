"""Many inputs."""

from typing import Literal

import pydantic

import understudy as us
from tests.support.programs import Models
from understudy import testing


def weigh(request: us.ModelRequest) -> us.ModelTurn:
    if request.text == "Too fast.":
        raise us.RateLimited("slow down")
    return testing.says(f'{{"label": "{"spam" if "prize" in request.text else "ham"}"}}')


MODELS = Models({"judge": testing.FunctionModel(weigh)})


class Verdict(pydantic.BaseModel):
    label: Literal["spam", "ham"]


judge = us.Agent("judge", model="gemini:gemini-2.5-flash", output_type=Verdict)
letters = ["Win a prize!", "Too fast.", "See you at eight."]

# The program:
for answer in judge.map(letters, max_parallel=20, budget=us.Budget(cost_usd=2.0), keep_errors=True):      # as they finish; ordered=True for the order of letters
    match answer:
        case us.MapAnswer(index=index, outcome=outcome): print(index, outcome.unwrap().output)
        case us.MapFailure(index=index, error=error): print(index, error)
