"""Forked children of the program at hand."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable


def in_child(body: Callable[[], object]) -> None:
    """Run `body` in a forked child, and wait for it; what it raises is printed there, and fails here."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that hangs is ended
        try:
            body()
            os._exit(0)
        except BaseException:  # noqa: BLE001 (printed, and told by the exit status)
            traceback.print_exc()
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, f"the child ended with {status}"
