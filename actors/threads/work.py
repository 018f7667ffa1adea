"""Work that holds a thread and may be given up: nobody waits for it any more, and no thread can be killed."""

from __future__ import annotations

from typing import Protocol


class Work(Protocol):
    """A piece of work that was given up while it ran."""

    returned: bool
    """Whether it has returned since."""
