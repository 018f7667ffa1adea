"""An agent with a tool."""

from tests.support.programs import Models
from understudy import testing

MODELS = Models({"clerk": testing.ScriptedModel([testing.calls("on_shelf", sku="A-113"), testing.says("Yes: seven.")])})

# The program:
import understudy as us

@us.tool
def on_shelf(sku: str, shop: str = "main") -> int:
    """Count the units of a product on the shelf.

    Args:
        sku: product number, such as A-113
        shop: which shop to look in
    """
    return {"A-113": 7}.get(sku, 0)

clerk = us.Agent(
    "clerk",
    model="anthropic:claude-haiku-4-5",        # or us.Anthropic("claude-haiku-4-5", api_key=…, base_url=…); also openai:, gemini: or google:, vertex:, rehearsal
    system_prompt="You answer stock questions. Be brief.",   # or a function of the context
    description="Answers questions about stock.",
    tools=[on_shelf],                          # plain functions are accepted too (us.ToolLike)
    settings=us.Settings(temperature=0.0, max_tokens=500),
    max_iterations=5,
)

outcome = clerk.run("Do we have five of A-113?")
print(outcome.text, outcome.iterations, outcome.completion_reason, outcome.usage.input_tokens)
