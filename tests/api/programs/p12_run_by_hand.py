"""Driving a run by hand."""

import understudy as us
from tests.support.programs import Models
from understudy import testing

MODELS = Models({"clerk": testing.ScriptedModel([])})


def on_shelf(sku: str) -> int:
    """Count the units of a product on the shelf."""
    raise AssertionError("the program that drives the run answers the calls")


clerk = us.Agent("clerk", model="anthropic:claude-haiku-4-5", tools=[on_shelf])
my_model = testing.ScriptedModel([testing.calls("on_shelf", sku="A-113"), testing.says("Yes: seven.")]).complete


def input(question: str) -> str:
    raise AssertionError(f"nothing is asked: {question}")

# The program:
spec = us.RunSpec.of(clerk)
run = us.AgentRun(spec, "Do we have five of A-113?")
while True:
    match run.next_step():
        case us.CallModel(request=request): run.model_response(my_model(request))          # a us.ModelTurn
        case us.CallTools(calls=calls): run.tool_results([us.ToolResult(call_id=c.id, content="7") for c in calls])
        case us.AwaitApproval(calls=calls): run.decisions({c.id: us.Approve() for c in calls})
        case us.AwaitInput(question=question): run.answer(input(question))
        case us.Done(outcome=outcome): break
    run = us.AgentRun.from_json(run.to_json(), spec)         # at any point, in any process
