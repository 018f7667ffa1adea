"""An agent whose tool needs an approval, as each process of an application imports it; what it pays stands in a file."""

from __future__ import annotations

import os
import sys
from itertools import count

import understudy as us
from understudy.testing import FunctionModel

PATIENCE = 20.0
"""Seconds that a part may wait for another before that counts as a failure."""


@us.tool(approval=True)
def refund(order: str, ledger: str) -> str:
    """Pay money back."""
    book = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(book, f"{order}\n".encode())
    os.close(book)
    return f"paid for {order}"


def _think(request: us.ModelRequest) -> us.ModelTurn:
    if request.tool_results:
        return us.says(request.tool_results[-1].content)
    order, ledger = request.text.split(maxsplit=1)
    return us.calls("refund", order=order, ledger=ledger)


cashier = us.Agent("cashier", model=FunctionModel(_think), tools=[refund])


def pause(order: str, ledger: str) -> str:
    """Begin a run, in the default system, that waits for an approval, and return its token."""
    outcome = cashier.run(f"{order} {ledger}", timeout=PATIENCE)
    assert isinstance(outcome, us.NeedsApproval), outcome
    return outcome.token


def approve(token: str) -> str:
    """Approve of what a run waits for, and return how that went, in one line."""
    try:
        return cashier.resume(token, us.Approve(), timeout=PATIENCE).text
    except us.RunError as error:
        return type(error).__name__


if (
    __name__ == "__main__"
):  # URL, then lines `pause ORDER LEDGER`, `approve TOKEN …` or `work LEDGER` from standard input
    us.configure(store=sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["pause", order, ledger]:
                print(pause(order, ledger), flush=True)
            case ["approve", *tokens]:
                print(*[approve(token) for token in tokens], sep=", ", flush=True)
            case ["work", ledger]:  # until it is killed
                for number in count():
                    token = pause(str(number), ledger)
                    print(token, flush=True)
                    approve(token)
            case _:
                raise ValueError(line)
