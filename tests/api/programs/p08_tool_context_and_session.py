"""What a tool can see; sessions."""

from dataclasses import dataclass

import understudy as us
from tests.support.programs import Models
from understudy import testing

MODELS = Models({"clerk": testing.ScriptedModel([testing.says("Hello, Ada.")])})


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
