"""Turn by turn."""

import queue

import understudy as us
from tests.support.programs import Models
from understudy import testing

MODELS = Models(
    {"clerk": testing.ScriptedModel([testing.calls("on_shelf", sku="A-113"), testing.says("Yes: seven.")])}
)


def on_shelf(sku: str) -> int:
    """Count the units of a product on the shelf."""
    return {"A-113": 7}.get(sku, 0)


clerk = us.Agent("clerk", model="anthropic:claude-haiku-4-5", tools=[on_shelf])
tasks = queue.SimpleQueue[str]()

# The program:
step = clerk.run_turn("Do we have five of A-113?")
while isinstance(step, us.MoreTurns):
    tasks.put(step.token)                                    # any queue, any worker
    step = clerk.run_turn(token=tasks.get())
print(step.text)                                             # an outcome
