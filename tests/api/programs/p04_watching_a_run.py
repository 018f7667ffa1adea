"""Watching a run."""

import understudy as us
from tests.support.programs import Models
from tests.support.streaming import StreamedScript

MODELS = Models(
    {
        "clerk": StreamedScript(
            [
                [
                    us.TextPiece("Let me "),
                    us.TextPiece("look. "),
                    us.CallPiece(0, '{"sku": "A-113"}', "c1", "on_shelf"),
                    us.TurnEnd(),
                ],
                [us.TextPiece("Yes: "), us.TextPiece("seven. "), us.TurnEnd(usage=us.Usage(30, 5))],
            ]
        )
    }
)


def on_shelf(sku: str) -> int:
    """Count the units of a product on the shelf."""
    return {"A-113": 7}.get(sku, 0)


clerk = us.Agent("clerk", model="openai:gpt-4o", tools=[on_shelf])

# The program:
with clerk.stream("Do we have five of A-113?") as events:
    for event in events:
        match event:
            case us.TextDelta(text=text): print(text, end="", flush=True)
            case us.ToolStarted(call=call): print(f"[{call.name}]")
            case us.ToolFinished(call=call, result=result): print(result.content)
            case us.RunFinished(outcome=outcome): print(outcome.usage)    # the one terminal event; a failure gives us.RunFailed and is then raised
            case _: ...
