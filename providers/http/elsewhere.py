"""Tells a client that its caller has another model to ask: then it does not wait long for the limits of a key."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from understudy.errors import ProviderError, RateLimited

_takes: ContextVar[Callable[[ProviderError], bool] | None] = ContextVar("understudy_asks_elsewhere", default=None)


@contextmanager
def asked_elsewhere_after(takes: Callable[[ProviderError], bool]) -> Generator[None]:
    """Have calls inside the block end with their `RateLimited` at once, if another model is asked after it.

    Args:
        takes: whether another model is asked after an error. It may run code of the user's.
    """
    token = _takes.set(takes)
    try:
        yield
    finally:
        _takes.reset(token)


def is_asked_elsewhere(error: ProviderError) -> bool:
    """Whether an error is a limit of the key, and another model is asked after it at once."""
    takes = _takes.get()
    if takes is None or not isinstance(error, RateLimited):
        return False
    try:
        return takes(error)
    except (Exception, SystemExit):  # noqa: BLE001 - the caller asks again when the call has failed, and tells of the failure
        return False


def asked_once(takes: Callable[[ProviderError], bool]) -> Callable[[ProviderError], bool]:
    """Return `takes` as a function that calls it once for an error, though a client and then its caller want the answer."""
    latest: tuple[ProviderError, bool] | None = None

    def asked(error: ProviderError) -> bool:
        nonlocal latest
        if latest is None or latest[0] is not error:
            latest = error, takes(error)
        return latest[1]

    return asked
