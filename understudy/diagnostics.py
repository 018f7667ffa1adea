"""The one place where the runtime writes a log line: a named event with values, to the standard library's logger `understudy`.

The logger is silent until the program configures `logging`. A value is an attribute of the record, as with `extra=`. No line
has what users or models said, unless a user asks for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

log = logging.getLogger("understudy")
log.addHandler(logging.NullHandler())  # silent until the host configures logging, errors included

BARE = "%s %s"
"""The format of a line without a text of its own: the event and its values."""


def emit(
    level: int,
    event: str,
    values: Mapping[str, object],
    text: str = "",
    *arguments: object,
    exc_info: BaseException | bool | None = None,
    logger: logging.Logger = log,
) -> None:
    """Write one line, if anybody listens at this level.

    Args:
        level: as in `logging`.
        event: the name of the event, such as `run_finished`.
        values: attributes of the record.
        text: the message; without one it is the event and its values.
        arguments: for the places in `text`.
        exc_info: an error whose traceback belongs to the line; True for the one in hand.
        logger: where the line goes.
    """
    if not logger.isEnabledFor(level):
        return
    extra = {"event": event, **values}
    shown = arguments if text else (event, Values(values))
    try:
        logger.log(level, text or BARE, *shown, exc_info=exc_info, extra=extra, stacklevel=2)
    except BaseException as error:  # of a handler or filter of the host's: the work that the line tells of must go on
        # In the main thread this one may come from a signal; in another thread it would only end the runtime's work.
        if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
            raise


class Values:
    """Values that become text only when a handler formats the message."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def __str__(self) -> str:
        return " ".join([f"{name}={value!r}" for name, value in self._values.items()])
