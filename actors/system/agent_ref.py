"""`AgentRef`: an agent in a system, to hold and to hand on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from logging import ERROR
from typing import TYPE_CHECKING, Generic, Literal, NoReturn, cast, overload

from understudy.actors.actor.actor_cell import lost_because
from understudy.actors.actor.ref import ActorRef
from understudy.actors.cells.mailbox import Fate, new_envelope
from understudy.actors.threads.promise import Late
from understudy.diagnostics import emit
from understudy.errors import AgentDown, in_words
from understudy.orchestration.definitions.by_turns import DEFAULT_LEASE, TurnRunner
from understudy.orchestration.definitions.port import Answer, MapKeywords, MapOptions, RunKeywords, RunOptions, runtime
from understudy.orchestration.definitions.unknown_options import of_run
from understudy.vocabulary.actors.messages import DEFAULT_ASK_TIMEOUT
from understudy.vocabulary.messages import JsonValue, Part
from understudy.vocabulary.other_names import OF_MAPS, explains_parameters
from understudy.vocabulary.runs.handles import RunHandle
from understudy.vocabulary.runs.outcomes import MapAnswer, MapFailure, Outcome, TurnOutcome

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.actors.cells.event_stream import EventStream
    from understudy.orchestration.definitions.port import ResumeKeywords
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.actors.system_events import SystemEvent

    T_co = TypeVar("T_co", covariant=True, default=str)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


class AgentRef(ActorRef[str | Sequence[Part]], Generic[T_co]):
    """An agent that was spawned in a system. Its messages are inputs of runs; otherwise it is a reference like any other.

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

    @explains_parameters("{}.run", of_run, also=RunKeywords.__annotations__)
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

    @explains_parameters("{}.submit", of_run, also=RunKeywords.__annotations__)
    def submit(
        self,
        input: str | Sequence[Part] = "",
        *,
        parameters: Mapping[str, JsonValue] | None = None,
        **options: Unpack[RunKeywords],
    ) -> RunHandle[T_co]:
        """Begin a run in the reference's system and return its handle at once; takes what `run` takes."""
        given = RunOptions(parameters=parameters, system=self._system, stream=True, **options)
        return cast("RunHandle[T_co]", runtime().submit(self._agent, input, given))

    @overload
    def run_turn(self, input: str | Sequence[Part], **options: Unpack[RunKeywords]) -> TurnOutcome[T_co]: ...
    @overload
    def run_turn(
        self, *, token: str, answer: Answer = None, lease: float = DEFAULT_LEASE, **options: Unpack[ResumeKeywords]
    ) -> TurnOutcome[T_co]: ...
    def run_turn(
        self,
        input: str | Sequence[Part] | None = None,
        *,
        token: str | None = None,
        answer: Answer = None,
        lease: float = DEFAULT_LEASE,
        **options: object,
    ) -> TurnOutcome[T_co]:
        """Carry out one turn of a run in the reference's system; like `Agent.run_turn`.

        Raises:
            TypeError: what runs here is a group or a workflow, which has no turns; or as for an agent.
        """
        if not isinstance(self._agent, TurnRunner):
            raise TypeError(f"{self._agent.id!r} is no agent, and has no turns: use run or submit")
        run_turn = cast("Callable[..., TurnOutcome[T_co]]", self._agent.run_turn)
        return run_turn(input, token=token, answer=answer, lease=lease, system=self._system, **options)

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
    @explains_parameters("{}.map", OF_MAPS, also=MapKeywords.__annotations__)
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

    # --- as other actors are used

    def tell(self, message: str | Sequence[Part], *, timeout: float = DEFAULT_ASK_TIMEOUT) -> None:
        """Begin a run and go on. If the agent has stopped, the message is a dead letter; another failure is logged.

        Args:
            message: what the user says: text, or parts.
            timeout: without effect: an agent always has room.
        """
        try:
            handle = self.submit(message)
        except AgentDown as down:
            self._lost(message, down)
        else:
            handle.add_done_callback(partial(self._told, message))

    def _told(self, message: str | Sequence[Part], handle: RunHandle[T_co]) -> None:
        error = handle.exception()
        if isinstance(error, AgentDown):
            self._lost(message, error)
        elif error is not None:
            text, values = "%s: a run that nobody waits for failed: %s", {"actor": self.address}
            emit(ERROR, "told_run_failed", values, text, self.address, in_words(error), exc_info=error)

    def _lost(self, message: object, error: AgentDown) -> None:
        cell = self._cell
        cell.events.dead_letter(
            cell.address, lost_because(Fate.DEAD, error, cell.state), new_envelope(message), message
        )

    @overload  # type: ignore[override]  # an agent takes no Query, and the futures of its outcomes are handles
    def ask(
        self, message: str | Sequence[Part], *, block: Literal[True] = True, timeout: float | None = None
    ) -> Outcome[T_co]: ...
    @overload
    def ask(
        self, message: str | Sequence[Part], *, block: Literal[False], timeout: float | None = None
    ) -> RunHandle[T_co]: ...
    @overload
    def ask(
        self, message: str | Sequence[Part], *, block: bool, timeout: float | None = None
    ) -> Outcome[T_co] | RunHandle[T_co]: ...
    def ask(
        self, message: str | Sequence[Part], *, block: bool = True, timeout: float | None = None
    ) -> Outcome[T_co] | RunHandle[T_co]:
        """Carry one run to its end and return the outcome: `run`, as Pykka names it.

        Args:
            message: what the user says: text, or parts.
            block: False returns the handle of the run at once, as `submit` does.
            timeout: seconds for the run, None for any time; 0 leaves no time, and no run is begun.

        Raises:
            TimeoutError: `timeout` is 0. It is a `pykka.Timeout` too.
            AgentDown: the agent failed too often, or was stopped. It is a `pykka.ActorDeadError` too.
        """
        if timeout == 0 and type(timeout) in (int, float):
            raise Late(f"{self.address} was given no time to answer, and no run was begun")
        return self.run(message, timeout=timeout) if block else self.submit(message, timeout=timeout)

    def ask_future(  # type: ignore[override]  # as above
        self, message: str | Sequence[Part], *, timeout: float | None = None
    ) -> RunHandle[T_co]:
        """Begin a run and return its handle at once, as `submit` does."""
        return self.submit(message, timeout=timeout)

    @property
    def actor_class(self) -> type:  # type: ignore[override]  # Pykka sets it in its constructor
        """The class of the definition, such as `Agent`."""
        return type(self._agent)

    @property
    def actor_inbox(self) -> NoReturn:  # type: ignore[override]  # as above
        """Refuse: an agent is told and asked by its reference."""
        raise TypeError(f"agent {self._agent.id!r} has no inbox for others: use tell and ask")

    def present_object(self) -> NoReturn:
        """Refuse: an agent has no attributes to look at."""
        raise TypeError(f"agent {self._agent.id!r} takes runs and has no proxy: use run, submit, tell or ask")

    def proxy(self) -> NoReturn:
        """Refuse: an agent takes runs."""
        self.present_object()

    def hear(self, events: EventStream, kinds: tuple[type[SystemEvent], ...]) -> NoReturn:
        """Refuse: an agent takes texts and parts, and no events."""
        raise TypeError(f"agent {self._agent.id!r} takes runs and no messages: use run or submit")

    def __repr__(self) -> str:
        return f"AgentRef({self.address!r}, {self._cell.state})"
