"""`HttpModel`, the base of all API clients: options, the key, attempts, and the reading of an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

from understudy.errors import AuthenticationError, ProviderError
from understudy.providers.wire.endings import unfinished, usage_of, with_usage_of
from understudy.providers.wire.json_values import WrongShape, as_object, written
from understudy.vocabulary.checks import UNSET, Unset, checked_seconds
from understudy.vocabulary.context.scope import account_of_turn, current_scope
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn
from understudy.vocabulary.models import DEFAULT_MODEL_TIMEOUT

from .attempt import MAX_REPLY_BYTES, Attempt, Outgoing, Reply, not_json
from .connections import Connections
from .credentials import KeyLike, KeySource, Secret, checked_key, key_source
from .environment import KEYS, first_set, refuse_offline
from .errors import embedded_failure, failure
from .in_flight import InFlight
from .options import checked_count, checked_model, checked_url
from .retries import Timing, keep_trying

if TYPE_CHECKING:
    import httpx

DEFAULT_IN_FLIGHT = 256  # More than the rate limits of most keys allow; more calls only pile up threads and sockets.
DEFAULT_ATTEMPTS = 3  # Enough for an outage of some seconds; more attempts need knowledge of the load.


class HttpModel(ABC):
    """A model behind an HTTP API; safe to share between threads, usable in forked children.

    Attributes:
        in_flight: the limit of its calls in flight; clients with the same key may share it.
        model_timeout: seconds one call may take with all its attempts; None for no limit.
    """

    provider: ClassVar[str]
    _key_parameter: ClassVar[str] = "api_key"
    """The name of the client's parameter with the key, for errors."""

    def __init__(
        self,
        model: str,
        *,
        api_key: KeyLike | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        model_timeout: float | Unset | None = UNSET,
        attempts: int = DEFAULT_ATTEMPTS,
        transport: httpx.BaseTransport | None = None,
        timing: Timing | None = None,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        max_in_flight: int = DEFAULT_IN_FLIGHT,
    ) -> None:
        self._given_key = checked_key(api_key, self._key_parameter)
        self.model = checked_model(model)
        self.base_url = None if base_url is None else checked_url(base_url)
        self._timeout = checked_seconds("timeout", timeout)
        if isinstance(model_timeout, Unset):
            model_timeout = max(DEFAULT_MODEL_TIMEOUT, timeout or 0.0)
        self.model_timeout = checked_seconds("model_timeout", model_timeout)
        self._attempts = checked_count(attempts, "attempts")
        self._max_bytes = checked_count(max_reply_bytes, "max_reply_bytes")
        self.in_flight = InFlight(checked_count(max_in_flight, "max_in_flight"))
        if timing is not None and not isinstance(timing, Timing):
            raise TypeError(f"timing must be Timing(…), got {timing!r}")
        if transport is not None and not callable(
            getattr(transport, "handle_request", None)
        ):  # httpx is not loaded yet
            raise TypeError(f"transport must be one of httpx's, got {type(transport).__name__}")
        self._timing = Timing() if timing is None else timing
        self._connections = Connections(transport, clock=self._timing.clock)
        self._keys: KeySource | None = None
        self._key_used: Secret | None = None

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return the model's turn for `request`.

        Blocks the calling thread, also while the limit of calls in flight is reached. After a `retryable` error the call
        waits as long as the provider asked and tries again while the run has retries left; the last error is raised.

        Raises:
            ValueError: the API lacks one of the request's settings or parts; nothing was sent.
            AuthenticationError: the key is missing or refused.
            RateLimited: HTTP status 429, still, at the last attempt.
            ProviderTimeout: an attempt took longer than `timeout`.
            BadReply: the response breaks the API's format.
            ProviderError: any other error of the API, or no connection.
            RunCancelled, RunTimedOut: the run that asks has ended.
            BudgetExceeded: the run's budget was used up while the call waited for a slot.
        """
        refuse_offline(self.provider)
        # Half a surrogate pair cannot be UTF-8; written as \\udXXX it is the JSON escape of itself.
        body = written(self._encode(request)).encode("utf-8", "backslashreplace")
        keys = self._key_source()
        outgoing = Outgoing(
            url=self._url(), body=body, headers={"content-type": "application/json"}, provider=self.provider
        )
        failed: list[ModelTurn] = []
        until = self._deadline()
        try:
            turn = keep_trying(
                lambda: self._attempt(outgoing, keys, failed, until), self._attempts, self._timing, until
            )
        except ProviderError as error:
            error.partial = with_usage_of(failed, error.partial)
            raise
        return turn if not failed else replace(turn, usage=turn.usage + usage_of(failed))

    def close(self) -> None:
        """Close idle connections now and busy ones after their calls; a later call opens new ones."""
        self._connections.close()

    def renew(self) -> None:
        """Close idle connections now and busy ones after their calls; a later call opens new ones."""
        self._connections.close()

    def known_keys(self) -> list[Secret]:
        """Return the given key and the key of the latest call, so that a recording can hide both."""
        return [key for key in (self._given_key, self._key_used) if isinstance(key, Secret)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "" if self.base_url is None else f", base_url={self.base_url!r}"
        return f"{type(self).__name__}({self.model!r}{where})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"{self!r} is not pickled: it may hold a key; make it anew where it is needed")

    def _find_keys(self) -> KeySource:
        """Return the source of the key: the parameter, else the environment; raises AuthenticationError if there is none."""
        return key_source(self._given_key, KEYS[self.provider], self._key_parameter, self.provider)

    @abstractmethod
    def _url(self) -> str:
        """Return the URL of requests."""

    @abstractmethod
    def _auth(self, key: Secret) -> Mapping[str, str]:
        """Return the headers with the key."""

    @abstractmethod
    def _encode(self, request: ModelRequest) -> JsonObject:
        """Return the request's body."""

    @abstractmethod
    def _decode(self, body: JsonObject) -> ModelTurn:
        """Return the turn in a response body; raises WrongShape."""

    def _root(self, otherwise: str, variable: str = "") -> str:
        """Return the base address: the parameter, else the environment's, else `otherwise`."""
        found = first_set(variable) if self.base_url is None and variable else None
        return self.base_url or (checked_url(found, variable) if found else otherwise)

    def _key_source(self) -> KeySource:
        if self._given_key is None:  # the environment may change between calls
            return self._find_keys()
        # Two threads may do this at once, with the same result.
        if self._keys is None:
            self._keys = self._find_keys()
        return self._keys

    def _deadline(self) -> float:
        """Return the deadline of the call on the client's clock; in a turn of a run the scope has it."""
        scope = current_scope()
        if self.model_timeout is None or (scope is not None and scope.is_turn):
            return inf
        return self._timing.clock() + self.model_timeout

    def _attempt(self, outgoing: Outgoing, keys: KeySource, failed: list[ModelTurn], until: float) -> ModelTurn:
        """Return the turn of one attempt; if the attempt fails, add its partial turn to `failed`."""
        try:
            return self._renewing(outgoing, keys, until)
        except ProviderError as error:
            if error.partial is not None:
                failed.append(error.partial)
            raise

    def _renewing(self, outgoing: Outgoing, keys: KeySource, until: float) -> ModelTurn:
        try:
            return self._asked(outgoing, keys.current(), until)
        except AuthenticationError as error:
            renewed = keys.renewed() if error.status == 401 else None
            if renewed is None:
                raise
        return self._asked(outgoing, renewed, until)

    def _asked(self, outgoing: Outgoing, key: Secret, until: float) -> ModelTurn:
        self._key_used = key
        timeout = max(0.0, min(self._timeout or inf, until - self._timing.clock()))
        attempt = Attempt(
            outgoing, timeout=timeout, max_bytes=self._max_bytes, clock=self._timing.clock, hide=key.out_of_body
        )
        try:
            with self.in_flight.slot() as waited:
                account = account_of_turn()
                refusal = account.refusal() if waited and account is not None else None
                if refusal is not None:
                    raise refusal
                turn = self._turn(outgoing, attempt.send(self._connections, lambda: self._auth(key)), key)
                if account is not None:  # before the slot goes to the next call, which must see the spending
                    account.pay_ahead(turn.usage)
            return turn
        except ProviderError as error:
            error.provider = error.provider or self.provider
            _hide(key, error)
            raise

    def _turn(self, outgoing: Outgoing, reply: Reply, key: Secret) -> ModelTurn:
        # Some servers quote a refused key, and an error may quote the body cut at any place, so the key is removed first.
        clean = key.out_of_body(reply.body)
        if not 200 <= reply.status < 300:
            now = self._timing.wall_clock()
            raise failure(reply.status, reply.headers, clean, provider=self.provider, now=now)
        try:
            value = parse(reply.body, in_range=False)  # a model may write such a number into its arguments
            hidden = embedded_failure(value, clean, provider=self.provider)
            turn = self._decode(as_object(value, "the body")) if hidden is None else None
        except WrongShape as error:
            raise not_json(outgoing, replace(reply, body=clean), str(error)) from None
        except ValueError as error:
            raise not_json(outgoing, replace(reply, body=clean), f"not JSON: {error}") from None
        if turn is not None and turn.finish_reason != "other":
            return turn
        half = self._half(clean)
        if hidden is not None:
            hidden.partial = half
            raise hidden
        raise unfinished(half or ModelTurn(()), self.provider)

    def _half(self, clean: bytes) -> ModelTurn | None:
        """Return the partial turn beside an embedded error, from the body without the key; None if there is none."""
        try:
            return self._decode(as_object(parse(clean, in_range=False), "the body"))
        except ValueError:
            return None


def _hide(key: Secret, error: BaseException) -> None:
    """Remove the key from an error's text, its causes and contexts: the HTTP library quotes what it cannot parse."""
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            clean = tuple([key.out_of(part) if isinstance(part, str) else part for part in each.args])
            if clean != each.args:  # changed only if needed: a context may be the caller's own error
                each.args = clean
            left += [each.__cause__, each.__context__]
