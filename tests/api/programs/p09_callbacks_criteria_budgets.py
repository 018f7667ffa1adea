"""Callbacks, criteria, budgets."""

import understudy as us
from tests.support.programs import Models
from understudy import testing

MODELS = Models({
    "careful": testing.ScriptedModel([
        testing.calls("refund", order="7"),
        testing.says("Working on it.", usage=us.Usage(30_000, 19_000)),
        testing.says("Soon.", usage=us.Usage(900, 100)),
        testing.says("All is refunded. DONE", usage=us.Usage(900, 100)),
    ]),
})

refunded: list[str] = []


@us.tool
def refund(order: str) -> str:
    """Pay money back."""
    refunded.append(order)
    return "done"


schema: us.JsonObject = {"type": "object", "required": ["label"]}


def my_criterion(context: us.RunContext, text: str) -> bool:
    return text == "That is all."


# The program:
class Audit(us.AgentCallback):
    def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
        return us.Block("not on Sundays") if call.name == "refund" else us.Continue()

careful = us.Agent(
    "careful", model="openai:gpt-4o", tools=[refund],
    callbacks=[us.LoggingCallback(), Audit()],
    criteria=[us.KeywordCriteria("DONE"), us.StructuredOutputCriteria(schema), us.MaxIterationsCriteria(5), my_criterion],
    budget=us.Budget(total_tokens=50_000, cost_usd=0.50, seconds=120),
)
