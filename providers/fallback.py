"""`FallbackModel`: asks the next model when one fails."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from understudy.errors import ProviderError, ProviderTimeout, RateLimited, RunCancelled, RunTimedOut, in_words
from understudy.providers.catalogue import resolve
from understudy.providers.http.asked_model import as_provider_error, begun_by, spent_until, turn_of
from understudy.providers.http.elsewhere import asked_elsewhere_after, asked_once
from understudy.providers.http.streamed_call import shown
from understudy.providers.wire.endings import usage_of, with_partial, with_usage_of
from understudy.vocabulary.checks import UNSET, Unset, WrongReturn, checked_plain, found_instead, named_safely
from understudy.vocabulary.context.context_windows import context_window_of
from understudy.vocabulary.context.scope import account_of_turn, current_scope
from understudy.vocabulary.messages import ModelRequest, ModelTurn
from understudy.vocabulary.models import (
    Model,
    ModelLike,
    ModelName,
    Renewable,
    can_stream,
    check_settings,
    guards_itself,
    name_of,
    streamed_timeout_of,
    timeout_of,
)
from understudy.vocabulary.pieces import Piece, TurnEnd

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

    Each call begins with the first model. The next model is asked when the one before has used up its own retries. Only a key
    that the provider refuses for a while (`RateLimited`), or whose limits mean a wait of more than a second, is not waited for,
    as long as another model is left. In a stream no other model is asked once a reader was shown a piece of the answer: the
    error ends the call.

    The history goes to each model as far as its API takes it, as after any change of the model. In a run each model may take
    its own `model_timeout` (`streamed_timeout` in a stream), as far as the run and the agent's `model_timeout` leave it.

    Args:
        models: model strings and model objects, at least two.
        on: the errors after which the next model is asked: classes of `ProviderError`, or a function that takes the error and
            returns True or False. It is called once for each error, on the thread of the call; a client calls it too, before it
            waits for a key that is held back, with the `RateLimited` that would end the call. If the function fails, no other
            model is asked. Without `on` these are all errors that are `retryable`, every `RateLimited` and every
            `ProviderTimeout`; not a wrong key, a wrong request or an answer that cannot be read.

    Raises:
        TypeError: `models` is no list of models, or `on` is neither a list of classes nor a function.
        ValueError: `models` has fewer than two models, or one model twice; or `on` is an empty list.
    """

    stream: Callable[[ModelRequest], Generator[Piece]]
    """Yields the turn in pieces. Absent if no model streams; a model that does not is asked by `complete`."""
    idle_timeout: None
    """Absent if a model that streams does not itself end a stream that stands still."""

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
        """Return the turn of the first model that answers.

        Blocks. The turn's `usage` includes the tokens of the models that failed.

        Raises:
            ProviderError: a copy of the error of the last model that was asked. Its notes name the errors of the models before, and its
                `partial` has the tokens of all. If the function `on` failed, its error is the cause.
            RunCancelled, RunTimedOut: the run is over, or its time for the call; no other model is asked.
            ValueError, BudgetExceeded: raised by a model; no other model is asked.
        """
        model, turn, failed = self._first(lambda model: turn_of(model, request))
        turn = turn if turn.model else replace(turn, model=name_of(model))
        return turn if not failed else replace(turn, usage=turn.usage + usage_of(failed))

    def _stream(self, request: ModelRequest) -> Generator[Piece]:
        model, begun, failed = self._first(lambda model: begun_by(model, request))
        for piece in shown(begun, failed, is_paid=True):
            yield replace(piece, model=name_of(model)) if isinstance(piece, TurnEnd) and not piece.model else piece

    def _first(self, ask: Callable[[Model], T]) -> tuple[Model, T, list[ModelTurn]]:
        """Return the first model that does not fail, what `ask` returned for it, and the partial turns of the others."""
        failed: list[ModelTurn] = []
        notes: list[str] = []
        goes_on = asked_once(self._goes_on)
        account, scope = account_of_turn(), current_scope()
        for number, model in enumerate(self.models, 1):
            before = None if account is None else account.asks(name_of(model))
            is_last = number == len(self.models)
            try:
                with nullcontext() if is_last else asked_elsewhere_after(goes_on):
                    return model, ask(model), failed
            except (ProviderError, ConnectionError, TimeoutError) as caught:
                error = caught if isinstance(caught, ProviderError) else as_provider_error(model, caught)
                spent = spent_until(error, account, before)
                if spent is not None:
                    failed.append(spent)
                if is_last or not _takes_another(goes_on, error, model, notes, failed):
                    notes.append(f"it is the error of {name_of(model)}")
                    raise _last(error, notes, failed, is_last) from error.__cause__
                if account is not None and spent is not None:
                    account.pay_failed(spent.usage, before)
                notes.append(f"before it, {name_of(model)} failed: {type(error).__name__}: {error}")
                if scope is not None:  # the run may have ended while the model or the user's function worked
                    scope.check()
        raise AssertionError("the last model returns or raises")

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


def _takes_another(
    goes_on: Callable[[ProviderError], bool],
    error: ProviderError,
    model: Model,
    notes: list[str],
    failed: list[ModelTurn],
) -> bool:
    """Whether the next model is asked after an error of `model`.

    Raises:
        ProviderError: the user's function failed; the error names both failures, and has the tokens of all models.
    """
    try:
        return goes_on(error)
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


def _last(error: ProviderError, notes: list[str], failed: list[ModelTurn], is_last: bool) -> ProviderError:
    """Return a copy of the error that ends a call, with the notes and the tokens of the models before."""
    last = with_partial(error, with_usage_of(failed, error.partial))
    for note in notes:
        last.add_note(note)
    if is_last:  # each model had its retries
        last.retries_used_up = True
    return last


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
