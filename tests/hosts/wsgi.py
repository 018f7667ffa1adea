"""A web application around the agent. It also runs it on import, so that threads and pools are there before workers are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .clerk import clerk, office, stall, work

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

work(1)


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    path: str = environ["PATH_INFO"]
    text = _answer(path.removeprefix("/"))
    if not office.health().ok:
        os.kill(os.getpid(), signal.SIGTERM)  # the worker finishes what it has in hand, and gunicorn starts another
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text.encode()]


def _answer(order: str) -> str:
    match order:
        case "hang":
            return clerk.run("hang").text
        case "stall":
            return stall()
        case number:
            return " ".join([str(value) for value in work(int(number))])
