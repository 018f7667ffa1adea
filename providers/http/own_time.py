"""The time that one of several models may take of a call in a run: if it passes, the next one is asked."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import cast

from understudy.errors import ProviderTimeout, RunTimedOut
from understudy.vocabulary.context.scope import current_scope, enter_scope, leave_scope
from understudy.vocabulary.models import Model, name_of
from understudy.vocabulary.pieces import Piece

_END = object()


class OwnTime:
    """What a model may take of the present call, from now on; for one thread at a time.

    Args:
        model: the model, for the error.
        seconds: the model's time; None for all the time of the run. Outside of runs a client keeps its limit itself.
    """

    def __init__(self, model: Model, seconds: float | None) -> None:
        scope = current_scope()
        self._model = model
        self._seconds = seconds
        self._whole = scope
        self._part = None if scope is None or seconds is None else scope.part(seconds)

    @contextmanager
    def limits(self) -> Generator[None]:
        """Limit what is done inside; the model's time is the model's failure, and not the run's.

        Raises:
            ProviderTimeout: the model's time passed, and the run has some left.
        """
        part, whole = self._part, self._whole
        if part is None or whole is None:
            yield
            return
        token = enter_scope(part)
        try:
            yield
        except RunTimedOut as error:
            if whole.is_over or part.deadline == whole.deadline:
                raise
            raise ProviderTimeout(
                f"{name_of(self._model)} did not finish its answer within {self._seconds:g} s (model_timeout)",
                retryable=True,
            ) from error
        finally:
            leave_scope(token)

    def limited(self, pieces: Iterator[Piece]) -> Generator[Piece]:
        """Yield the pieces, and limit the waits for them; raises as `limits` does.

        The code that gets a piece runs outside of the limit, in a scope of its own.
        """
        if self._part is None:
            yield from pieces
            return
        while True:
            with self.limits():
                piece = next(pieces, _END)  # None may be what a wrong stream yields
            if piece is _END:
                return
            yield cast(Piece, piece)
