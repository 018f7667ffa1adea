"""Testing an application."""

import understudy as us
from tests.support.programs import Models
from understudy import testing

MODELS = Models({"clerk": testing.ScriptedModel([])})


@us.tool
def on_shelf(sku: str) -> int:
    """Count the units of a product on the shelf."""
    return {"A-113": 7}.get(sku, 0)


clerk = us.Agent("clerk", model="anthropic:claude-haiku-4-5", tools=[on_shelf])

# The program:
from understudy.testing import ScriptedModel, calls, says

def test_clerk_looks_before_it_answers() -> None:
    model = ScriptedModel([calls("on_shelf", sku="A-113"), says("Seven.")])
    with clerk.override(model=model):                        # for every thread and for nested use, as a web view needs it
        assert clerk.run("How many?").text == "Seven."
    assert model.requests[1].tool_results[0].content == "7"
