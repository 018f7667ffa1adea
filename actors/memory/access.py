"""How a run uses the memory of its agent: the load before its first step, the append before its end is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from understudy.actors.run_view.errors import LOADING, STORING, memory_failure
from understudy.actors.run_view.log import Diverged
from understudy.errors import AgentCrashed, had_its_retries
from understudy.orchestration.agent.compaction.decisions import lasting_summary
from understudy.orchestration.agent.feed_checks import checked_history
from understudy.orchestration.agent.transcript import check_answered, count_new
from understudy.vocabulary.backoff import backoff_wait
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.messages import Message
from understudy.vocabulary.runs.compacted_memory import CompactedMemory, SummaryMemory
from understudy.vocabulary.runs.memory import ConversationKey, Memory

from .conversation_queue import ConversationUser, Lease
from .memory_actor import Append, Load, MemoryActor, MemoryMessage, MemoryRaised, MemoryUser
from .persistent import StoredMemory

if TYPE_CHECKING:
    from understudy.orchestration import AgentRun
    from understudy.vocabulary.runs.memory import Memory


T = TypeVar("T")
ATTEMPTS = 3  # The memory's failures in one step after which the run ends, as many as failures of its driver.
PAUSE = 0.1  # Seconds before the second attempt; doubled for the third.


class MemoryFailed(Exception):
    """A memory went on failing: the run is to end, and its agent has not failed.

    Attributes:
        error: what the run ends with.
    """

    def __init__(self, error: AgentCrashed) -> None:
        super().__init__(error)
        self.error = error


def use_memory(record: MemoryUser, epoch: int, doing: str, actor: MemoryActor, message: MemoryMessage[T]) -> T:
    """Have a memory handle a message, again if it fails in its own code. On the thread of the run's driver.

    Raises:
        MemoryFailed: it failed too often, or another attempt cannot help or is not left.
        Stale: the run is over or in other hands; also between two attempts.
        UnderstudyError: as `MemoryActor.call`.
    """
    causes: tuple[BaseException, ...] = ()
    while True:
        try:
            return record.through_outage(epoch, partial(actor.call, record, epoch, doing, message))
        except MemoryRaised as raised:
            causes = (*causes, raised.cause)
        if actor.is_down or not _may_try_again(record, causes):
            raise MemoryFailed(memory_failure(record, causes))
        record.begin_step(epoch, doing)  # the time of a use begins anew with it
        record.scope.sleep(_pause(causes))


def _pause(causes: tuple[BaseException, ...]) -> float:
    return backoff_wait(PAUSE, inf, len(causes) - 1)


def _may_try_again(record: MemoryUser, causes: tuple[BaseException, ...]) -> bool:
    """Whether there is another attempt; if so, take one of the run's retries."""
    cause, left = causes[-1], record.scope.remaining()
    if len(causes) >= ATTEMPTS or isinstance(cause, WrongReturn) or had_its_retries(cause):
        return False
    return (left is None or left > _pause(causes)) and record.scope.take_retry(cause)


class RememberedRun(ConversationUser, MemoryUser, Protocol):
    """A run of an agent that may have a memory."""

    @property
    def machine(self) -> AgentRun | None:
        """What decides the run's steps; None before its first driver has begun."""
        ...


def recall(record: RememberedRun, epoch: int) -> Sequence[Message]:
    """Return the history with which a run begins: `history=`, or the turns that its agent's memory loads."""
    lease = record.lease
    if lease is None or lease.memory is None:
        return record.options.history or ()
    actor, key = lease.memory, lease.line.key
    if actor.is_quick:
        return actor.call_quickly(Load(key, lambda memory: memory.load(key)))
    load = Load(key, lambda memory: _messages(record, _with_rule(record, memory).load(key)))
    known = use_memory(record, epoch, LOADING, actor, load)
    record.begin_step(epoch, "starting")
    return known


def _with_rule(record: RememberedRun, memory: Memory) -> Memory:
    """Refuse a memory whose rule for long conversations came too late: the agent was made before the memory."""
    if isinstance(memory, CompactedMemory) and record.agent.run_spec.compaction is None:
        raise WrongReturn(
            f"the memory of agent {record.agent.id!r} is a CompactedMemory that a function made after the agent, so the agent "
            "does not have its rule: give the rule to the agent too, Agent(compaction=…), or give the memory itself"
        )
    return memory


