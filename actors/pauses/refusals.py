"""The errors for tokens that cannot be used, in the same words wherever runs are kept."""

from __future__ import annotations

from understudy.errors import TokenLeased, TokenUsed


def used(next: str | None) -> TokenUsed:
    """Return the error for a used token; `next` is the one with which its run goes on, if the caller may know it."""
    hint = "error.next is the token that the run waits under now"
    if next is None:
        hint = "if the run paused again, its new outcome has the next token"
    return TokenUsed(f"this token has been used; {hint}", next=next)


def leased(until: float) -> TokenLeased:
    """Return the error for a token whose turn a worker is at; `until` is in seconds since 1970."""
    return TokenLeased(
        "a worker does the turn of this token: try again once its lease is over, which error.until tells", until=until
    )
