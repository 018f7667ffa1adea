"""What the HTTP library logs of our requests at DEBUG, without what a server says in headers: cookies, keys that it quotes."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

LOGGERS = ("httpcore.http11", "httpcore.http2")
"""httpcore 1.0: the loggers that tell what was received."""
HEADERS = "receive_response_headers.complete"
FAILED = ".failed exception="

_is_ours: ContextVar[bool] = ContextVar("understudy_is_our_request", default=False)


class _WithoutHeaders(logging.Filter):
    """Cuts off what may hold a secret; leaves the lines of the host's own requests as they are."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _is_ours.get() and isinstance(record.msg, str) and not record.args:
            record.msg = _cut(record.msg)
        return True


def _cut(line: str) -> str:
    if line.startswith(HEADERS):
        return line.partition("[")[0] + "…"  # after version, status and reason
    before, failed, error = line.partition(FAILED)
    # What it says of a header that it cannot read quotes it.
    return f"{before}{failed}{error.partition('(')[0]}" if failed else line


_filter = _WithoutHeaders()


@contextmanager
def quiet() -> Generator[None]:
    """Keep the headers of answers that come inside of the block out of the log."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_filter)  # once, however often; and again after a host has configured logging
    token = _is_ours.set(True)
    try:
        yield
    finally:
        _is_ours.reset(token)
