"""The state of the run of a sequence, a parallel group, a workflow or a map: its events over the machine of its kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

from understudy.errors import ProtocolViolation
from understudy.orchestration.agent.state import PausedChild
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.graph.spec import GraphSpec
from understudy.orchestration.group.children import ChildFailure, ChildResult
from understudy.orchestration.group.map_run import AwaitAnswers, HandOut, MapDone, MapFailed, MapRun, TakeInput
from understudy.orchestration.group.parallel_run import ParallelRun
from understudy.orchestration.group.sequence_run import SequenceRun
from understudy.orchestration.group.spec import GroupSpec
from understudy.orchestration.saving.machines import Machine
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, MapAnswer, MapFailure, NeedsInput

from .events import (
    Accepted,
    Answered,
    ChildBegan,
    ChildDone,
    ChildFailed,
    ChildKept,
    ChildLimited,
    ChildPaused,
    ChildRefused,
    ChildSkipped,
    Ended,
    Extended,
    HandedOut,
    InputsEnded,
    Migrated,
    Opened,
    RunEvent,
    TakenOver,
)
from .state import OF_ALL, Due, Handlers, LineState, Lookup, handlers, unknown
from .tally import Tally

_REPORTS = (ChildDone, ChildFailed, ChildLimited, ChildPaused, ChildSkipped)


class GroupLineState(LineState):
    """What the run of a sequence, parallel group or workflow has come to.

    Args:
        definition: the rules that the line is written under.
        definitions: returns the rules with a digest, for lines whose rules changed.
    """

    def __init__(self, definition: GroupSpec, definitions: Lookup = unknown) -> None:
        super().__init__()
        self.definition = definition
        self.machine: Machine | None = None
        self._graph: GraphRun | None = None
        """The machine, of a workflow's run."""
        self._definitions = definitions
        self._had: PausedChild | None = None
        """What the child that failed last was to go on with."""
        self.raised: Exception | None = None
        """The error that the next event tells of, in a live run: a line has only its words."""

    def go_on_with(self, machine: Machine, account: Account) -> None:
        """Begin with a machine that has come some way already, and with the account of its live run."""
        self._has_begun = True
        self._follow(machine)
        self.account = account

    def _follow(self, machine: Machine) -> None:
        self.machine, self._graph = machine, machine if isinstance(machine, GraphRun) else None

    @property
    def shares_session(self) -> bool:
        """Whether a child sees what the children before it changed."""
        return self.definition.merge is None

    def due(self, *, only_new: bool = False) -> list[Due]:
        """As of every run; with `only_new` without the children that run, in a time that does not grow with their number."""
        machine = self.machine
        if self.ended is not None or self.asked is not None or machine is None:
            return []
        if machine.has_failed:
            return [Due("fail")]
        if machine.is_done:
            return [Due("finish")]
        places = machine.new_children() if only_new else machine.due_children()
        if places or (only_new and machine.has_running):
            return [Due("child", str(place)) for place in places]
        if machine.pauses or not machine.limited:
            return [Due("ask")]
        stopped_short = all(machine.state.children[at].is_incomplete for at in machine.limited)
        return [Due("finish" if stopped_short else "fail")]

    def apply(self, event: RunEvent) -> None:
        super().apply(event)
        if isinstance(event, _REPORTS):
            self.children.pop(event.place, None)
        if self._graph is not None:
            self._graph.begin_ready()  # tasks whose dependencies are decided are ready, skipped or failed from here on

    def _running(self) -> Machine:
        assert self.machine is not None  # `apply` takes nothing before the run is accepted
        return self.machine

    def _accept(self, event: Accepted) -> None:
        definition = self.definition
        if isinstance(definition, GraphSpec):
            self._follow(GraphRun(definition, event.input, event.parameters))
        else:
            self._follow((SequenceRun if definition.merge is None else ParallelRun)(definition, event.input))
        self.accepted = event
        if event.session:
            self.session.lay_under(event.session)
        self.account = Tally(Spending(budget=event.budget))
        self.account.keep_in(self._running().state.spending)

    def _open(self, event: Opened) -> None:
        if event.session:
            self.session.lay_under(event.session)

    def _migrated(self, event: Migrated) -> None:
        self._load(event.definition, event.state)

    def _load(self, digest: str, text: str) -> None:
        """Take a text for the state, under the rules with this digest."""
        definition = cast("GroupSpec", self._definitions(digest))
        if isinstance(definition, GraphSpec):
            self._follow(GraphRun.from_json(text, definition, adopt=True))
        else:
            kind = SequenceRun if definition.merge is None else ParallelRun
            self._follow(kind.from_json(text, definition, adopt=True))
        self.definition, self.account = definition, (tally := Tally())
        state = self._running().state
        before, state.spending = state.spending, tally.spending
        tally.start_with(before)

    def _taken_over(self, event: TakenOver) -> None:
        if event.definition:
            self._load(event.definition, self._running().to_json())
        self.take_over(event)

    # --- what came of a child

    def _position(self, machine: Machine, place: str) -> int:
        children = len(machine.state.children)
        position = int(place) if place.isdecimal() and len(place) < 10 else children
        if place != str(position) or position >= children:
            raise ProtocolViolation(f"{self.definition.runner_id!r} has no child {place[:20]!r}; it has {children}")
        return position

    def _child_began(self, event: ChildBegan) -> None:
        machine = self._running()
        position = self._position(machine, event.place)
        if not machine.expects(position):
            raise ProtocolViolation(f"child {position} of {self.definition.runner_id!r} began, and is not due")
        if not machine.state.children[position].begun:
            machine.begin_new()
        self.child_began(event)

    def _expects(self, place: str) -> tuple[int | None, Machine]:
        """Return the position of a child whose report still counts, and the machine; None once others have decided the run."""
        machine = self._running()
        position = self._position(machine, place)
        return position if machine.expects(position) else None, machine

    def _child_done(self, event: ChildDone) -> None:
        position, machine = self._expects(event.place)
        if position is None:
            return
        changes = event.changes
        result = ChildResult(
            text=event.text,
            combined_text=event.combined_text,
            usage=event.usage,
            iterations=event.iterations,
            turns=event.turns,
            changes={} if changes is None else dict(changes.values),
            removed=() if changes is None else changes.removed,
        )
        if self._graph is None:
            machine.take_result(position, result)
        else:
            self._graph.child_done(position, result, again=event.again)
        if self.shares_session:
            self.lay(changes)

    def _child_failed(self, event: ChildFailed) -> None:
        position, machine = self._expects(event.place)
        if position is None:
            return
        had, failure = machine.state.children[position].paused, ChildFailure(event.kind, event.message)
        if self._graph is None:
            machine.child_failed(position, failure, self._error())
        else:
            self._graph.child_failed(position, failure, self._error(), may_retry=event.may_retry)
        self._had = had
        if self.shares_session:
            self.lay(event.changes)

    def _error(self) -> Exception | None:
        error, self.raised = self.raised, None
        return error

    def _child_limited(self, event: ChildLimited) -> None:
        position, machine = self._expects(event.place)
        if position is not None:
            failure = ChildFailure(event.kind, event.message)
            machine.child_at_limit(position, event.run, failure, self._error())

    def _child_paused(self, event: ChildPaused) -> None:
        position, machine = self._expects(event.place)
        if position is not None:
            machine.child_paused(position, event.run, event.pauses)

    def _child_skipped(self, event: ChildSkipped) -> None:
        position, _ = self._expects(event.place)
        if position is not None and self._graph is not None:
            self._graph.child_skipped(position)

    def _child_kept(self, event: ChildKept) -> None:
        machine = self._running()
        machine.child_kept(self._position(machine, event.place), event.run)
        self.children.pop(event.place, None)

    def _child_refused(self, event: ChildRefused) -> None:
        machine = self._running()
        machine.child_refused(self._position(machine, event.place), self._had)

    # --- going on, and the end

    def _answered(self, event: Answered) -> None:
        self._running().respond(event.answers)
        self.begin_stay(event)

    def _extended(self, event: Extended) -> None:
        machine = self._running()
        if event.places:
            places = [self._position(machine, place) for place in event.places]
            machine.go_on({at: machine.limited.get(at, "") for at in places})
        else:
            machine.retry_failed()
        if event.budget is not None:
            self.account.extend(event.budget)
        self.begin_stay(event)

    def _done(self, event: Ended) -> None:
        if not self.shares_session:
            changes, removed, _ = self._running().changes
            overlay = SessionOverlay(self.session)
            overlay.changes, overlay.removed = changes, removed
            overlay.commit()
        self.end(event)

    table: ClassVar[Handlers] = OF_ALL | handlers(
        (_accept, Accepted),
        (_open, Opened),
        (_migrated, Migrated),
        (_taken_over, TakenOver),
        (_child_began, ChildBegan),
        (_child_done, ChildDone),
        (_child_failed, ChildFailed),
        (_child_limited, ChildLimited),
        (_child_paused, ChildPaused),
        (_child_skipped, ChildSkipped),
        (_child_kept, ChildKept),
        (_child_refused, ChildRefused),
        (_answered, Answered),
        (_extended, Extended),
        (_done, Ended),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSpec:
    """The rules of a `map`."""

    max_parallel: int
    ordered: bool = True
    keep_errors: bool = False


class MapLineState(LineState):
    """What a map has come to: which inputs it took, and which answers its caller has.

    Args:
        definition: the rules that the line is written under.
    """

    def __init__(self, definition: MapSpec) -> None:
        super().__init__()
        self.machine = MapRun(
            max_parallel=definition.max_parallel, ordered=definition.ordered, keep_errors=definition.keep_errors
        )
        self._began = 0

    def due(self) -> list[Due]:
        if self.ended is not None:
            return []
        under_way = [Due("child", place) for place in self.children]
        match self.machine.next_step():
            case TakeInput():
                return [*under_way, Due("take")]
            case HandOut(answer=answer):
                return [*under_way, Due("hand_out", str(answer.index))]
            case AwaitAnswers():
                return under_way
            case MapFailed(failure=failure):
                return [Due("fail", str(failure.index))]
            case MapDone():
                return [Due("finish")]

    def _accept(self, event: Accepted) -> None:
        self.accepted = event
        self.account = Tally(Spending(budget=event.budget))

    def _child_began(self, event: ChildBegan) -> None:
        if event.place != str(self._began):
            raise ProtocolViolation(f"input {event.place[:20]!r} began, and the next one is {self._began}")
        self.machine.took()
        self._began += 1
        self.child_began(event)

    def _inputs_ended(self, event: InputsEnded) -> None:
        self.machine.no_more_inputs()

    def _child_ended(self, event: ChildDone | ChildFailed | ChildPaused | ChildLimited) -> None:
        if self.children.pop(event.place, None) is None:
            raise ProtocolViolation(f"input {event.place[:20]!r} has an answer, and is not under way")
        index = int(event.place)
        match event:
            case ChildDone(text=text):
                self.machine.answered(MapAnswer(index, Complete(text=text, output=text)))
            case ChildFailed():
                self.machine.answered(MapFailure(index, ChildFailure(event.kind, event.message).to_error()))
            case ChildPaused(pauses=pauses):  # the caller answers it, and the run goes on outside of the map
                question = next((pause.question for pause in pauses if pause.question is not None), "")
                self.machine.answered(MapAnswer(index, NeedsInput(question=question, pauses=pauses)))
            case ChildLimited():
                self.machine.answered(MapAnswer(index, Incomplete(last_text="")))

    def _handed_out(self, event: HandedOut) -> None:
        self.machine.handed_out()

    table: ClassVar[Handlers] = OF_ALL | handlers(
        (_accept, Accepted),
        (_child_began, ChildBegan),
        (_child_ended, ChildDone, ChildFailed, ChildPaused, ChildLimited),
        (_inputs_ended, InputsEnded),
        (_handed_out, HandedOut),
    )
