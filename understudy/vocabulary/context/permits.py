"""Permits: which runners may run below a sub-agent, whoever begins them there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Permit:
    """What one sub-agent's lists say about all that runs below it."""

    by: str
    """Whose lists they are, in words."""
    allow: tuple[str, ...] | None = None
    """Ids of the runners that may run; None for all."""
    deny: tuple[str, ...] = ()
    """Ids of those that may not, whatever `allow` says."""

    def refusal(self, runner_id: str) -> str:
        """Say why a runner may not run, in words; empty if it may."""
        if runner_id in self.deny:
            return f"{self.by} denies it"
        if self.allow is not None and runner_id not in self.allow:
            return f"{self.by} allows only {', '.join(map(repr, self.allow)) or 'none'}"
        return ""
