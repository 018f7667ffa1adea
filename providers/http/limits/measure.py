"""`Measure`: how many requests the provider took in a time that ended with a refusal."""

from __future__ import annotations

from dataclasses import dataclass

SPARED = 0.9  # The rate that follows is this share of the one at which the provider took requests.


@dataclass(slots=True)
class Measure:
    """What a refusal says of the provider's limit; the requests that were under way then say the rest.

    Attributes:
        taken: requests sent in this time and not refused. Answers take longer than refusals, so those without an answer count.
        began: when the time began.
        until: when the refusal lets the next request go. No request goes before, so the wait belongs to the time.
        lowest: the least rate that may follow.
        fewest: requests; fewer than these say too little for the rate to grow by their number.
    """

    taken: float
    began: float
    until: float
    lowest: float
    fewest: float

    @property
    def rate(self) -> float:
        """Requests a second that may be sent from now on."""
        return max(SPARED * max(self.taken, 1.0) / max(self.until - self.began, 0.001), self.lowest)
