"""`Recorder`: wraps models, and writes their requests and answers to a tape."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable, Sequence
from logging import ERROR, WARNING
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from understudy.diagnostics import emit
from understudy.providers.catalogue import resolve
from understudy.providers.http.credentials import Secret
from understudy.providers.http.forks import renew_after_fork
from understudy.vocabulary.checks import checked_path
from understudy.vocabulary.messages import ModelRequest, ModelTurn
from understudy.vocabulary.models import Model, ModelLike, ModelName, name_of

from . import file as tape
from .answers import written
from .cuts import Cut
from .recorded_model import RecordedModel
from .redaction import RedactLike, Redactor
from .requests import asked

_forks = 0
"""Number of forks of this process and its ancestors."""


@runtime_checkable
class KnowsKeys(Protocol):
    """A model that can tell which keys it has."""

    def known_keys(self) -> Iterable[Secret]: ...


class Recorder:
    """Writes the requests and answers of models to a tape, from which `Replay` answers.

    Safe with any number of models, agents, threads and forked children. Each call is written when it ends, as one line in a
    single write at the end of the file; only the file's owner may read it. Secrets are hidden before the write: keys in the
    environment and of recorded models, any text with the shape of a key or under a key's name, and everything that `redact`
    names. In a replay tools are called with the arguments on the tape.

    A call that its run ended (cancelled, timed out) is not recorded, because the model did not answer. Closing removes an
    empty tape, unless the process was forked meanwhile; it warns then, by `warnings` if no model was given to `record`, else in
    the log. If a write fails (a full disk, a failing `redact` function),
    recording stops and runs go on; `problem` has the reason, and `close` raises it.

    Args:
        path: the tape; an existing file is never overwritten.
        redact: more to hide: strings, `Secret`s, compiled patterns, and functions that get each text and return it without
            secrets. A replay needs the same rules.

    Attributes:
        calls: the number of calls recorded by this process.
        problem: the reason why recording stopped, or None.

    Raises:
        FileExistsError: the file exists.
        OSError: the file cannot be created.
        TypeError, ValueError: `redact` has an entry that is not a rule.
    """

    def __init__(self, path: str | os.PathLike[str], *, redact: RedactLike = ()) -> None:
        self.path = Path(checked_path("Recorder: path", path))
        self.calls = 0
        self.problem: Exception | None = None
        self._has_models = False
        self._keyed: list[KnowsKeys] = []
        self._redactor = Redactor(redact, self._keys)
        self._forks = _forks
        self.start_afresh()
        # `x` refuses an existing file. Without a buffer each line is one write, and a killed process loses none.
        self._file = open(self.path, "xb", buffering=0, opener=_open_to_append)  # noqa: SIM115 (closed by close)
        self._write(tape.header())
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._lock = threading.RLock()
        """Guards the file, the count and the problem; recording stops while a line is written, so one thread may take it twice."""

    def record(self, model: ModelLike | ModelName) -> Model:
        """Return a model that passes calls on to `model`, and records them.

        Raises:
            TypeError, ValueError: `model` is neither a model nor a model string.
        """
        self._has_models = True  # also if it is refused now: then the error tells enough
        name = ModelName.parse(model) if isinstance(model, str) else model
        made = resolve(name) if isinstance(name, ModelName) else name
        if not isinstance(made, Model) or isinstance(made, type):
            raise TypeError(f"a recorder takes 'PROVIDER:MODEL' or what has a complete() method, got {model!r}")
        if isinstance(made, KnowsKeys) and not any(known is made for known in self._keyed):
            self._keyed.append(made)
        return RecordedModel(made, name_of(name), self._keep)

    def _keep(self, request: ModelRequest, model: str, answer: ModelTurn | Exception, cuts: Sequence[Cut] = ()) -> None:
        """Record one call. It never fails, so that the run gets its answer."""
        try:
            clean = written(answer, self._redactor, cuts)
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
                self._stop(problem)  # before another thread appends to this incomplete line

    def close(self) -> None:
        """Close the tape; recorded models still work, without a recording. A second call does nothing.

        Raises:
            Exception: the problem that stopped recording, if any.
        """
        self._close(warns=True)

    def _close(self, *, warns: bool) -> None:
        with self._lock:
            if self._file.closed:
                return
            self._file.close()
            empty = self.calls == 0 and self._forks == _forks  # a forked child may still write
        if self.problem is not None:
            raise self.problem
        if empty:
            self.path.unlink(missing_ok=True)
            if warns:
                self._warn_of_nothing()

    def _warn_of_nothing(self) -> None:
        told = f"nothing was recorded to {self.path}, and the file is removed: "
        if self._has_models:
            emit(WARNING, "nothing_recorded", {}, "%sno recorded model was asked", told)
            return
        # A mistake of the program, which must be seen where no log is set up. The stack: here, _close, close or __exit__, caller.
        instead = "no model was given to it, as in agent.override(model=recorder.record(agent.model))"
        warnings.warn(f"{told}{instead}", stacklevel=4)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._close(warns=error is None)  # an error of the block tells why nothing was recorded
        except Exception:
            if error is None:  # the block's own error is more important, and the problem was logged
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
        # Only the type: the text may quote a secret.
        emit(ERROR, "recording_stopped", {}, "recording to %s stopped: %s", self.path, type(problem).__name__)

    def _keys(self) -> list[Secret]:
        return [key for model in tuple(self._keyed) for key in model.known_keys()]


def _open_to_append(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND, 0o600)


def _note_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_note_fork, after_in_child=_note_fork)
