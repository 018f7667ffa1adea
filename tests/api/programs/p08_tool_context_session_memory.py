"""What a tool can see; sessions and memory."""

from dataclasses import dataclass

import understudy as us
from tests.support.programs import Models
from understudy import testing

MODELS = Models(
    {
        "clerk": testing.ScriptedModel([testing.says("Hello, Ada.")]),
        "chat": testing.ScriptedModel([testing.says("Nice to meet you, Ada."), testing.says("Ada.")]),
    }
)


class Stock:
    def count(self, sku: str) -> int:
        return {"A-113": 7}.get(sku, 0)


@dataclass
class Shop:
    db: Stock


db = Stock()
clerk = us.Agent("clerk", model="anthropic:claude-haiku-4-5")

# The program:
@us.tool
def stock(ctx: us.ToolContext[Shop], sku: str) -> int:
    """Count the units of a product."""
    ctx.session["last_sku"] = sku
    return ctx.deps.db.count(sku)

session = us.SessionState({"customer": "ada"})               # state, not history; updated when the run ends
clerk.run("Hello", session=session, deps=Shop(db))           # deps is never saved: resume and recover take it again

chat = us.Agent("chat", model="openai:gpt-4o", memory=us.WindowedMemory(turns=20))   # or us.InMemoryMemory(), us.PersistentMemory(), us.CompactedMemory(…)
chat.run("My name is Ada", conversation_id="c-42")
chat.run("What is my name?", conversation_id="c-42")
