"""The client of OpenAI's Responses API."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Unpack

from understudy.errors import ProviderError
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.providers.http.client_options import ClientOptions
from understudy.providers.http.credentials import KeyLike, Secret
from understudy.providers.http.forks import renew_after_fork
from understudy.providers.http.model_client import HttpModel
from understudy.providers.openai.families import OPENAI, is_own_host
from understudy.providers.openai.settings import family
from understudy.providers.wire.families import NEVER_REASONS
from understudy.providers.wire.json_values import written
from understudy.vocabulary.checks import checked_flag
from understudy.vocabulary.messages import JsonObject, Message, ModelRequest, ModelTurn
from understudy.vocabulary.pieces import Piece

from .answer import decode
from .input_items import items_of
from .request import encode
from .stream import ResponsesStream

MOST = 4_096  # Answers of one client that are remembered; more conversations at once are rare, and send everything.


class StoredAnswers:
    """The answers of one client; safe to share between threads.

    A history is known by a digest of its items. So a history that was shortened, or changed by anybody, is a new one.

    Args:
        most: how many answers are remembered; beyond it those that were not used for longest are forgotten.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._ids: OrderedDict[bytes, str] = OrderedDict()
        """Digest of a history -> the id of its last answer; the one used last stands last."""
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._lock = threading.Lock()
        """Guards the ids."""

    def keep(self, history: Sequence[JsonObject], response_id: str) -> None:
        """Note that the answer of this id ended `history`."""
        digest = _digests(history)[-1]
        with self._lock:
            self._ids[digest] = response_id
            self._ids.move_to_end(digest)
            if len(self._ids) > self._most:
                self._ids.popitem(last=False)

    def latest(self, history: Sequence[JsonObject]) -> tuple[str, int] | None:
        """Return the id of the last stored answer in `history`, and how many items it stands for; None without one.

        An answer that is the end of the history does not count: a request needs an item of its own.
        """
        digests = _digests(history)
        with self._lock:
            for length in range(len(history) - 1, 0, -1):
                if digests[length] in self._ids:
                    self._ids.move_to_end(digests[length])
                    return self._ids[digests[length]], length
        return None

    def forget(self, history: Sequence[JsonObject]) -> None:
        """Forget all answers in a history, so that it is sent whole."""
        with self._lock:
            for digest in _digests(history):
                self._ids.pop(digest, None)


def _digests(history: Sequence[JsonObject]) -> list[bytes]:
    """Return the digests of the first 0, 1, 2, … items."""
    chain = hashlib.sha256()
    found = [chain.digest()]
    for item in history:
        chain.update(written(item).encode("utf-8", "backslashreplace") + b"\n")
        found.append(chain.digest())
    return found


IDLE_TIMEOUT = 300.0
"""Seconds. The first event comes at once, and a model may think for minutes behind it, with nothing but rare `keepalive` events."""
LOST = "previous_response_not_found"
NO_RETENTION = "previous response cannot be used"
"""Words of the refusal for an organisation whose data OpenAI does not retain; it has no code of its own."""
OWN_STATE = ("previous_response_id", "conversation")
"""Fields of a request that say where its conversation stands."""


@dataclass(frozen=True, slots=True)
class Continuing(ModelRequest):
    """A request that names a stored answer, and sends only what is new behind it."""

    previous: str = ""
    """The id of the answer."""
    known: int = 0
    """How many items of the history the answer stands for."""


