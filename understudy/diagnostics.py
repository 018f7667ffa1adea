"""The one place where the runtime writes a log line: a named event with values, to the standard library's logger `understudy`.

The logger is silent until the program configures `logging`. A value is an attribute of the record, as with `extra=`. No line
has what users or models said, unless a user asks for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Protocol

log = logging.getLogger("understudy")
log.addHandler(logging.NullHandler())  # silent until the host configures logging, errors included

BARE = "%s %s"
"""The format of a line without a text of its own: the event and its values."""


class Held(Protocol):
    """A lock that a thread lets go of while it writes a line."""

    def let_go(self) -> None:
        """Release it."""
        ...

    def take_back(self) -> None:
        """Acquire it again."""
        ...


class _HeldHere(threading.local):
    locks: tuple[Held, ...] = ()
    """Those of this thread, the outermost first."""


held_here = _HeldHere()
"""A handler of the host's may block, and may wait for what a lock of the runtime's keeps others from."""

_is_muted: ContextVar[bool] = ContextVar("understudy_log_is_muted", default=False)


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
    if not logger.isEnabledFor(level) or _is_muted.get():
        return
    extra = {"event": event, **values}
    shown = arguments if text else (event, Values(values))
    held, held_here.locks = held_here.locks, ()
    for lock in held:
        lock.let_go()
    try:
        logger.log(level, text or BARE, *shown, exc_info=exc_info, extra=extra, stacklevel=2)
    except BaseException as error:  # of a handler or filter of the host's: the work that the line tells of must go on
        # In the main thread this one may come from a signal; in another thread it would only end the runtime's work.
        if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
            raise
    finally:
        for lock in held:
            lock.take_back()
        held_here.locks = held


def is_in_handler() -> bool:
    """Whether this thread is inside of a handler that gets lines of the package, and so holds that handler's lock."""
    above = logging.root.handlers if log.propagate else ()
    if not above and len(log.handlers) == 1:  # the one of this module: then the program does not log
        return False
    return any(map(_is_held, (*log.handlers, *above)))


def _is_held(handler: logging.Handler) -> bool:
    is_owned = getattr(handler.lock, "_is_owned", None)  # of an RLock; a lock of another kind cannot say it
    return is_owned is not None and bool(is_owned())


def mute() -> None:
    """Write no lines in this context: a run that a log handler waits for would wait for the handler."""
    _is_muted.set(True)


def is_muted() -> bool:
    """Whether this context writes no lines."""
    return _is_muted.get()


class Values:
    """Values that become text only when a handler formats the message."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def __str__(self) -> str:
        return " ".join([f"{name}={value!r}" for name, value in self._values.items()])
