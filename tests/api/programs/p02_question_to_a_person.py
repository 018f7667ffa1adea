"""A question to a person."""

import understudy as us
from tests.support.programs import Models
from understudy import testing

question_and_plan = [testing.says("__ask_user__: How many days?"), testing.says("Three days in Paris: ...")]
MODELS = Models({"clerk": testing.ScriptedModel(question_and_plan)})


def input(question: str) -> str:
    print(question)
    return "three"


clerk = us.Agent("clerk", model="anthropic:claude-haiku-4-5")

# The program:
match clerk.run("Plan a trip to Paris"):
    case us.Complete(text=text):
        print(text)
    case us.NeedsInput(question=question, token=token):
        outcome = clerk.resume(token, input(question))      # token: a str, used once; with a store, in any process
    case us.NeedsApproval() | us.Incomplete():
        ...
