"""`FallbackModel`: asks the next model when one fails."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from understudy.errors import ProviderError, ProviderTimeout, RateLimited, RunCancelled, RunTimedOut, in_words
from understudy.providers.catalogue import resolve
from understudy.providers.http.elsewhere import asked_elsewhere_after
from understudy.providers.http.own_time import OwnTime
from understudy.providers.http.streamed_call import Begun, shown
from understudy.providers.wire.endings import usage_of, with_usage_of
from understudy.vocabulary.checks import UNSET, Unset, WrongReturn, checked_plain, found_instead, named_safely
from understudy.vocabulary.context.context_windows import context_window_of
from understudy.vocabulary.context.scope import account_of_turn
from understudy.vocabulary.messages import ModelRequest, ModelTurn
from understudy.vocabulary.models import (
    Model,
    ModelLike,
    ModelName,
    Renewable,
    StreamingModel,
    can_stream,
    check_settings,
    guards_itself,
    name_of,
    streamed_timeout_of,
    timeout_of,
)
from understudy.vocabulary.pieces import Piece, TurnEnd, is_visible, pieces_of

if TYPE_CHECKING:
    from understudy.providers.http.credentials import Secret
    from understudy.vocabulary.settings import Settings

T = TypeVar("T")

On: TypeAlias = "Iterable[type[ProviderError]] | Callable[[ProviderError], bool]"
"""Classes of errors, or a function of the error."""


def may_pass(error: ProviderError) -> bool:
    """Whether another model may do better: the error is `retryable`, a timeout, or a limit of the key."""
    return error.retryable or isinstance(error, (ProviderTimeout, RateLimited))


class FallbackModel:
    """Asks models in turn until one answers; safe to share between threads if the models are.

    A model is asked anew at each call, from the first one on. Each has had its own retries when the next one is asked; but nobody waits
    for a model whose provider refuses requests of its key for a while (`RateLimited`) as long as another one is left. An
    answer of which a reader was shown something is never replaced: that error ends the call. Other models find the history as
    far as their API takes it, as after any change of the model. In a run, each model has the time of its own `model_timeout`
    (in a stream, of its `streamed_timeout`), as far as the run and an agent's `model_timeout` leave it.

    Args:
        models: model strings and model objects, at least two.
        on: after which errors the next model is asked: classes of `ProviderError`, or a function of the error that returns True
            or False, called on the thread of the call. If it fails, no other model is asked. Without it after errors that are `retryable`, every `RateLimited` and every
            `ProviderTimeout`; not after a wrong key, a wrong request or an answer that cannot be read.

    Raises:
        TypeError: `models` is no list of models, or `on` is neither.
        ValueError: there are less than two models, or one stands there twice; or `on` holds no class.
    """

    stream: Callable[[ModelRequest], Generator[Piece]]
    """Yields the turn in pieces; there if one of the models streams. Others are asked by `complete`."""
    idle_timeout: None
    """There if all models that stream end their streams that stand still."""

    def __init__(self, models: Sequence[ModelLike], *, on: On | Unset = UNSET) -> None:
        self.models = _checked_models(models)
        self._goes_on = _checked_on(on)
        windows = [context_window_of(model) for model in self.models]
        known = [window for window in windows if window is not None]
        self.context_window = min(known) if len(known) == len(windows) else None
        self.model_timeout = _sum_of([timeout_of(model) for model in self.models])
        if any(can_stream(model) for model in self.models):
            self.stream = self._stream
            self.streamed_timeout = _sum_of([streamed_timeout_of(model) for model in self.models])
            if all(guards_itself(model) for model in self.models if can_stream(model)):
                self.idle_timeout = None

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return the turn of the first model that answers, with the tokens of those that failed added; blocks.

        Raises:
            ProviderError: the error of the last model that was asked. Its notes name the errors of the models before, and its
                `partial` has the tokens of all. Also if the function `on` failed, whose error is the cause then.
            ValueError, RunCancelled, RunTimedOut, BudgetExceeded: as by the model that is asked; no other model is asked.
        """
        model, turn, failed = self._first(lambda model: _complete(model, request))
        if not isinstance(turn, ModelTurn):
            return turn  # the caller refuses it
        turn = turn if turn.model else replace(turn, model=name_of(model))
        return turn if not failed else replace(turn, usage=turn.usage + usage_of(failed))

    def _stream(self, request: ModelRequest) -> Generator[Piece]:
        model, begun, failed = self._first(lambda model: _begun(model, request))
        for piece in shown(begun, failed):
            yield replace(piece, model=name_of(model)) if isinstance(piece, TurnEnd) and not piece.model else piece

    def _first(self, ask: Callable[[Model], T]) -> tuple[Model, T, list[ModelTurn]]:
        """Return the first model that does not fail, what `ask` returned of it, and what came of the turns that failed."""
        failed: list[ModelTurn] = []
        notes: list[str] = []
        account = account_of_turn()
        for number, model in enumerate(self.models, 1):
            if account is not None:
                account.asks(name_of(model))
            is_last = number == len(self.models)
            try:
                with nullcontext() if is_last else asked_elsewhere_after(self._goes_on):
                    return model, ask(model), failed
            except (ProviderError, ConnectionError, TimeoutError) as caught:
                error = caught if isinstance(caught, ProviderError) else _as_provider_error(model, caught)
                if error.partial is not None:
                    failed.append(error.partial)
                if is_last or not self._is_asked_on(error, model, notes, failed):
                    notes.append(f"it is the error of {name_of(model)}")
                    raise _last(error, notes, failed, is_last) from error.__cause__
                if account is not None and error.partial is not None:
                    account.pay_failed(error.partial.usage)
                notes.append(f"before it, {name_of(model)} failed: {type(error).__name__}: {error}")
        raise AssertionError("the last model returns or raises")

    def _is_asked_on(self, error: ProviderError, model: Model, notes: list[str], failed: list[ModelTurn]) -> bool:
        """Whether the next model is asked; if the user's function fails, the error has all that an error of a model has."""
        try:
            return self._goes_on(error)
        except (RunCancelled, RunTimedOut):
            raise
        except (Exception, SystemExit) as wrong:
            both = ProviderError(
                f"FallbackModel: the function on failed: {in_words(wrong)}. "
                f"It was asked about the error of {name_of(model)}: {in_words(error)}",
                provider=error.provider,
                status=error.status,
                code=error.code,
                partial=error.partial,
                request_id=error.request_id,
            )
            raise _last(both, notes, failed, is_last=False) from wrong

    def check_settings(self, settings: Settings) -> None:
        """Let each model refuse settings: any of them may be asked."""
        for model in self.models:
            check_settings(model, settings)

    def renew(self) -> None:
        """Renew each model that has `renew`."""
        for model in self.models:
            if isinstance(model, Renewable):
                model.renew()

    def known_keys(self) -> list[Secret]:
        """Return the keys of all models, so that a recording can hide them."""
        keys: list[Secret] = []
        for model in self.models:
            known: Callable[[], Iterable[Secret]] | None = getattr(model, "known_keys", None)
            keys += [] if known is None else known()
        return keys

    def __repr__(self) -> str:
        return f"FallbackModel([{', '.join(map(name_of, self.models))}])"


