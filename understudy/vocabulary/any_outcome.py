"""`AnyOutcome`: the attributes that all outcomes share, for modules that must not import the outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from .citations import Citation
from .messages import JsonValue, Message, Usage


class AnyOutcome(Protocol):
    """Any outcome of a run; use `match` to find which. `Outcome` describes the attributes."""

    @property
    def run_id(self) -> str: ...

    @property
    def agent_id(self) -> str: ...

    @property
    def status(self) -> str:
        """`complete`, `needs_input`, `needs_approval` or `incomplete`."""
        ...

    @property
    def completion_reason(self) -> str:
        """Why the run ended or stopped here, in words."""
        ...

    @property
    def iterations(self) -> int: ...

    @property
    def turns(self) -> int: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def cost_usd(self) -> float | None: ...

    @property
    def messages(self) -> tuple[Message, ...]: ...

    @property
    def model(self) -> str: ...

    @property
    def response_id(self) -> str: ...

    @property
    def request_id(self) -> str: ...

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources of the last message."""
        ...

    @property
    def session(self) -> Mapping[str, JsonValue]: ...

    @property
    def text(self) -> str:
        """Raises `UnfinishedRun` if the run did not come to its end."""
        ...

    @property
    def output(self) -> object:
        """Raises `UnfinishedRun` if the run did not come to its end."""
        ...

    @property
    def children(self) -> tuple[AnyOutcome | BaseException, ...]: ...

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the outcome as plain data for JSON."""
        ...
