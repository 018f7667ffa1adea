"""A run as it was accepted, as text: what begins it anew if its process dies before its first step. Loads pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter

from understudy.orchestration.agent.saved_text import read_version, written
from understudy.orchestration.definitions.port import RunOptions
from understudy.vocabulary.checks import not_json
from understudy.vocabulary.context.budget import Budget
from understudy.vocabulary.messages import JsonValue, Message, Part

FORMAT = 1


@dataclass(slots=True, kw_only=True)
class AcceptedRun:
    """What the caller said; `deps` are left out, as in every saved run."""

    format: int = FORMAT
    input: str | tuple[Part, ...]
    session: Mapping[str, JsonValue] | None = None
    history: tuple[Message, ...] | None = None
    parameters: Mapping[str, JsonValue] | None = None
    budget: Budget | None = None
    timeout: float | None = None
    user_id: str | None = None
    conversation_id: str | None = None
    of_map: bool = False
    stream: bool = False

    def options(self, deps: object) -> RunOptions:
        """Return the options with which the run begins anew; its time begins anew too."""
        return RunOptions(
            session=self.session,
            history=self.history,
            parameters=self.parameters,
            budget=self.budget,
            timeout=self.timeout,
            user_id=self.user_id,
            conversation_id=self.conversation_id,
            deps=deps,
            of_map=self.of_map,
            stream=self.stream,
        )


def accepted_text(input: str | tuple[Part, ...], options: RunOptions, session: Mapping[str, JsonValue]) -> str:
    """Return a run that is about to begin as text.

    Raises:
        TypeError: JSON cannot carry a value of the session.
        ValueError: JSON cannot carry a text exactly.
    """
    strange = not_json(session, "session")
    if strange:
        raise TypeError(f"{strange}, which JSON cannot carry")
    accepted = AcceptedRun(
        input=input,
        session=session or None,
        history=None if options.history is None else tuple(options.history),
        parameters=options.parameters,
        budget=options.budget,
        timeout=options.timeout,
        user_id=options.user_id,
        conversation_id=options.conversation_id,
        of_map=options.of_map,
        stream=options.stream,
    )
    return written(_adapter(), accepted)


def accepted_of(text: str) -> AcceptedRun:
    """Read what `accepted_text` wrote.

    Raises:
        ValueError: the text is something else, or of a format that this version does not know.
    """
    return read_version(_adapter(), text, "beginning of a run", FORMAT)


def parts_text(parts: tuple[Part, ...]) -> str:
    """Return an input of parts as text, the same for equal parts."""
    return written(_parts(), parts)


@cache
def _parts() -> TypeAdapter[tuple[Part, ...]]:
    return TypeAdapter(tuple[Part, ...])


@cache
def _adapter() -> TypeAdapter[AcceptedRun]:
    return TypeAdapter(AcceptedRun)
