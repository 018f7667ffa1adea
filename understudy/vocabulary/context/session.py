"""`SessionState`, the values that a run shares; and the views of a run for tools, callbacks and prompts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager
from math import isfinite
from typing import TYPE_CHECKING, Generic

from understudy.vocabulary.checks import checked_mapping
from understudy.vocabulary.messages import JsonObject, JsonValue

from .session_values import check_key

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .artifacts import Artifact
    from .scope import Scope
    from .transactions import SqlTransaction

    Deps = TypeVar("Deps", default=object)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")


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
        call_key: a text that no other call has, and that stays the same if the call is made again because its process died: a
            service that takes such keys does its work once.
        arguments: the model's arguments.
        scope: the deadline and the cancellation of the call.
        user_id: the user of the run; None if the caller gave none.
        conversation_id: the conversation of the run; None if the caller gave none.
        artifacts: full texts of results that were too long for the model, by id; empty in a worker process.
    """

    __slots__ = (
        "_report",
        "_transaction",
        "agent_id",
        "arguments",
        "artifacts",
        "call_id",
        "call_key",
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
        call_key: str = "",
        report: Callable[[str, float | None, float | None], object] | None = None,
        transaction: Callable[[], AbstractContextManager[SqlTransaction]] | None = None,
    ) -> None:
        self._report = report
        self._transaction = transaction
        self.deps = deps
        self.artifacts: Mapping[str, Artifact] = {} if artifacts is None else artifacts
        self.conversation_id = conversation_id
        self.session = session
        self.run_id = run_id
        self.agent_id = agent_id
        self.tool_name = tool_name
        self.call_id = call_id
        self.call_key = call_key
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

    def transaction(self) -> AbstractContextManager[SqlTransaction]:
        """Return a block with a transaction in the store's database, for a tool with `transactional=True`; once a call.

        The end of the block commits nothing. When the tool has returned, the runtime commits the transaction together with the
        result of the call. An exception that leaves the block undoes it; so do an error of the tool, the end of its time and the
        end of its run. The transaction begins with the first statement and may be open for `transaction_timeout` seconds.

        Raises:
            RuntimeError: the tool is not transactional, has had its transaction, or its run has no journal.
        """
        if self._transaction is None:
            raise RuntimeError(
                f"tool {self.tool_name!r} has no transaction here; expected a call by a run, of a tool made with "
                "@us.tool(transactional=True)"
            )
        return self._transaction()
