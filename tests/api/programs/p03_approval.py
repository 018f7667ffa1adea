"""An approval."""

import understudy as us
from tests.support.programs import Models
from understudy import testing

MODELS = Models({"cashier": testing.ScriptedModel([testing.calls("refund", order="7", cents=1200), testing.says("Done.")])})


class Bank:
    def __init__(self) -> None:
        self.refunds: list[tuple[str, int]] = []

    def refund(self, order: str, cents: int) -> str:
        self.refunds.append((order, cents))
        return f"refunded {cents} cents of order {order}"


bank = Bank()

# The program:
@us.tool(approval=True, timeout=10, retries=2, idempotent=True)
def refund(order: str, cents: int) -> str:
    """Pay money back."""
    return bank.refund(order, cents)

cashier = us.Agent("cashier", model="openai:gpt-4o", tools=[refund])
match cashier.run("Refund order 7, 1200 cents"):
    case us.NeedsApproval(calls=calls, token=token):
        for call in calls:
            print(call.name, call.arguments)
        outcome = cashier.resume(token, us.Approve())        # or us.Approve(arguments={…}), us.Reject("too much"), or {call.id: decision, …}
    case other:
        print(other.completion_reason)
