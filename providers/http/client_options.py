"""The options that all clients share, and how a class that takes them by `**options` shows them in its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, cast

from understudy.vocabulary.checks import Unset
from understudy.vocabulary.other_names import explained, of_client

from .retries import Timing

if TYPE_CHECKING:
    import httpx

    from .extra_headers import HeadersLike

MARK = "Unpack[ClientOptions]"
"""How a constructor says that it takes the shared options."""


class ClientOptions(TypedDict, total=False):
    """The options of every client beside its model, its key and its address; each may be left out.

    A constructor of yours passes them on with `**options: Unpack[us.ClientOptions]`.

    Keys:
        timeout: seconds one attempt may take, from connecting to the last byte; None for as long as the call may take.
        model_timeout: seconds one call may take with all its attempts; None for no limit. In a run the agent's own number
            goes before. Without either it is 120, or `timeout` if that is longer; a streamed call has no limit then.
        attempts: how often a request is sent at most when errors are worth a retry.
        extra_headers: headers for each request, by name, or a function that returns them, called before each attempt. A
            value is a text or a `Secret`. They are in no log, error or repr. Headers that the client sends itself, such as
            the one of the key, are refused.
        transport: where requests go; tests pass an `httpx.MockTransport`.
        timing: the clock, sleep and randomness of timeouts and retries.
        max_reply_bytes: the longest response that is read.
        max_in_flight: how many attempts of this client may be under way at once, in place of the limit that all clients with
            its key share; further calls wait in turn.
        idle_timeout: seconds without any byte after which a streamed answer counts as lost; its first byte is waited for
            as long, but at least 120 seconds. None for no limit.
    """

    timeout: float | None
    model_timeout: float | Unset | None
    attempts: int
    extra_headers: HeadersLike | None
    transport: httpx.BaseTransport | None
    timing: Timing | None
    max_reply_bytes: int
    max_in_flight: int | Unset
    idle_timeout: float | None


def show_options(made: type, base: Callable[..., None]) -> None:
    """Let the constructor of a class that takes the shared options show each of them, for `help` and for specs.

    Args:
        base: the constructor that has them as parameters.
    """
    init = cast("Callable[..., None] | None", vars(made).get("__init__"))
    if init is None:
        return
    own = inspect.signature(init)
    if not any(each.kind is each.VAR_KEYWORD and each.annotation == MARK for each in own.parameters.values()):
        return
    shared = inspect.signature(base).parameters
    named = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
    options = [shared[name] for name in ClientOptions.__annotations__ if name not in own.parameters]
    elsewhere = of_client({*own.parameters, *ClientOptions.__annotations__})
    shown: Any = explained(init, "{}", elsewhere, also=ClientOptions.__annotations__)
    shown.__signature__ = own.replace(parameters=[*named, *options])
    cast(Any, made).__init__ = shown
