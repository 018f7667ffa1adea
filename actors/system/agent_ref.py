"""`AgentRef`: an agent in a system, to hold and to hand on."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Literal, Never, NoReturn, cast, overload

from understudy.actors.actor.ref import ActorRef
from understudy.orchestration.definitions.port import Answer, MapOptions, RunOptions, runtime
from understudy.vocabulary.actors.messages import DEFAULT_ASK_TIMEOUT
from understudy.vocabulary.messages import JsonValue, Part
from understudy.vocabulary.runs.handles import RunHandle
from understudy.vocabulary.runs.outcomes import MapAnswer, MapFailure, Outcome

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.actors.cells.event_stream import EventStream
    from understudy.orchestration.definitions.port import MapKeywords, ResumeKeywords, RunKeywords
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.actors.system_events import SystemEvent

    T_co = TypeVar("T_co", covariant=True, default=str)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


class AgentRef(ActorRef[Never], Generic[T_co]):
    """An agent that was spawned in a system. It takes runs, not messages; otherwise it is a reference like any other.

    In a forked child it runs the agent there, outside of the group it may stand in.
    """

    __slots__ = ("_agent", "_system")

    def __init__(self, system: object, agent: Runner[T_co], cell: ActorCell) -> None:
        super().__init__(cell)
        self._system = system
        """Where it was spawned; a run takes it as `system=`."""
        self._agent = agent

    @property
    def agent(self) -> Runner[T_co]:
        """The definition."""
        return self._agent

    def run(
        self,
        input: str | Sequence[Part] = "",
        *,
        parameters: Mapping[str, JsonValue] | None = None,
        **options: Unpack[RunKeywords],
    ) -> Outcome[T_co]:
        """Carry one run to its end in the reference's system; like `Agent.run`, which explains the options.

        Args:
            input: what the user says: text, or parts; a workflow may need none.
            parameters: of a workflow's run, what the names in its prompts stand for; as for `Workflow.run`.
            options: as for an agent.

        Raises:
            AgentDown: the agent failed too often, or was stopped.
            ValueError: parameters are missing, unknown, or given to what takes none.
        """
        given = RunOptions(parameters=parameters, system=self._system, **options)
        return cast("Outcome[T_co]", runtime().run(self._agent, input, given))

    def submit(
        self,
        input: str | Sequence[Part] = "",
        *,
        parameters: Mapping[str, JsonValue] | None = None,
        **options: Unpack[RunKeywords],
    ) -> RunHandle[T_co]:
        """Begin a run in the reference's system and return its handle at once; takes what `run` takes."""
        given = RunOptions(parameters=parameters, system=self._system, **options)
        return cast("RunHandle[T_co]", runtime().submit(self._agent, input, given))

    @overload
    def map(
        self,
        inputs: Iterable[str | Sequence[Part] | Mapping[str, JsonValue]],
        *,
        keep_errors: Literal[False] = False,
        **options: Unpack[MapKeywords],
    ) -> Generator[MapAnswer[T_co]]: ...
    @overload
    def map(
        self,
        inputs: Iterable[str | Sequence[Part] | Mapping[str, JsonValue]],
        *,
        keep_errors: bool,
        **options: Unpack[MapKeywords],
    ) -> Generator[MapAnswer[T_co] | MapFailure]: ...
    def map(
        self,
        inputs: Iterable[str | Sequence[Part] | Mapping[str, JsonValue]],
        *,
        keep_errors: bool = False,
        **options: Unpack[MapKeywords],
    ) -> Generator[MapAnswer[T_co] | MapFailure]:
        """Run each of many inputs in the reference's system and yield the answers as they come; like `Agent.map`."""
        given = MapOptions(keep_errors=keep_errors, system=self._system, **options)
        return cast("Generator[MapAnswer[T_co] | MapFailure]", runtime().map(self._agent, inputs, given))

    def resume(self, token: str, answer: Answer = None, **options: Unpack[ResumeKeywords]) -> Outcome[T_co]:
        """Go on with a run that paused in the reference's system; like `Agent.resume`."""
        return self._agent.resume(token, answer, system=self._system, **options)

    def submit_resume(self, token: str, answer: Answer = None, **options: Unpack[ResumeKeywords]) -> RunHandle[T_co]:
        """Go on with a run that paused in the reference's system and return its handle; like `Agent.submit_resume`."""
        return self._agent.submit_resume(token, answer, system=self._system, **options)

    def tell(self, message: Never, *, timeout: float = DEFAULT_ASK_TIMEOUT) -> NoReturn:
        """Refuse: an agent takes runs."""
        raise self._no_messages()

    def hear(self, events: EventStream, kinds: tuple[type[SystemEvent], ...]) -> NoReturn:
        """Refuse: an agent takes runs."""
        raise self._no_messages()

    def _send(self, message: object, timeout: float) -> NoReturn:
        raise self._no_messages()

    def _no_messages(self) -> TypeError:
        return TypeError(f"agent {self._agent.id!r} takes runs and no messages: use run or submit")

    def __repr__(self) -> str:
        return f"AgentRef({self.address!r}, {self._cell.state})"
