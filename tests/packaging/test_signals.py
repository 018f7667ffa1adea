"""Tests of Ctrl-C also pass where the parent of pytest ignores it, as `nohup` and many CI shells do."""

from __future__ import annotations

import signal

from tests.support.signals import heed_interrupts


def test_an_interrupt_is_heeded_where_the_parent_ignores_it() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        heed_interrupts()

        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
