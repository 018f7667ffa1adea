"""`SequentialAgent` and `ParallelAgent`: runners made of runners, as values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict, cast

from understudy.orchestration.group.spec import GroupSpec, Merge, OnError, PassOutput
from understudy.vocabulary.other_names import OF_PARALLELS, OF_SEQUENCES, explains_arguments

from .agent_rules import checked_watchers
from .checks import checked_count, checked_description, checked_id
from .runner import Runner

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from understudy.vocabulary.runs.callbacks import AgentCallback


class Group(Runner[object]):
    """The base of sequences and parallel groups."""

    __slots__ = ("_group_spec", "callbacks", "children")

    children: tuple[Runner[object], ...]
    """In order; one runner may have several positions."""
    callbacks: tuple[AgentCallback, ...]
    """In order."""

    def _take(
        self,
        id: str,
        children: Iterable[Runner[object]],
        description: str,
        callbacks: Iterable[AgentCallback],
        name: str,
    ) -> None:
        checked_id(id, "group")
        set_ = object.__setattr__
        set_(self, "id", id)
        set_(self, "description", checked_description(id, description, "group"))
        set_(self, "children", _checked_children(id, children, name))
        set_(self, "callbacks", checked_watchers(id, callbacks, "group"))
        set_(self, "_group_spec", None)

    @property
    def inner_runners(self) -> tuple[Runner[object], ...]:
        return self.children

    @property
    def run_spec(self) -> GroupSpec:
        """The group as data for its machine; builds the schemas of all tools inside of it at the first use."""
        if self._group_spec is None:
            object.__setattr__(self, "_group_spec", self._make_spec(tuple([c.fingerprint() for c in self.children])))
        return cast(GroupSpec, self._group_spec)

    @abstractmethod
    def _make_spec(self, children: tuple[str, ...]) -> GroupSpec:
        """Return the spec of a group whose children have these fingerprints."""

    def fingerprint(self) -> str:
        return self.run_spec.fingerprint()

    _group_spec: GroupSpec | None


class SequenceChanges(TypedDict, total=False):
    """What `SequentialAgent.replace` can change, besides the id."""

    steps: Iterable[Runner[object]]
    pass_output: PassOutput
    description: str
    callbacks: Iterable[AgentCallback]


@explains_arguments("SequentialAgent", OF_SEQUENCES)
class SequentialAgent(Group):
    """Runners that run one after another; the last one's answer is the answer.

    They share the session: what one changes, the next one sees. The first failure ends the run with its error. A pause
    holds it, and `resume` goes on inside of the step that paused, and then with the steps after it.

    Args:
        id: names it in logs, addresses, specs and errors.
        steps: agents, groups or other runners, at least one.
        pass_output: whether a step is told the text of the one before it, or, with `"combined"`, all texts of a parallel
            group as a JSON array. False tells each what the user said.
        description: what it is for.
        callbacks: told how a run ends, by `on_finish` and `on_error`; see docs/callbacks.md.

    Raises:
        ValueError: there is no step, or `pass_output` is unknown.
        TypeError: a step is no runner.
    """

    __slots__ = ("pass_output",)

    pass_output: PassOutput

    def __init__(
        self,
        id: str,
        steps: Iterable[Runner[object]],
        *,
        pass_output: PassOutput = False,
        description: str = "",
        callbacks: Iterable[AgentCallback] = (),
    ) -> None:
        self._take(id, steps, description, callbacks, "steps")
        if pass_output not in (False, True, "combined"):
            raise ValueError(f"group {id!r}: pass_output must be False, True or 'combined', got {pass_output!r}")
        object.__setattr__(self, "pass_output", pass_output)

    @property
    def steps(self) -> tuple[Runner[object], ...]:
        """The runners, in order."""
        return self.children

    def replace(self, *, id: str | None = None, **changes: Unpack[SequenceChanges]) -> SequentialAgent:
        """Return a copy with some arguments changed."""
        kept: SequenceChanges = {
            "steps": self.children,
            "pass_output": self.pass_output,
            "description": self.description,
            "callbacks": self.callbacks,
        }
        return SequentialAgent(self.id if id is None else id, **(kept | changes))

    def _make_spec(self, children: tuple[str, ...]) -> GroupSpec:
        return GroupSpec(runner_id=self.id, children=children, pass_output=self.pass_output)


class ParallelChanges(TypedDict, total=False):
    """What `ParallelAgent.replace` can change, besides the id."""

    children: Iterable[Runner[object]]
    merge: Merge
    max_parallel: int | None
    on_error: OnError
    description: str
    callbacks: Iterable[AgentCallback]


@explains_arguments("ParallelAgent", OF_PARALLELS)
class ParallelAgent(Group):
    """Runners that run at the same time on the same input.

    Each works on a copy of the session; their changes are merged when the run ends, in the order of the children.
    When some pause, the others finish; the run pauses when nothing runs, and `resume` goes on with the paused ones alone.

    Args:
        id: names it in logs, addresses, specs and errors.
        children: agents, groups or other runners, at least one; one runner may stand there twice.
        merge: `"collect_all"`: the outcome's `.combined_text` has all texts as a JSON array, in the order of the children,
            and `.text` is the last one's. `"first"`: the first child to succeed is the answer, and the others are cancelled.
        max_parallel: how many children run at once; None for all.
        on_error: what a child's failure does when all are collected. `"fail"`: the others are cancelled, and the run fails
            with its error. `"collect"`: the others go on, and the place of its text is null.
        description: what it is for.
        callbacks: told how a run ends, by `on_finish` and `on_error`; see docs/callbacks.md.

    Raises:
        ValueError: there is no child, or an option is unknown.
        TypeError: a child is no runner.
    """

    __slots__ = ("max_parallel", "merge", "on_error")

    merge: Merge
    max_parallel: int | None
    on_error: OnError

    def __init__(
        self,
        id: str,
        children: Iterable[Runner[object]],
        *,
        merge: Merge = "collect_all",
        max_parallel: int | None = None,
        on_error: OnError = "fail",
        description: str = "",
        callbacks: Iterable[AgentCallback] = (),
    ) -> None:
        self._take(id, children, description, callbacks, "children")
        if merge not in ("collect_all", "first"):
            raise ValueError(f"group {id!r}: merge must be 'collect_all' or 'first', got {merge!r}")
        if on_error not in ("fail", "collect"):
            raise ValueError(f"group {id!r}: on_error must be 'fail' or 'collect', got {on_error!r}")
        if max_parallel is not None:
            checked_count(id, "max_parallel", max_parallel, 1, "group")
        object.__setattr__(self, "merge", merge)
        object.__setattr__(self, "max_parallel", max_parallel)
        object.__setattr__(self, "on_error", on_error)

    def replace(self, *, id: str | None = None, **changes: Unpack[ParallelChanges]) -> ParallelAgent:
        """Return a copy with some arguments changed."""
        kept: ParallelChanges = {
            "children": self.children,
            "merge": self.merge,
            "max_parallel": self.max_parallel,
            "on_error": self.on_error,
            "description": self.description,
            "callbacks": self.callbacks,
        }
        return ParallelAgent(self.id if id is None else id, **(kept | changes))

    def _make_spec(self, children: tuple[str, ...]) -> GroupSpec:
        return GroupSpec(
            runner_id=self.id,
            children=children,
            merge=self.merge,
            max_parallel=self.max_parallel,
            on_error=self.on_error,
        )


def _checked_children(id: str, children: Iterable[Runner[object]], name: str) -> tuple[Runner[object], ...]:
    if isinstance(children, (str, Runner)) or not isinstance(children, Iterable):
        raise TypeError(f"group {id!r}: {name} must be a list of runners, got {children!r}")
    given = tuple(children)
    for child in given:
        if not isinstance(child, Runner):
            raise TypeError(f"group {id!r}: {name} must hold runners, such as us.Agent(…); got {child!r}")
    if not given:
        raise ValueError(f"group {id!r}: {name} must hold at least one runner, got none")
    return given
