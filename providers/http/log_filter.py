"""Cuts response headers out of the HTTP library's DEBUG log of our requests: they can hold cookies and quoted keys."""

from __future__ import annotations

import logging
from contextvars import ContextVar

LOGGERS = ("httpcore.http11", "httpcore.http2")
"""httpcore 1.0: the loggers of received responses."""
HEADERS = "receive_response_headers.complete"
FAILED = ".failed exception="

_is_ours: ContextVar[bool] = ContextVar("understudy_is_our_request", default=False)


class _WithoutHeaders(logging.Filter):
    """Cuts the headers off our lines; lines of the host's own requests stay unchanged."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _is_ours.get() and isinstance(record.msg, str) and not record.args:
            record.msg = _cut(record.msg)
        return True


def _cut(line: str) -> str:
    if line.startswith(HEADERS):
        return line.partition("[")[0] + "…"  # cut after version, status and reason
    before, failed, error = line.partition(FAILED)
    # An error about a malformed header quotes the header.
    return f"{before}{failed}{error.partition('(')[0]}" if failed else line


_filter = _WithoutHeaders()
_loggers = [logging.getLogger(name) for name in LOGGERS]


class quiet:  # a block, as `contextlib.suppress` is; one made of a generator would cost a microsecond for each chunk
    """Keep the headers of answers received inside the block out of the log."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        for logger in _loggers:
            if _filter not in logger.filters:  # a host may have reset its logging
                logger.addFilter(_filter)
        self._token = _is_ours.set(True)

    def __exit__(self, *raised: object) -> None:
        _is_ours.reset(self._token)
