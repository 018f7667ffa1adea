"""`SessionState`, the values that a run shares; and the views of a run for tools, callbacks and prompts.

No list or dict of a session is changed in place: who hands one to code of a user's hands out a copy, and compares it later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from math import isfinite
from typing import TYPE_CHECKING, Generic

from understudy.vocabulary.checks import checked_mapping
from understudy.vocabulary.messages import JsonObject, JsonValue

from .session_values import SessionValues, copy_of, is_same

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .artifacts import Artifact
    from .scope import Scope

    Deps = TypeVar("Deps", default=object)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")

RESERVED = "__"
TEMPORARY = "temp:"


class SessionState(MutableMapping[str, JsonValue]):
    """Values that a run and its tools share, as JSON; not the history of messages.

    Safe to use from many threads: each operation is atomic, several together are not. A run works on a copy; the caller's
    object gets the changed keys when the run pauses or ends. The system's store keeps them too: keys that start with `app:` for
    all runs of the system's name, those with `user:` for all of the run's user, and others for the run's conversation, if it
    has one. Keys that start with `temp:` last as long as the run, over its pauses, and are never copied to the caller. Keys
    that start with `__` are the runtime's own and refused.
    """

    __slots__ = ("_lock", "_values")

    def __init__(self, values: Mapping[str, JsonValue] | None = None) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, JsonValue] = {}
        if values is not None:
            self.update(checked_mapping("session", values))

    def __getitem__(self, key: str) -> JsonValue:
        return self._values[key]

    def __setitem__(self, key: str, value: JsonValue) -> None:
        check_key(key)
        with self._lock:
            self._values[key] = value

    def __delitem__(self, key: str) -> None:
        check_key(key)
        with self._lock:
            del self._values[key]

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.snapshot(),)  # each copy, shallow or deep, has its own lock and values

    def __repr__(self) -> str:
        return f"SessionState({sorted(self)})"

    def snapshot(self) -> dict[str, JsonValue]:
        """Return a shallow copy of the values."""
        with self._lock:
            return dict(self._values)

    def apply(self, changes: Mapping[str, JsonValue], removed: frozenset[str]) -> None:
        """Set and remove several keys in one step."""
        with self._lock:
            self._values.update(changes)
            for key in removed:
                self._values.pop(key, None)


def lasting(values: Mapping[str, JsonValue]) -> SessionValues:
    """Return copies of the values that leave a run: all except `temp:` keys."""
    if isinstance(values, SessionOverlay) and values.is_empty:  # as in most runs
        return SessionValues()
    # By key: `items()` of a mapping that is no dict makes three objects.
    return SessionValues({key: copy_of(values[key]) for key in values if not _is_temporary(key)})


def _is_temporary(key: str) -> bool:
    return key.startswith(TEMPORARY)


_NOTHING: frozenset[str] = frozenset()


class SessionOverlay(MutableMapping[str, JsonValue]):
    """Changes to a session, for code of the runtime's: reads fall through to the view below, writes stay here."""

    __slots__ = ("_base", "changes", "removed")

    def __init__(self, base: Mapping[str, JsonValue]) -> None:
        self._base = base
        self.changes: dict[str, JsonValue] = {}
        self.removed = _NOTHING

    def __getitem__(self, key: str) -> JsonValue:
        if key in self.changes:
            return self.changes[key]
        if key in self.removed:
            raise KeyError(key)
        return self._base[key]

    def __setitem__(self, key: str, value: JsonValue) -> None:
        check_key(key)
        self.removed -= {key}
        self.changes[key] = value

    def __delitem__(self, key: str) -> None:
        check_key(key)
        if key not in self:
            raise KeyError(key)
        self.changes.pop(key, None)
        self.removed |= {key}

    def __contains__(self, key: object) -> bool:
        return key in self.changes or (key not in self.removed and key in self._base)

    def __iter__(self) -> Iterator[str]:
        # A list, so that a tool may change the session during an iteration.
        return iter([k for k in self._base if k not in self.removed and k not in self.changes] + list(self.changes))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self)})"

    @property
    def is_empty(self) -> bool:
        """Whether it is known, without a look at each key, to show none."""
        return not self.changes and self._base == {}

    @property
    def is_changed(self) -> bool:
        """Whether a key was set or removed."""
        return bool(self.changes or self.removed)

    def lay_under(self, values: Mapping[str, JsonValue]) -> None:
        """Show `values` where neither the view below nor a change has a key."""
        if values:
            self._base = {**values, **self._base}

    def shows_below(self, key: str, value: JsonValue) -> bool:
        """Whether the view below, without the changes, has this value, or no value for the key."""
        return key not in self._base or is_same(self._base[key], value)

    def commit(self) -> None:
        """Write the changes to the underlying view, if it can be written to."""
        if not self.changes and not self.removed:
            return
        base = self._base
        if isinstance(base, MutableMapping):
            base.update(self.changes)
            for key in self.removed:
                base.pop(key, None)

    def lasting_changes(self) -> tuple[SessionValues, frozenset[str]]:
        """Return the changes that leave the run: copies of the values set, and keys removed."""
        return lasting(self.changes), frozenset([key for key in self.removed if not _is_temporary(key)])

    def take_temporary(self, earlier: SessionOverlay, hidden: Container[str] = ()) -> None:
        """Restore the `temp:` values that the same run had before its pause, except the keys in `hidden`."""
        kept = {key: value for key, value in earlier.changes.items() if _is_temporary(key) and key not in hidden}
        self.changes.update(kept)
        self.removed |= {key for key in earlier.removed if _is_temporary(key) and key not in hidden}


