"""`run_turn`: runs an agent one turn at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast, overload

from understudy.vocabulary.messages import Part
from understudy.vocabulary.other_names import OF_RUNS, explains_parameters
from understudy.vocabulary.runs.outcomes import TurnOutcome

from .port import Answer, ResumeKeywords, ResumeOptions, RunKeywords, RunOptions, runtime
from .runner import Runner

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    T_co = TypeVar("T_co", covariant=True, default=str)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

_OPTIONS = (*RunKeywords.__annotations__, *ResumeKeywords.__annotations__)
DEFAULT_LEASE = 60.0  # Seconds; it is renewed, so this is how long the token of a worker that died is kept from others.


class TurnRunner(Runner[T_co]):
    """The base of agents: a run consists of model turns, and each can be carried out on its own."""

    __slots__ = ()

    @overload
    def run_turn(
        self, input: str | Sequence[Part], *, system: object = None, **options: Unpack[RunKeywords]
    ) -> TurnOutcome[T_co]: ...
    @overload
    def run_turn(
        self,
        *,
        token: str,
        answer: Answer = None,
        lease: float = DEFAULT_LEASE,
        system: object = None,
        **options: Unpack[ResumeKeywords],
    ) -> TurnOutcome[T_co]: ...
    @explains_parameters("{}.run_turn", OF_RUNS, also=_OPTIONS)
    def run_turn(
        self,
        input: str | Sequence[Part] | None = None,
        *,
        token: str | None = None,
        answer: Answer = None,
        lease: float = DEFAULT_LEASE,
        system: object = None,
        **options: object,
    ) -> TurnOutcome[T_co]:
        """Carry out one turn of a run: one call of the model, and the tools that it calls. Blocks like `run`.

        With an input, a run begins; with a token, one goes on. `MoreTurns` has the token of the next turn, which any
        worker may carry out that has the system's store. Any other outcome is that of `run`. The turn of a run that waits for a person is
        finished by `run_turn(token=…, answer=…)`, and the whole run by `resume(token, answer)`.

        Until the turn is committed, its token stands under a lease, which is renewed while the turn goes on. If the worker
        dies, the token can be taken again when the lease is over, and the turn is done again from its beginning: the model
        is called again, and its tools may run a second time.

        Args:
            input: what the user says: text, or parts. Then `options` are those of `run`.
            token: of `MoreTurns`, of an outcome that waits, or of an error. Then `options` are those of `resume`.
            answer: as for `resume`; not after `MoreTurns`.
            lease: seconds after which the token of a worker that died can be taken again.
            system: as for `run` and `resume`.

        Raises:
            TokenUsed: the turn of this token was committed; `.next` is the token of the run now, if it is not over.
            TokenLeased: another worker does this turn; its lease is over at `.until`.
            LeaseLost: this worker did not renew its lease in time, and another one has the token; nothing was committed.
            AnswerMissing: the run waits for a person, and there is no answer; the token stands.
            TypeError: both of input and token, or neither; or the store gives no leases.
            Exception: what `run` and `resume` raise. If the error has a token, the run goes on with that one. After
                `StoreError` and an interrupt the token that was given stands.
        """
        if (input is None) == (token is None):
            raise TypeError("run_turn takes an input, which begins a run, or token=…, with which one goes on")
        if token is not None:
            _refuse_unknown(options, ResumeKeywords, "token=")
            resumed = ResumeOptions(system=system, **cast("ResumeKeywords", options))
            return cast("TurnOutcome[T_co]", runtime().go_on_turn(self, token, answer, resumed, lease))
        if answer is not None or lease != DEFAULT_LEASE:
            raise TypeError("run_turn: answer= and lease= go with token=, not with an input")
        _refuse_unknown(options, RunKeywords, "an input")
        begun = RunOptions(system=system, **cast("RunKeywords", options))
        return cast("TurnOutcome[T_co]", runtime().run_turn(self, cast("str | Sequence[Part]", input), begun))


def _refuse_unknown(options: Mapping[str, object], known: type[RunKeywords | ResumeKeywords], with_: str) -> None:
    names = known.__annotations__.keys()
    unknown = sorted(options.keys() - names)
    if unknown:
        raise TypeError(f"run_turn: with {with_} there is no {', '.join(unknown)}; there are {', '.join(names)}")
