"""Reads an answer that came whole: the model's turn, or the error that the answer tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from understudy.providers.wire.blocks import held_back
from understudy.providers.wire.endings import unfinished
from understudy.providers.wire.json_values import WrongShape, as_object
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonObject, ModelTurn

from .attempt import Outgoing, Reply, not_json
from .credentials import Secret
from .errors import embedded_failure, failure
from .hidden_turns import without_key

OF_WRONG_ADDRESSES = (404, 405)
"""Statuses of servers that know no such path, or no POST to it. A model that they do not know has 404 too."""
Decode = Callable[[JsonObject], ModelTurn]


def turn_in(
    reply: Reply,
    outgoing: Outgoing,
    key: Secret,
    decode: Decode,
    wall_clock: Callable[[], float],
    *,
    is_address_given: Callable[[], bool],
) -> ModelTurn:
    """Return the turn in an answer of any status.

    Args:
        is_address_given: whether the address is the user's own: then an error that may come of a wrong one names it.

    Raises:
        BadReply: the body breaks the API's format, or the turn has no known end.
        ContentBlocked: the provider held the whole answer back.
        ProviderError: the status, or the body, tells an error.
    """
    provider = outgoing.provider
    # Some servers quote a refused key, and an error may quote the body cut at any place, so the key is removed first.
    clean = key.out_of_body(reply.body)
    if not 200 <= reply.status < 300:
        error = failure(reply.status, reply.headers, clean, provider=provider, now=wall_clock())
        if reply.status in OF_WRONG_ADDRESSES and is_address_given():
            error.args = (f"{error} (the request went to {outgoing.address})",)
        raise error
    try:
        value = parse(reply.body, in_range=False)  # a model may write such a number into its arguments
        hidden = embedded_failure(value, clean, provider=provider)
        turn = decode(as_object(value, "the body")) if hidden is None else None
    except WrongShape as error:
        raise not_json(outgoing, replace(reply, body=clean), str(error)) from None
    except ValueError as error:
        raise not_json(outgoing, replace(reply, body=clean), f"expected JSON, and it is not JSON: {error}") from None
    blocked = None if turn is None or turn.finish_reason != "blocked" else held_back(without_key(turn, key), provider)
    if blocked is not None:
        raise blocked
    if turn is not None and turn.finish_reason != "other":
        return turn
    half = _half(clean, decode)
    if hidden is not None:
        hidden.partial = half
        raise hidden
    raise unfinished(half or ModelTurn(()), provider)


def _half(clean: bytes, decode: Decode) -> ModelTurn | None:
    """Return the partial turn beside an embedded error, from the body without the key; None if there is none."""
    try:
        return decode(as_object(parse(clean, in_range=False), "the body"))
    except ValueError:
        return None