class CallSession(SessionOverlay):
    """A view of a session for one call of a user's code, whose writes count once that call's result is accepted.

    A list or dict is copied at its first read, so that a change in place is a change of this call: `settle` finds it.
    """

    __slots__ = ("_read",)

    def __init__(self, base: Mapping[str, JsonValue]) -> None:
        super().__init__(base)
        self._read: dict[str, tuple[JsonValue, JsonValue]] = {}
        """Key -> the value below, and the copy that the call has."""

    def __getitem__(self, key: str) -> JsonValue:
        read = self._read.get(key)
        if read is not None:
            return read[1]
        value = super().__getitem__(key)
        if type(value) not in (list, dict) or key in self.changes:
            return value
        return self._read.setdefault(key, (value, copy_of(value)))[1]  # one for all threads of the call

    def __setitem__(self, key: str, value: JsonValue) -> None:
        super().__setitem__(key, value)
        self._read.pop(key, None)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._read.pop(key, None)

    def settle(self) -> bool:
        """Note changes in place, and copy what the call set and may still hold. Call it when the call is over.

        Returns:
            Whether there is anything to commit.
        """
        read, self._read = self._read, {}
        for key, value in list(self.changes.items()):
            self.changes[key] = copy_of(value)
        for key, (before, now) in read.items():
            if not is_same(before, now):
                self.changes[key] = copy_of(now)
        return self.is_changed


def check_key(key: str) -> None:
    """Raise for a key that users may not set."""
    if not isinstance(key, str):
        raise TypeError(f"session keys are strings, got {key!r}")
    if key.startswith(RESERVED):
        raise ValueError(f"session key {key!r}: keys that start with '__' belong to the runtime")


class RunContext:
    """The view of a run for callbacks, criteria and prompts: its id, agent, input, session, dependencies and counts.

    Attributes:
        session: the run's values. What a callback writes is kept when it returns, and dropped when it raises.
        turns: model calls so far.
        iterations: rounds of tool calls so far.
        continues: how often the model was told to go on, because its text met no criterion.
        answer_tool: name of the tool with which the model gives a typed answer; empty where it gives it as text.
    """

    __slots__ = (
        "agent_id",
        "answer_tool",
        "continues",
        "conversation_id",
        "deps",
        "input",
        "iterations",
        "parent_run_id",
        "run_id",
        "scope",
        "session",
        "turns",
        "user_id",
    )

    def __init__(
        self,
        *,
        run_id: str,
        agent_id: str,
        input: str,
        session: MutableMapping[str, JsonValue],
        deps: object,
        scope: Scope,
        user_id: str | None = None,
        conversation_id: str | None = None,
        turns: int = 0,
        iterations: int = 0,
        continues: int = 0,
        answer_tool: str = "",
        parent_run_id: str | None = None,
    ) -> None:
        self.answer_tool = answer_tool
        self.parent_run_id = parent_run_id
        self.turns = turns
        self.iterations = iterations
        self.continues = continues
        self.run_id = run_id
        self.agent_id = agent_id
        self.conversation_id = conversation_id
        self.input = input
        self.session = session
        self.deps = deps
        self.scope = scope
        self.user_id = user_id


class ToolContext(Generic[Deps]):
    """The view of a run for tools. A parameter annotated `ToolContext[Deps]` is filled in; the model does not see it.

    Attributes:
        deps: what the caller passed as `deps=`; never saved.
        session: the run's values. Writes are kept when the call succeeds and dropped when it fails or times out.
        run_id: the run this call is part of.
        agent_id: the agent that runs.
        tool_name: the tool's name.
        call_id: this call's id.
        arguments: the model's arguments.
        scope: the deadline and the cancellation of the call.
        user_id: the user of the run; None if the caller gave none.
        conversation_id: the conversation of the run; None if the caller gave none.
        artifacts: full texts of results that were too long for the model, by id; empty in a worker process.
    """

    __slots__ = (
        "_report",
        "agent_id",
        "arguments",
        "artifacts",
        "call_id",
        "conversation_id",
        "deps",
        "run_id",
        "scope",
        "session",
        "tool_name",
        "user_id",
    )

    def __init__(
        self,
        *,
        deps: Deps,
        session: MutableMapping[str, JsonValue],
        run_id: str,
        agent_id: str,
        tool_name: str,
        call_id: str,
        arguments: JsonObject,
        scope: Scope,
        user_id: str | None = None,
        conversation_id: str | None = None,
        artifacts: Mapping[str, Artifact] | None = None,
        report: Callable[[str, float | None, float | None], object] | None = None,
    ) -> None:
        self._report = report
        self.deps = deps
        self.artifacts: Mapping[str, Artifact] = {} if artifacts is None else artifacts
        self.conversation_id = conversation_id
        self.session = session
        self.run_id = run_id
        self.agent_id = agent_id
        self.tool_name = tool_name
        self.call_id = call_id
        self.arguments = arguments
        self.scope = scope
        self.user_id = user_id

    def progress(self, text: str = "", done: float | None = None, total: float | None = None) -> None:
        """Report the progress of this call as a `ToolProgress` event. Works from any thread; does not wait.

        It may be called any number of times: after a hundred reports, fewer and fewer are published. None is published
        after the call's end.

        Args:
            text: what is being done; 200 characters of it are told.
            done: how much is done, in any unit.
            total: how much there is to do.

        Raises:
            TypeError: the text is no text, or a number is none.
            ValueError: a number is not finite.
        """
        if not isinstance(text, str):
            raise TypeError(f"progress: text must be a string, got {text!r}")
        for name, number in (("done", done), ("total", total)):
            if number is None:
                continue
            if not isinstance(number, (int, float)) or isinstance(number, bool):
                raise TypeError(f"progress: {name} must be a number or None, got {number!r}")
            if not isfinite(number):
                raise ValueError(f"progress: {name} must be finite, got {number!r}")
        if self._report is not None:
            self._report(text, done, total)
