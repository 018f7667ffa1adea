"""Waits for servers of others, which tests start in processes of their own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

BETWEEN = 0.2  # Seconds between two tries.


def wait_until_answers(
    process: subprocess.Popen[bytes], port: int, path: str, log: Path, *, timeout: float, headers: Mapping[str, str]
) -> None:
    """Return when a server on this host answers; fail the test with the end of its log if it ends or takes too long.

    Args:
        process: the server.
        port: where it listens.
        path: what is asked for; status 200 is the answer.
        log: what it prints.
        timeout: seconds.
        headers: of the request.
    """
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        connection = HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", path, headers=dict(headers))
            if connection.getresponse().status == 200:
                return
        except (OSError, HTTPException):
            time.sleep(BETWEEN)
        finally:
            connection.close()
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}", pytrace=False)