def _messages(record: RememberedRun, loaded: object) -> list[Message]:
    """Return the loaded messages as a list, which may run the user's code. The rule is that of `history=`."""
    whose = f"the memory of agent {record.agent.id!r}: load"
    returned = loaded  # of no narrower type below
    if not isinstance(loaded, Iterable) or isinstance(loaded, (Mapping, str, bytes, bytearray)):
        raise WrongReturn(f"{whose} must return a sequence of Message objects, got {found_instead(returned)}")
    known = list(cast("Iterable[object]", loaded))
    for message in known:
        if not isinstance(message, Message):
            raise WrongReturn(f"{whose} must return Message objects, got {found_instead(message)} among them")
    messages = cast("list[Message]", known)
    try:
        checked_history(messages)
        check_answered(messages)
    except (TypeError, ValueError) as fault:
        raise WrongReturn(f"{whose} returned messages that are no history: {fault}") from None
    return messages


def _check_stored(record: RememberedRun, method: str, returned: object) -> None:
    """Refuse the result of an `async def` method: nobody awaits it, so nothing is stored."""
    if isinstance(returned, Awaitable):
        what = found_instead(cast(object, returned))
        raise WrongReturn(f"the memory of agent {record.agent.id!r}: {method} must store before it returns, got {what}")


def _append(record: RememberedRun, lease: Lease, memory: Memory, messages: Sequence[Message]) -> None:
    """Add the turn of a run to a memory that may block, and first the summary that the run has made, if the memory keeps one."""
    key = lease.line.key
    summary = None if record.machine is None else lasting_summary(record.machine.state)
    if isinstance(memory, StoredMemory):
        fence = lease.fence(record.root, memory.store)
        if summary is not None:
            memory.summarize(key, summary, record.run_id, fence=fence)
        memory.append(key, messages, record.run_id, fence=fence)
        return
    if summary is not None and isinstance(memory, SummaryMemory):
        summarize = cast("Callable[..., object]", memory.summarize)
        _check_stored(record, "summarize", summarize(key, summary, record.run_id))
    append: Callable[..., object] = memory.append
    _check_stored(record, "append", append(key, messages, record.run_id))


def _came_between(record: RememberedRun, lease: Lease, epoch: int) -> int:
    """Return how many messages others have added since a saved run began.

    A run that was recovered may have added its own turn before its process died. Then others come after that turn.
    """
    machine, actor, key = record.machine, lease.memory, lease.line.key
    assert machine is not None and actor is not None
    if not actor.is_quick and use_memory(record, epoch, LOADING, actor, Load(key, partial(_has_added, record, key))):
        return 0
    return count_new(machine.messages[: machine.state.start], recall(record, epoch))


def _has_added(record: RememberedRun, key: ConversationKey, memory: Memory) -> bool:
    return isinstance(memory, StoredMemory) and memory.has_added(key, record.run_id)


def is_stored(lease: Lease) -> bool:
    """Whether the turn of a run is added to a memory that may outlive the process."""
    return lease.memory is not None and not lease.memory.is_quick


def remember(record: RememberedRun, messages: Sequence[Message], epoch: int) -> Callable[[], object] | None:
    """Store the turn of a run that is done.

    Returns:
        A quick function for the moment in which the run ends, under its lock. With a memory that never blocks it does the whole
        append, so that nothing is stored of a run that another thread ends first.
    """
    lease = record.lease
    if lease is None or lease.memory is None:
        return None
    actor, key = lease.memory, lease.line.key
    if lease.was_saved:
        lease.came_between = _came_between(record, lease, epoch)
    if not actor.is_quick:
        message = Append(key, lambda memory: _append(record, lease, memory, messages))
        use_memory(record, epoch, STORING, actor, message)

    def at_the_end() -> None:
        if actor.is_quick:
            actor.call_quickly(Append(key, lambda memory: memory.append(key, messages, record.run_id)))
        lease.note_stored(len(messages))
        if lease.came_between:
            record.log.note(Diverged(lease.came_between))

    return at_the_end
