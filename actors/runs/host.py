"""What runs need of the system that keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from understudy.actors.cells.event_stream import EventStream
from understudy.actors.stores.database import Outage
from understudy.actors.stores.sessions import Sessions
from understudy.actors.tools.executor import Executors
from understudy.errors import CircularAgentCall, UnderstudyError
from understudy.orchestration.definitions.port import RunOptions
from understudy.orchestration.definitions.runner import Runner
from understudy.vocabulary.context.ancestry import Link
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import Part
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, MoreTurns, NeedsApproval, NeedsInput

from .ownership import AbandonedWork

if TYPE_CHECKING:
    from understudy.orchestration.saving.saved_run import SavedRun

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class RunEndings(Protocol[R_contra]):
    """Ends runs: the part of a host that works come to at the end of a run, and everyone who ends one early."""

    # --- called by the work that holds `epoch`; does nothing for any other

    def complete(self, record: R_contra, outcome: Complete[object] | Incomplete, epoch: int) -> None:
        """End the run with its outcome."""
        ...

    def park(self, record: R_contra, outcome: NeedsApproval | NeedsInput | Incomplete, epoch: int) -> None:
        """End the run's stay here with an outcome, to which a token is added unless the run is a part of another one."""
        ...

    def end_turn(self, record: R_contra, outcome: MoreTurns, epoch: int) -> None:
        """End the run's stay here after a turn; a token brings it back."""
        ...

    def fail(self, record: R_contra, error: BaseException, epoch: int) -> bool:
        """End the run with an error, whatever else fails; an error that may pass has a token with which the run goes on.

        Returns:
            False if the run was over or in other hands, so that nobody hears of the error.
        """
        ...

    def give_token(self, record: R_contra, error: BaseException, epoch: int) -> str:
        """Give the error with which the run is about to end its token, and return it; empty if there is none, or the run is left."""
        ...

    def withdraw_token(self, record: R_contra, error: UnderstudyError) -> None:
        """Take the token of an error back, because the run does not end with it."""
        ...

    # --- called by anyone

    def cannot_go_on(self, record: R_contra, failure: BaseException, epoch: int) -> None:
        """End a run that would never go on, because of a failure of the runtime's own."""
        ...

    def cancel(self, record: R_contra, why: str = "", *, kept: bool = False) -> bool:
        """End a run early, whatever it is doing; whether this call ended it. With `kept` it can be resumed."""
        ...

    def lose(self, record: R_contra, error: UnderstudyError) -> None:
        """End a run that another process has now, and that can no longer be committed here."""
        ...

    def refuse(self, record: R_contra, circle: UnderstudyError) -> None:
        """End a run that could end only after another run that waits for it."""
        ...


class RunHost(Protocol[R]):
    """The side of a system that its runs see. `R` is the record of a run, which in its turn knows its host."""

    events: EventStream
    """Where the system tells what happens in it."""
    hung: AbandonedWork
    """Work that was given up."""
    executors: Executors
    """The actors of its tools."""
    endings: RunEndings[R]
    """Ends the runs."""
    app: str
    """The system's name, which conversations and session values belong to."""
    sessions: Sessions
    """Where it keeps session values."""
    outage: Outage
    """The runs that wait for a store."""
    stores: bool
    """Whether paused runs are written down, so that sessions must be JSON."""
    max_hops: int
    """How many runs may have led to a run."""

    is_of_parent: bool
    """Whether its runs belong to the parent of this process, which was forked."""

    # --- beginning

    def root_of(self, link: Link) -> str:
        """Return the id of the outermost run here that a run was begun in, or its own."""
        ...

    def prepare(self, runner: Runner[object], input: str | Sequence[Part], options: RunOptions) -> R:
        """Make the record of a new run; `launch` starts it."""
        ...

    def load(self, saved: SavedRun, runner: Runner[object], deps: object, scope: Scope, *, adopt: bool = False) -> R:
        """Return the record with which a run that was saved as text goes on."""
        ...

    def launch(self, record: R, *, last: bool = False) -> None:
        """Start a run that was prepared; returns at once. With `last` the calling thread has nothing more to do and may be used."""
        ...

    def drive(self, record: R, epoch: int, *, last: bool = False) -> None:
        """Have a run begin, or go on from `epoch`; not if it is over or in other hands."""
        ...

    def tell_refused(self, runner: Runner[object], error: CircularAgentCall) -> None:
        """Tell who subscribes of a run that would have waited for itself."""
        ...

    # --- ending

    def crashed(self, record: R, cause: BaseException, epoch: int) -> None:
        """Fail the runner's actor, and have the run go on, or end it."""
        ...

    def ended(self, record: R) -> None:
        """Take a run off the books; its record calls this once."""
        ...
