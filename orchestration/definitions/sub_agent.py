"""`SubAgent`: a runner as a tool of an agent. Each call is a run; if that run pauses, the run around it pauses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn, TypeAlias, cast

from understudy.vocabulary.context.permits import Permit
from understudy.vocabulary.tools.definition import Tool, ToolChanges

from .checks import checked_id
from .runner import Runner

if TYPE_CHECKING:
    from typing_extensions import Unpack

LONGEST_NAME = 64  # As the providers have it for tools.


def hand_over(input: str) -> str:
    """Hand over a task.

    Args:
        input: the task, with all that is needed to do it; nothing else of this conversation is passed on
    """
    raise RuntimeError("a sub-agent's call is a run: the run around it begins it")


class SubAgent(Tool[[str], str]):
    """A runner that an agent's model can hand tasks to, as it calls a tool.

    Args:
        runner: the runner that does the tasks, with a model, tools and limits of its own.
        name: what the model calls it; the runner's id if not given, with `_` for what may not stand in a tool's name.
        description: what the model is told of it; the runner's own if not given.
        allow: ids of the runners that may run below it, in sub-agents, tools, and the runs inside of these; None for all.
        deny: ids of runners that may not.
        timeout: seconds one task may take, waiting for people not counted; None for no limit but the run's own.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: the name is no tool's name, an id is both allowed and denied, or the timeout is not above 0.
    """

    def __init__(
        self,
        runner: Runner[object],
        *,
        name: str | None = None,
        description: str | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] = (),
        timeout: float | None = None,
    ) -> None:
        if not isinstance(runner, Runner):
            raise TypeError(f"a sub-agent is made from an agent, got {runner!r}")
        for what, given in (("name", name), ("description", description)):
            if given is not None and not isinstance(given, str):
                raise TypeError(f"sub-agent {runner.id!r}: {what} must be a string, got {given!r}")
        called = name if name is not None else tool_name(runner.id)
        told = description if description is not None else runner.description
        super().__init__(
            hand_over, name=called, description=told or f"Does tasks that are for {runner.id!r}.", timeout=timeout
        )
        self.runner = runner
        self.allow = None if allow is None else _checked_ids(called, "allow", allow)
        self.deny = _checked_ids(called, "deny", deny)
        both = [each for each in self.deny if each in (self.allow or ())]
        if both:
            raise ValueError(f"sub-agent {called!r}: {both[0]!r} cannot be both allowed and denied")
        forbids = self.allow is not None or self.deny
        self.permit = Permit(f"sub-agent {called!r}", self.allow, self.deny) if forbids else None
        """The permits for the runs below it; None if everything is allowed."""

    def __call__(self, input: str) -> str:
        """Run the runner by itself and return its final text."""
        return self.runner.run(input).text

    def __get__(self, instance: object, owner: type | None = None) -> SubAgent:  # type: ignore[override]  # no method
        return self

    def replace(self, **changes: Unpack[ToolChanges]) -> NoReturn:
        """Raise `TypeError`: a sub-agent's options are arguments of `SubAgent`."""
        raise TypeError(f"sub-agent {self.name!r} is not changed; make another with SubAgent(…)")

    def named(self, name: str) -> SubAgent:
        """Return the same sub-agent under another name.

        Raises:
            ValueError: it is no tool's name.
        """
        told = self._description
        return SubAgent(
            self.runner, name=name, description=told, allow=self.allow, deny=self.deny, timeout=self.timeout
        )

    def __repr__(self) -> str:
        return f"SubAgent({self.runner!r}, name={self.name!r})"


SubAgentLike: TypeAlias = "Runner[object] | SubAgent"


def tool_name(id: str) -> str:
    """Return a tool's name for a runner's id, which may hold almost anything."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", id)
    return (plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}")[:LONGEST_NAME]


def checked_sub_agents(id: str, given: Iterable[SubAgentLike]) -> tuple[SubAgent, ...]:
    """Return the sub-agents of agent `id`; that names differ is checked with those of its tools."""
    if isinstance(given, (str, Runner, Tool)) or not isinstance(given, Iterable):
        raise TypeError(f"agent {id!r}: sub_agents must be a list of agents or SubAgent(…), got {given!r}")
    made: list[SubAgent] = []
    for each in given:
        if not isinstance(each, (Runner, SubAgent)):
            raise TypeError(f"agent {id!r}: sub_agents must hold agents or SubAgent(…), got {each!r} in it")
        made.append(each if isinstance(each, SubAgent) else SubAgent(each))
    return tuple(made)


def _checked_ids(name: str, what: str, ids: Iterable[str]) -> tuple[str, ...]:
    if isinstance(ids, str) or not isinstance(ids, Iterable):  # one string would be taken for its letters
        raise TypeError(f"sub-agent {name!r}: {what} must be a list of ids, got {ids!r}")
    given = list(cast("Iterable[object]", ids))
    for each in given:
        if isinstance(each, Runner):
            raise TypeError(f"sub-agent {name!r}: {what} must hold ids; write {each.id!r} for {each!r}")
        if not isinstance(each, str):
            raise TypeError(f"sub-agent {name!r}: {what} must hold ids; each must be a string, got {each!r}")
    return tuple([checked_id(cast(str, each), "runner") for each in given])
