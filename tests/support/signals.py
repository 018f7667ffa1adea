"""Ctrl-C in tests, which send it to themselves and to processes they start."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """Have SIGINT interrupt also where the parent ignores it, as `nohup` and many CI shells do: a child inherits that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
