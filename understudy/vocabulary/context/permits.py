"""Permits: the runners that may run below a sub-agent, at any depth."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Permit:
    """The lists of one sub-agent: they hold for all runs below it."""

    by: str
    """The owner of the lists, in words."""
    allow: tuple[str, ...] | None = None
    """Ids of the runners that may run; None for all."""
    deny: tuple[str, ...] = ()
    """Ids of the runners that may not run, even if `allow` has them."""

    def refusal(self, runner_id: str) -> str:
        """Return why a runner may not run, in words; empty if it may."""
        if runner_id in self.deny:
            return f"{self.by} denies it"
        if self.allow is not None and runner_id not in self.allow:
            return f"{self.by} allows only {', '.join(map(repr, self.allow)) or 'none'}"
        return ""
