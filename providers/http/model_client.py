"""`HttpModel`, the base of all API clients: options, the key, attempts, and the reading of an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from understudy.errors import AuthenticationError, ProviderError
from understudy.providers.wire.blocks import held_back
from understudy.providers.wire.endings import unfinished, usage_of, with_usage_of
from understudy.providers.wire.json_values import WrongShape, as_object, written
from understudy.vocabulary.checks import UNSET, Unset, checked_seconds
from understudy.vocabulary.context.scope import account_of_turn, current_scope
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn, Settings, user_message
from understudy.vocabulary.models import DEFAULT_IDLE_TIMEOUT, DEFAULT_MODEL_TIMEOUT
from understudy.vocabulary.pieces import Piece

from .attempt import MAX_REPLY_BYTES, Attempt, Outgoing, Reply, not_json
from .client_options import show_options
from .connections import Connections
from .credentials import KeyLike, KeySource, Secret, checked_key, key_source
from .environment import KEYS, first_set, refuse_offline
from .errors import embedded_failure, failure
from .extra_headers import HeadersLike, KeyAndHeaders, checked_headers
from .hidden_turns import clean_error, without_key
from .in_flight import DEFAULT_IN_FLIGHT, InFlight
from .limits.limiter import Call, Limiter
from .limits.registry import Limits, shared
from .options import checked_count, checked_model, checked_root
from .retries import Timing, keep_trying

if TYPE_CHECKING:
    import httpx

    from understudy.providers.wire.stream_decoder import StreamDecoder

T = TypeVar("T")

_BEFORE_ANY_CALL = InFlight(DEFAULT_IN_FLIGHT)
DEFAULT_ATTEMPTS = 3  # Enough for an outage of some seconds; more attempts need knowledge of the load.


class HttpModel(ABC):
    """A model behind an HTTP API; safe to share between threads, usable in forked children.

    Its constructor has the options of `ClientOptions` as parameters, with their defaults. Classes with options of their own
    take the shared ones as `**options: Unpack[ClientOptions]` and pass them on.

    Attributes:
        model_timeout: seconds one call may take with all its attempts; None for no limit.
        streamed_timeout: the same for a streamed call: `model_timeout` if it was given, else None.
        idle_timeout: seconds without any byte after which a streamed answer counts as lost; None for no limit.
    """

    provider: str
    _key_parameter: str = "api_key"
    """The name of the client's parameter with the key, for errors."""
    _address_variable: str = ""
    """The environment variable of the address; empty if there is none."""
    _added_version: str = ""
    """The version that the client adds to the address; empty if the address has it."""
    _added_ends: tuple[str, ...] = ()
    """What the paths of its requests end in."""

    def __init__(
        self,
        model: str,
        *,
        api_key: KeyLike | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        model_timeout: float | Unset | None = UNSET,
        attempts: int = DEFAULT_ATTEMPTS,
        extra_headers: HeadersLike | None = None,
        transport: httpx.BaseTransport | None = None,
        timing: Timing | None = None,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        max_in_flight: int | Unset = UNSET,
        idle_timeout: float | None = DEFAULT_IDLE_TIMEOUT,
    ) -> None:
        self._given_key = checked_key(api_key, self._key_parameter)
        self.model = checked_model(model)
        self.base_url = None if base_url is None else checked_root(base_url, self._added_version, self._added_ends)
        self._timeout = checked_seconds("timeout", timeout)
        self.idle_timeout = checked_seconds("idle_timeout", idle_timeout)
        streamed_timeout = None if isinstance(model_timeout, Unset) else model_timeout
        self.streamed_timeout = checked_seconds("model_timeout", streamed_timeout)
        if isinstance(model_timeout, Unset):
            model_timeout = max(DEFAULT_MODEL_TIMEOUT, timeout or 0.0)
        self.model_timeout = checked_seconds("model_timeout", model_timeout)
        self._attempts = checked_count(attempts, "attempts")
        self._max_bytes = checked_count(max_reply_bytes, "max_reply_bytes")
        own = None if isinstance(max_in_flight, Unset) else InFlight(checked_count(max_in_flight, "max_in_flight"))
        self._own_in_flight = own
        if timing is not None and not isinstance(timing, Timing):
            raise TypeError(f"timing must be Timing(…), got {timing!r}")
        # Not by its class: httpx is not loaded yet.
        if transport is not None and not callable(getattr(transport, "handle_request", None)):
            raise TypeError(f"transport must be one of httpx's, got {type(transport).__name__}")
        self._timing = Timing() if timing is None else timing
        self._connections = Connections(transport, clock=self._timing.clock)
        self._keys: KeySource | None = None
        self._key_used: KeyAndHeaders | None = None
        self._extra_headers = checked_headers(extra_headers, lambda: self._auth(Secret("none")))
        self._limits = shared if transport is None and timing is None else Limits.on(self._timing)
        self._limited: tuple[Secret, str, Limiter] | None = None
        """Key, address and limiter of the latest call, so that most calls need not look for theirs."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        show_options(cls, HttpModel.__init__)

    def check_settings(self, settings: Settings) -> None:
        """Refuse settings that the API, or the family of the model, lacks; the runtime asks when an agent is made.

        Sends nothing, loads no HTTP library and needs no key.

        Raises:
            ValueError: there is such a setting; it says what to do instead.
        """
        self._encode(ModelRequest((user_message("Are these settings right?"),), settings=settings))

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
            ContentBlocked: the provider refused the prompt, or held the whole answer back, because of its content.
            ProviderError: any other error of the API, or no connection.
            RunCancelled, RunTimedOut: the run that asks has ended.
            BudgetExceeded: the run's budget was used up while the call waited for a slot.
        """
        refuse_offline(self.provider)
        body, keys = _bytes_of(self._encode(request)), self._key_source()
        outgoing = self._outgoing(self._url(), body)
        until = self._deadline(self.model_timeout)
        failed: list[ModelTurn] = []
        turn = self._keep_trying(lambda key: self._asked(outgoing, key, until), keys, failed, until)
        return turn if not failed else replace(turn, usage=turn.usage + usage_of(failed))

    def stream(self, request: ModelRequest) -> Generator[Piece]:
        """Yield the model's turn for `request` in pieces while it comes; the last one is a `TurnEnd`.

        Reading the next piece blocks the calling thread. The call begins with the first one; it holds a slot of `in_flight`
        and a connection until its end, or until `close()` of the generator, which ends the connection at once. Errors are
        tried again as by `complete` until a piece was yielded that readers see, and never after: then the error has the
        turn so far as its `partial`.

        Raises:
            ValueError, AuthenticationError, RateLimited, BadReply, ContentBlocked, ProviderError, RunCancelled, RunTimedOut,
                BudgetExceeded: as by `complete`. BadReply also if the stream ends before the turn does.
            ProviderTimeout: an attempt took longer than `timeout`, or no byte came for `idle_timeout`.
        """
        from .streamed_call import StreamedCall, shown

        refuse_offline(self.provider)
        body, keys = _bytes_of(self._encode_stream(request)), self._key_source()
        outgoing = self._outgoing(self._stream_url(), body)
        until = self._deadline(self.streamed_timeout)
        call = StreamedCall(
            outgoing=outgoing,
            connections=self._connections,
            limited=lambda key: self._limited_call(outgoing, key, until),
            clock=self._timing.clock,
            timeout=self._timeout,
            idle_timeout=self.idle_timeout,
            until=until,
            max_bytes=self._max_bytes,
            auth=self._headers,
            decoder=self._decoder,
            turn_in=lambda reply, key: self._turn(outgoing, reply, key),
        )
        failed: list[ModelTurn] = []
        yield from shown(self._keep_trying(call.begun, keys, failed, until), failed)

    def close(self) -> None:
        """Close idle connections now and busy ones after their calls; a later call opens new ones."""
        self._connections.close()

    def renew(self) -> None:
        """Close idle connections now and busy ones after their calls; a later call opens new ones."""
        self._connections.close()

    @property
    def in_flight(self) -> InFlight:
        """The limit of its calls in flight: its own, or that of the key or server of its latest call."""
        limiter = None if self._limited is None else self._limited[2]
        return self._own_in_flight or (_BEFORE_ANY_CALL if limiter is None else limiter.server or limiter.in_flight)

    def unset_keys(self) -> tuple[str, ...]:
        """Return the environment variables of the key, if the next call needs one of them and none is set."""
        variables = self._key_variables() if self._given_key is None else ()
        return variables if first_set(*variables) is None else ()

    def unset_place(self) -> str:
        """Return the environment variable that says where the next call goes, if it has no default and is not set."""
        return ""

    def known_keys(self) -> list[Secret]:
        """Return the given key, and the key and secret headers of the latest call, so that a recording can hide them."""
        given = [self._given_key] if isinstance(self._given_key, Secret) else []
        return given if self._key_used is None else [*given, *self._key_used.keys()]

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

    def _key_variables(self) -> tuple[str, ...]:
        """Return the environment variables of the key, if a call needs one."""
        return KEYS.get(self.provider, ())

    def _find_keys(self) -> KeySource:
        """Return the source of the key: the parameter, else the environment; raises AuthenticationError if there is none."""
        return key_source(self._given_key, KEYS[self.provider], self._key_parameter, self.provider)

    @abstractmethod
    def _url(self) -> str:
        """Return the URL of requests."""

    def _stream_url(self) -> str:
        """Return the URL of requests for a stream."""
        return self._url()

    @abstractmethod
    def _auth(self, key: Secret) -> Mapping[str, str]:
        """Return the headers with the key."""

    @abstractmethod
    def _encode(self, request: ModelRequest) -> JsonObject:
        """Return the request's body."""

    def _encode_stream(self, request: ModelRequest) -> JsonObject:
        """Return the body of a request for a stream."""
        return {**self._encode(request), "stream": True}

    @abstractmethod
    def _decoder(self) -> StreamDecoder:
        """Return a decoder for one streamed answer."""

    @abstractmethod
    def _decode(self, body: JsonObject) -> ModelTurn:
        """Return the turn in a response body; raises WrongShape."""

    def _root(self, otherwise: str) -> str:
        """Return the base address: the parameter, else the environment's, else `otherwise`."""
        found = None if self.base_url is not None else self._address_set()
        return self.base_url or (
            checked_root(found, self._added_version, self._added_ends, self._address_variable) if found else otherwise
        )

    def _address_set(self) -> str | None:
        return first_set(self._address_variable) if self._address_variable else None

    def _has_given_address(self) -> bool:
        """Whether requests go to an address of the user's, which may be wrong, and not to the provider's own."""
        return self.base_url is not None or self._address_set() is not None

    def _key_source(self) -> KeySource:
        if self._given_key is None:  # the environment may change between calls
            return self._find_keys()
        # Two threads may do this at once, with the same result.
        if self._keys is None:
            self._keys = self._find_keys()
        return self._keys

    def _outgoing(self, url: str, body: bytes) -> Outgoing:
        return Outgoing(url=url, body=body, headers={"content-type": "application/json"}, provider=self.provider)

    def _deadline(self, timeout: float | None) -> float:
        """Return the deadline of the call on the client's clock; in a turn of a run the scope has it."""
        scope = current_scope()
        if timeout is None or (scope is not None and scope.is_turn):
            return inf
        return self._timing.clock() + timeout

    def _keep_trying(self, ask: Callable[[Secret], T], keys: KeySource, failed: list[ModelTurn], until: float) -> T:
        try:
            return keep_trying(
                lambda: self._attempt(ask, keys, failed), self._attempts, self._timing, until, self._take_retry
            )
        except ProviderError as error:
            error.partial = with_usage_of(failed, error.partial)
            raise

    def _attempt(self, ask: Callable[[Secret], T], keys: KeySource, failed: list[ModelTurn]) -> T:
        """Return what `ask` returns of one attempt; if the attempt fails, add its partial turn to `failed`."""
        try:
            return self._renewing(ask, keys)
        except ProviderError as error:
            if error.partial is not None:
                failed.append(error.partial)
            raise

    def _renewing(self, ask: Callable[[Secret], T], keys: KeySource) -> T:
        try:
            return ask(self._used(keys.current()))
        except AuthenticationError as error:
            renewed = keys.renewed() if error.status == 401 else None
            if renewed is None:
                raise
        return ask(self._used(renewed))

    def _used(self, key: Secret) -> Secret:
        self._key_used = used = KeyAndHeaders(key, self._extra_headers.current())
        return used

    def _headers(self, key: Secret) -> Mapping[str, str]:
        """Return the headers of an attempt in clear text."""
        if not isinstance(key, KeyAndHeaders):
            return self._auth(key)
        return {**{name: value.reveal() for name, value in key.headers.items()}, **self._auth(key)}

    def _limited_call(self, outgoing: Outgoing, key: Secret, until: float) -> Call:
        limiter = self._limiter_of(outgoing, key)
        return limiter.call(len(outgoing.body), until=until, own=self._own_in_flight)

    def _limiter_of(self, outgoing: Outgoing, key: Secret) -> Limiter:
        latest = self._limited
        if latest is not None and latest[0].reveal() == key.reveal() and latest[1] == outgoing.url:
            return latest[2]
        limiter = self._limits.of(self.provider, outgoing.url, self.model, self._counted_by(key))
        self._limited = key, outgoing.url, limiter
        return limiter

    def _counted_by(self, key: Secret) -> str:
        """Return what the provider counts calls by: the key, or whose it is."""
        return key.reveal()

    def _take_retry(self, error: ProviderError) -> bool:
        return self._limited is None or self._limited[2].take_retry(error)

    def _asked(self, outgoing: Outgoing, key: Secret, until: float) -> ModelTurn:
        attempt = Attempt(
            outgoing,
            timeout=self._timeout or inf,
            max_bytes=self._max_bytes,
            clock=self._timing.clock,
            until=until,
            hide=key.out_of_body,
        )
        try:
            with self._limited_call(outgoing, key, until) as call:
                account = account_of_turn()
                refusal = account.refusal() if call.waited and account is not None else None
                if refusal is not None:
                    raise refusal
                reply = attempt.send(self._connections, lambda: self._headers(key))
                call.headers = reply.headers
                turn = self._turn(outgoing, reply, key)
                call.usage = turn.usage
                if account is not None:  # before the slot goes to the next call, which must see the spending
                    account.pay_ahead(turn.usage)
            return replace(turn, request_id=key.out_of(attempt.request_id)) if attempt.request_id else turn
        except ProviderError as error:
            error.provider = error.provider or self.provider
            error.request_id = error.request_id or attempt.request_id
            clean_error(error, key)
            raise

    def _turn(self, outgoing: Outgoing, reply: Reply, key: Secret) -> ModelTurn:
        given = self._has_given_address
        return turn_in(reply, outgoing, key, self._decode, self._timing.wall_clock, is_address_given=given)


def _bytes_of(body: JsonObject) -> bytes:
    text = written(body)
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which the APIs refuse also as the escape `\\udXXX`
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


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
