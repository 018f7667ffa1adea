"""`Runner`: the base of all definitions that can run: agents, groups and workflows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Literal, NoReturn, cast, overload

from understudy.vocabulary.context.budget import Budget
from understudy.vocabulary.messages import JsonValue, Message, Part
from understudy.vocabulary.other_names import (
    OF_MAPS,
    OF_RESUMES,
    OF_RUNNERS,
    OF_RUNS,
    explains_attributes,
    explains_parameters,
)
from understudy.vocabulary.runs.handles import RunHandle
from understudy.vocabulary.runs.outcomes import MapAnswer, MapFailure, Outcome
from understudy.vocabulary.runs.streams import RunStream

from .port import DEFAULT_MAP_PARALLEL, Answer, MapOptions, MapSystemKeywords, ResumeOptions, RunOptions, runtime

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import TypeVar, Unpack

    T_co = TypeVar("T_co", covariant=True, default=str)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


@explains_attributes(OF_RUNNERS)
class Runner(ABC, Generic[T_co]):
    """A value that never changes, may be shared by any number of threads, and costs nothing until it runs.

    Attributes:
        id: names it in logs, addresses, specs and errors.
        description: what it is for; others read it that may call it.
    """

    __slots__ = ("__weakref__", "description", "id")

    id: str
    description: str

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self._kind()} {self.id!r} does not change; make a changed copy with .replace({name}=…)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self._kind()} {self.id!r} does not change; {name} stays")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self  # it never changes, so it needs no copy, and its id names this object

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._kind()} {self.id!r} is not pickled: make it at module level, and hand inputs and texts to other processes"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @classmethod
    def _kind(cls) -> str:
        return cls.__name__.lower()

    @property
    def inner_runners(self) -> tuple[Runner[object], ...]:
        """The runners that its runs may start; empty for an agent without sub-agents."""
        return ()

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a short digest of the definition, the same in every process; a saved run belongs to one."""

    @explains_parameters("{}.run", OF_RUNS)
    def run(
        self,
        input: str | Sequence[Part],
        *,
        session: Mapping[str, JsonValue] | None = None,
        conversation_id: str | None = None,
        user_id: str | None = None,
        deps: object = None,
        timeout: float | None = None,
        system: object = None,
        history: Sequence[Message] | None = None,
        budget: Budget | None = None,
    ) -> Outcome[T_co]:
        """Carry one run to its end, or to where a person is needed. Blocks; works in any thread, many at once.

        Args:
            input: what the user says: text, or parts.
            session: values shared with the tools, in place of those that the system's store has. A `SessionState` or a plain
                `dict` gets the changed keys when the run ends or pauses; any other mapping is read only.
            conversation_id: which conversation this belongs to; handed to tools and prompts. An agent with a memory
                knows what was said in it, and takes part in it once this run is complete.
            user_id: whose run it is; handed to tools and prompts. Each user has conversations of their own; all runs
                without a `user_id` count as one user's, and share the conversation of an id. Give it wherever you serve
                several people; `ActorSystem(require_user=True)` refuses runs that forget it.
            deps: anything the tools need, handed to them as `ctx.deps`; never saved.
            timeout: seconds the whole run may take; None for no limit.
            system: the `ActorSystem` to run in; the one this is called inside of, else the default one.
            history: messages that went before. The agent's memory is left alone then: neither read nor written.
            budget: what this run may spend, besides what the runner's own budget allows.

        Raises:
            MaxIterationsExceeded: the model wanted more rounds or turns than allowed.
            BudgetExceeded: the run spent what it may, or a run that it is inside of did.
            InvalidOutput: no answer of the model fits the output type.
            CircularAgentCall: this is inside of a run of this agent, or of one it waits for; nothing began.
            RunTimedOut: `timeout` passed.
            RunCancelled: the run was cancelled. An interrupt (Ctrl-C) cancels it and is raised as it is.
            ProviderError: the model could not be reached or refused; one of its subclasses says which.
        """
        options = RunOptions(
            session=session,
            conversation_id=conversation_id,
            user_id=user_id,
            deps=deps,
            timeout=timeout,
            system=system,
            history=history,
            budget=budget,
        )
        return cast("Outcome[T_co]", runtime().run(self, input, options))

    @explains_parameters("{}.submit", OF_RUNS)
    def submit(
        self,
        input: str | Sequence[Part],
        *,
        session: Mapping[str, JsonValue] | None = None,
        conversation_id: str | None = None,
        user_id: str | None = None,
        deps: object = None,
        timeout: float | None = None,
        system: object = None,
        history: Sequence[Message] | None = None,
        budget: Budget | None = None,
    ) -> RunHandle[T_co]:
        """Begin a run and return its handle at once; takes what `run` takes.

        Its models show their turns in pieces, if they can, for who reads `handle.events()`.
        """
        options = RunOptions(
            session=session,
            conversation_id=conversation_id,
            user_id=user_id,
            deps=deps,
            timeout=timeout,
            system=system,
            history=history,
            budget=budget,
            stream=True,
        )
        return cast("RunHandle[T_co]", runtime().submit(self, input, options))

    @explains_parameters("{}.stream", OF_RUNS)
    def stream(
        self,
        input: str | Sequence[Part],
        *,
        session: Mapping[str, JsonValue] | None = None,
        conversation_id: str | None = None,
        user_id: str | None = None,
        deps: object = None,
        timeout: float | None = None,
        system: object = None,
        history: Sequence[Message] | None = None,
        budget: Budget | None = None,
        inner: bool = False,
    ) -> RunStream[T_co]:
        """Begin a run and iterate over its events: `with agent.stream("Hi") as events:`; takes what `run` takes.

        The run begins at once. The model's text comes in pieces, if the model can show it while it writes. At the end of the
        `with` block a run that is not over is cancelled; without `with` it goes on, whatever becomes of the reader.

        Args:
            inner: also tell what happens in runs inside of this one, as of `RunHandle.events`.

        Raises:
            The error of the run, after its `RunFailed`.
        """
        options = RunOptions(
            session=session,
            conversation_id=conversation_id,
            user_id=user_id,
            deps=deps,
            timeout=timeout,
            system=system,
            history=history,
            budget=budget,
            stream=True,
        )
        handle = cast("RunHandle[T_co]", runtime().submit(self, input, options))
        return RunStream(handle, handle.events(inner=inner))

    @overload
    def map(
        self,
        inputs: Iterable[str | Sequence[Part]],
        *,
        keep_errors: Literal[False] = False,
        **options: Unpack[MapSystemKeywords],
    ) -> Generator[MapAnswer[T_co]]: ...
    @overload
    def map(
        self,
        inputs: Iterable[str | Sequence[Part]],
        *,
        keep_errors: bool,
        **options: Unpack[MapSystemKeywords],
    ) -> Generator[MapAnswer[T_co] | MapFailure]: ...
    @explains_parameters("{}.map", OF_MAPS)
    def map(
        self,
        inputs: Iterable[str | Sequence[Part]],
        *,
        max_parallel: int = DEFAULT_MAP_PARALLEL,
        budget: Budget | None = None,
        keep_errors: bool = False,
        ordered: bool = False,
        session: Mapping[str, JsonValue] | None = None,
        user_id: str | None = None,
        deps: object = None,
        timeout: float | None = None,
        system: object = None,
        name: str | None = None,
    ) -> Generator[MapAnswer[T_co] | MapFailure]:
        """Run each of many inputs, several at once, and yield the answers as they come.

        Nothing begins before the first answer is asked for. Inputs are taken on the thread that iterates, while it asks
        for the next answer: never more than `max_parallel` of them (with `ordered`, twice as many) are taken and not
        answered yet, so an endless generator is fine. A run that pauses is answered with its outcome, which has a token.
        Closing the generator, dropping it, and whatever is raised on the way (by `inputs`, by the code of the loop, by
        Ctrl-C) cancels the runs under way.

        Args:
            inputs: what `run` takes as `input`, each; a workflow's are its parameters. An input of the wrong type is
                an error of that input.
            max_parallel: how many runs may be under way at once.
            budget: what all runs may spend together. Once it is spent, each input that is left fails with
                `BudgetExceeded`. Its `seconds` count from the first input on.
            keep_errors: yield a `MapFailure` for a run that fails, and go on. Otherwise the first error is raised once
                the others are cancelled, and a note of it says which input it was.
            ordered: yield the answers in the order of `inputs`.
            session: values that each run begins with a copy of; `outcome.session` has what became of them.
            user_id: as for `run`.
            deps: as for `run`; all runs have the same object, so it must be safe to share between threads.
            timeout: seconds that each run may take.
            system: as for `run`.
            name: keeps the results in the system's durable store. A later call with this name, also in another process, runs
                only inputs that have no result there, and goes on with runs that were left. See `ActorSystem.forget_map`.

        Raises:
            TypeError: `inputs` is a string or cannot be iterated over, or an option is of the wrong type.
            ValueError: an option is out of range; or a tool has `isolation="caller"`, as for `submit`; or there is a `name`, and
                the system has no durable store, or this is inside of a run or an actor.
        """
        given = MapOptions(
            max_parallel=max_parallel,
            budget=budget,
            keep_errors=keep_errors,
            ordered=ordered,
            session=session,
            user_id=user_id,
            deps=deps,
            timeout=timeout,
            system=system,
            name=name,
        )
        return cast("Generator[MapAnswer[T_co] | MapFailure]", runtime().map(self, inputs, given))

    @explains_parameters("{}.resume", OF_RESUMES)
    def resume(
        self,
        token: str,
        answer: Answer = None,
        *,
        deps: object = None,
        timeout: float | None = None,
        system: object = None,
        max_iterations: int | None = None,
        max_turns: int | None = None,
        max_continues: int | None = None,
        adopt: bool = False,
        budget: Budget | None = None,
        max_output_retries: int | None = None,
        session: Mapping[str, JsonValue] | None = None,
    ) -> Outcome[T_co]:
        """Go on with a run that waits; with a store, in any process that has the store. Blocks like `run`.

        Whatever this raises before the run goes on, the token still stands, unless it was used.

        Args:
            token: what the outcome or the error carried; it works once.
            answer: the text for a question; a decision for all waiting calls, or decisions by call id.
            deps: as for `run`; they are never saved, so they are given again.
            timeout: seconds from now on; None for no limit.
            system: one with the store that has the run; without a store, where the run paused. The default system
                otherwise.
            max_iterations: a higher limit, counted from the run's beginning.
            max_turns: a higher limit, counted from the run's beginning.
            max_continues: a higher limit, counted from the run's beginning.
            adopt: go on even if the run was stored with another definition of this agent.
            budget: higher limits, counted from the run's beginning; those that it leaves out stay as they are.
            max_output_retries: a higher limit, counted from the run's beginning.
            session: values that the run sees from now on in place of its own. As of `run`, it gets the keys that are changed
                from now on.

        Raises:
            UnknownToken: no run waits here under this token.
            TokenUsed: the token was used before.
            SpecChanged: the run was stored with another definition, and `adopt` is false.
            StoreError: the store failed.
            AnswerRefused: the answer does not fit what the run waits for; nothing ran, and the token stands.
            TypeError: `session` is no mapping.
            ValueError: the run is another agent's, or a limit would be lowered.
        """
        options = ResumeOptions(
            deps=deps,
            timeout=timeout,
            system=system,
            max_iterations=max_iterations,
            max_turns=max_turns,
            max_continues=max_continues,
            adopt=adopt,
            budget=budget,
            max_output_retries=max_output_retries,
            session=session,
        )
        return cast("Outcome[T_co]", runtime().resume(self, token, answer, options))

    @explains_parameters("{}.submit_resume", OF_RESUMES)
    def submit_resume(
        self,
        token: str,
        answer: Answer = None,
        *,
        deps: object = None,
        timeout: float | None = None,
        system: object = None,
        max_iterations: int | None = None,
        max_turns: int | None = None,
        max_continues: int | None = None,
        adopt: bool = False,
        budget: Budget | None = None,
        max_output_retries: int | None = None,
        session: Mapping[str, JsonValue] | None = None,
    ) -> RunHandle[T_co]:
        """Go on with a run that waits and return its handle; takes what `resume` takes.

        Does not wait for the run. Where the system has a store, the calling thread waits until that has given the run
        out. The handle has the run's id and is of its stay from now on: its events are those that happen since, and it
        ends or pauses as `resume` would return or raise. A run that pauses again is gone on with by the token of its
        outcome.

        Raises:
            UnknownToken, TokenUsed, SpecChanged, StoreError, TypeError, ValueError: what `resume` raises before the run
                goes on, raised here and not by the handle; the token still stands, unless it was used. ValueError also
                for a tool with `isolation="caller"`, as of `submit`: nobody waits to make its calls.
        """
        options = ResumeOptions(
            deps=deps,
            timeout=timeout,
            system=system,
            max_iterations=max_iterations,
            max_turns=max_turns,
            max_continues=max_continues,
            adopt=adopt,
            budget=budget,
            max_output_retries=max_output_retries,
            session=session,
        )
        return cast("RunHandle[T_co]", runtime().submit_resume(self, token, answer, options))


def below(runners: Iterable[Runner[object]]) -> list[Runner[object]]:
    """Return the runners inside of `runners`, at any depth, each once."""
    found: dict[Runner[object], None] = {}
    due = list(runners)
    for runner in due:  # it grows meanwhile
        for inner in runner.inner_runners:
            if inner not in found:
                found[inner] = None
                due.append(inner)
    return list(found)
