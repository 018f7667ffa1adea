"""`Recorder`: models that answer as ever, and a tape of what they were asked and what they answered."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from understudy.errors import RunCancelled, RunTimedOut
from understudy.providers.catalogue import resolve
from understudy.providers.http.credentials import Secret
from understudy.providers.http.forks import renew_after_fork
from understudy.vocabulary.checks import checked_path
from understudy.vocabulary.messages import ModelRequest, ModelTurn
from understudy.vocabulary.models import Model, ModelLike, ModelName, Renewable, name_of, timeout_of

from . import file as tape
from .answers import written
from .redaction import RedactLike, Redactor
from .requests import asked

log = logging.getLogger("understudy")

_forks = 0
"""How often this process, or one it was forked from, has been forked."""


@runtime_checkable
class KnowsKeys(Protocol):
    """A model that can say which keys it has."""

    def known_keys(self) -> Iterable[Secret]: ...


class Recorder:
    """Writes what models are asked and what they answer to a tape, which `Replay` answers from.

    Safe with any number of models, agents, threads and forked children. One line is written for each call when it ends, by
    a single write at the end of the file, which only its owner may read. Secrets are hidden before anything is written: keys
    that the environment holds or a recorded model has, whatever has the shape of a key or stands under the name of one,
    and what `redact` names. What a tool is called with in a replay is what stands on the tape.

    A call that its run ended (cancelled, timed out) is not recorded, for the model did not answer. A tape on which nothing
    was recorded goes when it is closed, unless a process was forked meanwhile. When the tape cannot be
    written (a full disk, a `redact` function that fails), recording stops and runs go on; `problem` says why, and `close`
    raises it.

    Args:
        path: the tape; a file that is there already is left alone.
        redact: what else to hide: strings, `Secret`s, compiled patterns, and functions that get each text and return it
            clean. A replay needs the same.

    Attributes:
        calls: how many calls were recorded by this process.
        problem: why recording stopped, or None.

    Raises:
        FileExistsError: the file is there.
        OSError: it cannot be made.
        TypeError, ValueError: `redact` holds what is no rule.
    """

    def __init__(self, path: str | os.PathLike[str], *, redact: RedactLike = ()) -> None:
        self.path = Path(checked_path("Recorder: path", path))
        self.calls = 0
        self.problem: Exception | None = None
        self._keyed: list[KnowsKeys] = []
        self._redactor = Redactor(redact, self._keys)
        self._forks = _forks
        self.start_afresh()
        # `x` refuses a file that is there. Without a buffer a line is one write, and a killed process loses none.
        self._file = open(self.path, "xb", buffering=0, opener=_open_to_append)  # noqa: SIM115 (closed by close)
        self._write(tape.header())
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._lock = threading.RLock()
        """Guards the file, the count and the problem; recording stops while a line is written, so one thread may take it twice."""

    def record(self, model: ModelLike | ModelName) -> Model:
        """Return a model that answers as `model` does, and is recorded.

        Raises:
            TypeError, ValueError: it is neither a model nor a model string.
        """
        name = ModelName.parse(model) if isinstance(model, str) else model
        made = resolve(name) if isinstance(name, ModelName) else name
        if not isinstance(made, Model) or isinstance(made, type):
            raise TypeError(f"a recorder takes 'PROVIDER:MODEL' or what has a complete() method, got {model!r}")
        if isinstance(made, KnowsKeys) and not any(known is made for known in self._keyed):
            self._keyed.append(made)
        return RecordedModel(made, name_of(name), self._keep)

    def _keep(self, request: ModelRequest, model: str, answer: ModelTurn | Exception) -> None:
        """Write down one call; never fails, for the answer is there."""
        try:
            clean = written(answer, self._redactor)
            line = tape.written(asked(request, self._redactor), self._redactor.text(model), clean)
        except Exception as problem:  # noqa: BLE001 (whatever a user's redact function raises)
            return self._stop(problem)
        with self._lock:
            if self._file.closed or self.problem is not None:
                return
            try:
                self._write(line)
                self.calls += 1
            except OSError as problem:
                self._stop(problem)  # before another thread writes on where this line broke off

    def close(self) -> None:
        """Close the tape; models that are still recorded go on without it. A second call does nothing.

        Raises:
            Exception: what recording stopped for, if it did.
        """
        with self._lock:
            if self._file.closed:
                return
            self._file.close()
            empty = self.calls == 0 and self._forks == _forks  # a forked child may still write
        if self.problem is not None:
            raise self.problem
        if empty:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception:
            if error is None:  # else what ended the block is worth more, and the problem was logged
                raise

    def __repr__(self) -> str:
        return f"Recorder({str(self.path)!r})"

    def _write(self, data: bytes) -> None:
        while data:
            data = data[self._file.write(data) or 0 :]

    def _stop(self, problem: Exception) -> None:
        with self._lock:
            if self.problem is not None:
                return
            self.problem = problem
        # Its text may quote what was to be hidden.
        log.error("recording to %s stopped: %s", self.path, type(problem).__name__)

    def _keys(self) -> list[Secret]:
        return [key for model in tuple(self._keyed) for key in model.known_keys()]


class RecordedModel:
    """A model whose calls are kept on a tape.

    Args:
        name: what people call it.
        keep: writes down a request, the name and the answer.
    """

    def __init__(
        self, model: Model, name: str, keep: Callable[[ModelRequest, str, ModelTurn | Exception], None]
    ) -> None:
        self._model = model
        self._name = name
        self._keep = keep
        # By these its price and its ways are looked up.
        self.provider, _, self.model = name.partition(":")
        self.model_timeout = timeout_of(model)

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return or raise what the model does."""
        try:
            turn = self._model.complete(request)
        except (RunCancelled, RunTimedOut):
            raise
        except Exception as error:
            self._keep(request, self._name, error)
            raise
        self._keep(request, self._name, turn)
        return turn

    def renew(self) -> None:
        """Renew the model, if it can be."""
        if isinstance(self._model, Renewable):
            self._model.renew()

    def __repr__(self) -> str:
        return f"RecordedModel({self._model!r})"


def _open_to_append(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND, 0o600)


def _note_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_note_fork, after_in_child=_note_fork)
