"""Short words for tests of tapes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from understudy.errors import UnderstudyError
from understudy.providers import Recorder, ScriptedModel
from understudy.providers.tape.redaction import RedactLike
from understudy.vocabulary.messages import ModelRequest, ModelTurn, user_message
from understudy.vocabulary.models import Model

Answer = ModelTurn | Exception


def asking(text: str) -> ModelRequest:
    """Return the request of a user who says `text`."""
    return ModelRequest([user_message(text)])


def answer_of(model: Model, request: ModelRequest) -> Answer:
    """Return what a model returns or raises."""
    try:
        return model.complete(request)
    except (UnderstudyError, ValueError, LookupError, OSError) as error:
        return error


def taped(path: Path, *calls: tuple[ModelRequest, Answer], redact: RedactLike = ()) -> Path:
    """Record calls, and return the tape."""
    with Recorder(path, redact=redact) as recorder:
        model = recorder.record(ScriptedModel([answer for _, answer in calls]))
        for request, _ in calls:
            answer_of(model, request)
    assert recorder.calls == len(calls)
    return path


def lines_of(path: Path) -> list[dict[str, object]]:
    """Return the calls on a tape as they are written."""
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(header) == {"tape": "understudy", "format": 1}
    return [cast("dict[str, object]", json.loads(line)) for line in lines]


def texts_of(turns: Iterable[Answer]) -> list[str]:
    """Return the texts of turns, and the words of errors."""
    return [turn.text if isinstance(turn, ModelTurn) else str(turn) for turn in turns]