def _complete(model: Model, request: ModelRequest) -> ModelTurn:
    with OwnTime(model, timeout_of(model)).limits():
        return model.complete(request)


def _begun(model: Model, request: ModelRequest) -> Begun:
    """Ask for a turn, and read it until the first piece that readers see."""
    pieces = _pieces(model, request)
    held: list[Piece] = []
    for piece in pieces:
        held.append(piece)
        if is_visible(piece):
            break
    return held, pieces


def _pieces(model: Model, request: ModelRequest) -> Generator[Piece]:
    if not can_stream(model):
        yield from pieces_of(_complete(model, request))
        return
    own = OwnTime(model, streamed_timeout_of(model))
    with own.limits():
        given = iter(cast(StreamingModel, model).stream(request))
    try:
        yield from own.limited(given)
    finally:
        close = getattr(given, "close", None)
        if callable(close):
            close()


def _as_provider_error(model: Model, error: Exception) -> ProviderError:
    made = ProviderError(f"{name_of(model)}: {type(error).__name__}: {error}", retryable=True)
    made.__cause__ = error
    return made


def _last(error: ProviderError, notes: list[str], failed: list[ModelTurn], is_last: bool) -> ProviderError:
    """Return the error that ends a call, with all that is known of the others."""
    error.partial = with_usage_of(failed, error.partial)
    for note in notes:
        error.add_note(note)
    if is_last:  # each model had its retries
        error.retries_used_up = True
    return error


def _sum_of(timeouts: list[float | None]) -> float | None:
    known = [timeout for timeout in timeouts if timeout is not None]
    return sum(known) if len(known) == len(timeouts) else None


def _checked_models(models: Sequence[ModelLike]) -> tuple[Model, ...]:
    if isinstance(models, (str, bytes)) or not isinstance(models, Sequence):
        raise TypeError(f"FallbackModel: models must be a list of models, got {named_safely(models)}")
    made = tuple([_checked_model(model) for model in models])
    if len(made) < 2:
        raise ValueError(f"FallbackModel: models must hold at least two models, got {len(made)}")
    twice = next((model for number, model in enumerate(made) if any(model is other for other in made[:number])), None)
    if twice is not None:
        raise ValueError(
            f"FallbackModel: {name_of(twice)} stands in models twice; the second would fail like the first"
        )
    return made


def _checked_model(model: ModelLike) -> Model:
    if isinstance(model, str):
        try:
            return resolve(ModelName.parse(model))
        except ValueError as error:
            raise ValueError(f"FallbackModel: {error}") from None
    if isinstance(model, type) or not isinstance(model, Model):
        raise TypeError(
            f"FallbackModel: each model must be 'PROVIDER:MODEL' or have a complete() method, got {named_safely(model)}"
        )
    return model


def _checked_on(on: On | Unset) -> Callable[[ProviderError], bool]:
    if isinstance(on, Unset):
        return may_pass
    if isinstance(on, type):
        hint = f"; did you mean on=[{on.__name__}]?" if issubclass(on, ProviderError) else ""
        raise TypeError(
            f"FallbackModel: on must be a list of classes or a function, got {named_safely(cast(object, on))}{hint}"
        )
    if isinstance(on, Iterable) and not isinstance(on, (str, bytes)):
        given = list(cast("Iterable[object]", on))
        if not given:
            raise ValueError("FallbackModel: on holds no class of an error, so no other model would ever be asked")
        classes = tuple([each for each in given if isinstance(each, type) and issubclass(each, ProviderError)])
        if len(classes) < len(given):
            raise TypeError(f"FallbackModel: on must hold classes of ProviderError alone, got {named_safely(given)}")
        return lambda error: isinstance(error, classes)
    checked_plain("FallbackModel: on", on)
    function = cast("Callable[[ProviderError], object]", on)

    def goes_on(error: ProviderError) -> bool:
        said = function(error)
        if not isinstance(said, bool):
            raise WrongReturn(f"it must return True or False, got {found_instead(said)}")
        return said

    return goes_on
