"""A tool that is never run twice by mistake."""

from dataclasses import dataclass, field

import understudy as us
from tests.support.programs import Models

MODELS = Models()


@dataclass
class Receipt:
    """What a bank gives for a payment."""

    number: str


class Bank:
    """A bank that does each key once."""

    def __init__(self) -> None:
        self.receipts: dict[str, Receipt] = {}

    def charge(self, order: str, cents: int, *, idempotency_key: str) -> Receipt:
        """Take money."""
        return self.receipts.setdefault(idempotency_key, Receipt(f"R-{order}-{cents}"))

    def find(self, key: str) -> Receipt | None:
        """Return the receipt of a payment."""
        return self.receipts.get(key)


@dataclass
class Shop:
    """What tools need."""

    names: list[str] = field(default_factory=list[str])


bank = Bank()

# The program:
def was_charged(key: str, order: str, cents: int) -> us.Reconciliation:
    receipt = bank.find(key)
    return us.DidNotHappen() if receipt is None else us.Happened(receipt.number)     # or us.CannotTell(): a person is asked

@us.tool(reconcile=was_charged)
def charge(ctx: us.ToolContext[Shop], order: str, cents: int) -> str:
    """Charge the customer."""
    return bank.charge(order, cents, idempotency_key=ctx.call_key).number

@us.tool(transactional=True)
def book(ctx: us.ToolContext[Shop], sku: str, units: int) -> str:
    """Take units from the shelf."""
    with ctx.transaction() as sql:                           # the store's own database: effect and record are one commit
        sql.execute("UPDATE shelf SET units = units - ? WHERE sku = ?", (units, sku))
    return "booked"
