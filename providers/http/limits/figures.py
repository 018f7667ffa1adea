"""What a limiter says of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFigures:
    """The limits of one key at one provider, at one moment. The key itself is not known here."""

    name: str
    """Provider, family of models and address."""
    taken: int
    """Calls in flight, without those of clients that have a `max_in_flight` of their own."""
    in_flight: int
    """How many may be."""
    waiting: int
    """Calls that wait for a place, or for their time."""
    stopped_for: float
    """Seconds in which no request is sent, because the provider asked for it; 0 if any may be."""
    pace: float | None
    """Requests a second since the provider refused some; None if it refused none lately."""
    retries: int
    """How many failed requests may still be sent again; successes add to it."""