class OpenAIResponses(HttpModel):
    """A model behind OpenAI's Responses API, or a compatible server's.

    Blocking, and safe to share between threads. Making one checks the options and needs no key. `us.OpenAI` is the client of
    chat completions.

    Args:
        model: such as `gpt-5`.
        store: whether OpenAI keeps the answers. Then a request names the answer before, and sends only what is new, if the
            history is the one that this client was answered; else, or if OpenAI has lost that answer, it sends everything.
            Without it each request sends everything, the model's encrypted reasoning included; so does one whose settings
            have another `store` in `extra`.
        api_key: the key, a `Secret`, or a function that returns one, called before each attempt and once more after HTTP
            status 401; without it `OPENAI_API_KEY` is read at each call. It is in no log, error or repr.
        base_url: the address with its version, such as `http://127.0.0.1:8000/v1`; without it `OPENAI_BASE_URL` is read
            at each call, else requests go to OpenAI.
        options: those that all clients share, `ClientOptions`. `idle_timeout` is 300 seconds unless given.
    """

    provider = "openai"
    _address_variable = "OPENAI_BASE_URL"
    _added_ends = ("/responses",)

    def __init__(
        self,
        model: str,
        *,
        store: bool = False,
        api_key: KeyLike | None = None,
        base_url: str | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.store = checked_flag("store", store)
        self._stored: StoredAnswers | None = StoredAnswers() if store else None
        """None if OpenAI keeps no answers."""
        options.setdefault("idle_timeout", IDLE_TIMEOUT)
        super().__init__(model, api_key=api_key, base_url=base_url, **options)

    def complete(self, request: ModelRequest) -> ModelTurn:
        if not self._may_continue(request):
            return super().complete(request)
        sent = self._continued(request)
        try:
            turn = super().complete(sent)
        except ProviderError as error:
            if not self._was_lost(error, sent):
                raise
            turn = super().complete(request)
        self._keep(request, turn)
        return turn

    def stream(self, request: ModelRequest) -> Generator[Piece]:
        return self._stream_kept(request) if self._may_continue(request) else super().stream(request)

    def _stream_kept(self, request: ModelRequest) -> Generator[Piece]:
        assembler = TurnAssembler()
        began = False
        sent = self._continued(request)
        try:
            for piece in super().stream(sent):
                began = True
                assembler.add(piece)
                yield piece
        except ProviderError as error:
            if began or not self._was_lost(error, sent):
                raise
            for piece in super().stream(request):
                assembler.add(piece)
                yield piece
        self._keep(request, assembler.turn())

    def _is_stored(self, request: ModelRequest) -> bool:
        return self.store and request.settings.extra.get("store", True) is True

    def _may_continue(self, request: ModelRequest) -> bool:
        """Whether the request may name an answer, and its own answer may be named later."""
        has_own_state = any(key in request.settings.extra for key in OWN_STATE)
        return self._stored is not None and self._is_stored(request) and not has_own_state

    def _continued(self, request: ModelRequest) -> ModelRequest:
        """Return the request as it continues a stored answer; the same request if no answer of its history is stored."""
        stored = self._stored  # another call may set it to None
        latest = None if stored is None else stored.latest(self._history(request))
        if latest is None:
            return request
        previous, known = latest
        given: dict[str, Any] = {field.name: getattr(request, field.name) for field in fields(ModelRequest)}
        return Continuing(**given, previous=previous, known=known)

    def _was_lost(self, error: ProviderError, sent: ModelRequest) -> bool:
        """Whether a request failed because OpenAI does not have the answer that it named; if so, forget the answer.

        Another call may have forgotten it by now, so what counts is what this one sent.
        """
        lost, not_retained = error.code == LOST, NO_RETENTION in str(error).lower()
        if not isinstance(sent, Continuing) or not (lost or not_retained):
            return False
        stored = self._stored
        if stored is not None:
            stored.forget(self._history(sent))
        if not_retained:  # nor will it have any other
            self._stored = None
        return True

    def _keep(self, request: ModelRequest, turn: ModelTurn) -> None:
        stored = self._stored
        if stored is not None and turn.response_id:
            said = Message("assistant", turn.parts, turn.dialect)
            stored.keep(self._history(replace(request, messages=[*request.messages, said])), turn.response_id)

    def _history(self, request: ModelRequest) -> list[JsonObject]:
        official = is_own_host(self._base())
        reasons = family(self.model, official=official).levels is not NEVER_REASONS
        return items_of(request.messages, official=official, reasons=reasons, store=self._is_stored(request))

    def _base(self) -> str:
        return self._root(OPENAI)

    def _url(self) -> str:
        return f"{self._base()}/responses"

    def _auth(self, key: Secret) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key.reveal()}"}

    def _encode(self, request: ModelRequest) -> JsonObject:
        history = self._history(request)
        previous, known = (request.previous, request.known) if isinstance(request, Continuing) else ("", 0)
        official = is_own_host(self._base())
        return encode(request, history[known:], self.model, official=official, store=self.store, previous=previous)

    def _decode(self, body: JsonObject) -> ModelTurn:
        return decode(body)

    def _decoder(self) -> ResponsesStream:
        return ResponsesStream()
