"""Tools of a shop, for agents under test."""

from __future__ import annotations

import understudy as us


@us.tool
def look(word: str) -> str:
    """Look."""
    return f"saw {word}"


@us.tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@us.tool(approval=True)
def refund(order: str, cents: int) -> str:
    """Pay money back."""
    return f"paid {cents} for {order}"
