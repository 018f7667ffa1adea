"""A run driven by hand, with the public names only, saved and loaded after every step."""

from __future__ import annotations

import pytest

import understudy as us
from understudy.testing import ScriptedModel, calls, says


@us.tool(approval=True)
def on_shelf(sku: str) -> int:
    """Count the units of a product on the shelf."""
    return len(sku)


def test_people_can_drive_a_run_by_hand() -> None:
    clerk = us.Agent("clerk", model="rehearsal", tools=[on_shelf])
    model = ScriptedModel([says("__ask_user__: Which product?"), calls("on_shelf", sku="A-113"), says("Seven.")])
    spec = us.RunSpec.of(clerk)
    run = us.AgentRun(spec, "Do we have five?")
    seen: list[str] = []

    outcome: us.Complete[str] | us.Incomplete | None = None
    while outcome is None:
        step = run.next_step()
        seen.append(type(step).__name__)
        match step:
            case us.CallModel(request=request):
                run.model_response(model.complete(request))
            case us.CallTools(calls=pending):
                run.tool_results([us.ToolResult(call_id=c.id, content="7") for c in pending])
            case us.AwaitApproval(calls=waiting):
                run.decisions({c.id: us.Approve() for c in waiting})
            case us.AwaitInput(question=question):
                run.answer(f"{question} A-113.")
            case us.Done(outcome=outcome):
                pass
        run = us.AgentRun.from_json(run.to_json(), spec)

    assert seen == ["CallModel", "AwaitInput", "CallModel", "AwaitApproval", "CallTools", "CallModel", "Done"]
    assert (outcome.text, outcome.turns, outcome.iterations) == ("Seven.", 3, 1)
    assert model.requests[1].text == "Which product? A-113."
    assert model.requests[2].tool_results[0].content == "7"


def test_a_run_is_made_with_a_spec_and_not_with_an_agent() -> None:
    with pytest.raises(TypeError, match=r"RunSpec.of\(agent\), got Agent\('a'\)"):
        us.AgentRun(us.Agent("a", model="rehearsal"), "Hi")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake is the point
