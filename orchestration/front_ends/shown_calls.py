"""The tool calls of a run that a front end shows, under ids that are unique there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from understudy.vocabulary.messages import ToolCall
from understudy.vocabulary.runs.events import ToolCallDelta, ToolFinished
from understudy.vocabulary.runs.outcome_data import plain_call

from .interrupts import is_id
from .parts import CallBegan, CallDone, CallGrew, CallReady, CallVoid, Mark
from .sse import json_text


@dataclass(slots=True)
class _Written:
    """A call whose arguments the model is writing."""

    name: str = ""
    call_id: str = ""
    texts: list[str] = field(default_factory=list[str])
    id: str = ""
    """Empty until the call is shown."""


@dataclass(slots=True)
class _Open:
    """A call that is shown and has no result."""

    name: str
    has_text: bool = False
    is_ready: bool = False


class ShownCalls:
    """Finds the parts of tool calls. For one run, and one thread at a time.

    A provider's id is unique in its turn alone, so a call whose id was used in an earlier turn gets another one. An id
    that the runtime made up begins with the id of the run, because the runs of a conversation make up the same ones.

    Args:
        run_id: of the run.
        is_inner: whether the run is inside of the one that the front end follows: then all ids begin with its id.
        shown: ids of calls that the front end has from before a pause, in order.
    """

    __slots__ = ("_ids", "_is_inner", "_open", "_run_id", "_shown", "_taken", "_written")

    def __init__(self, run_id: str, *, is_inner: bool, shown: Sequence[str]) -> None:
        self._run_id = run_id
        self._is_inner = is_inner
        self._shown = tuple(shown)
        self._taken = set(shown)
        self._ids: dict[str, str] = {}
        """Id of a call of this turn -> the id that the front end has."""
        self._written: dict[int, _Written] = {}
        """Number of a call of this attempt -> what came of it."""
        self._open: dict[str, _Open] = {}

    def ids(self) -> tuple[str, ...]:
        """Return the ids of the calls without a result."""
        return tuple(self._open)

    def begin_turn(self) -> None:
        """Take the calls that follow for those of a new turn, or of another attempt at the same one."""
        self._shown = ()
        self._ids.clear()
        self._written.clear()

    def write(self, event: ToolCallDelta, text_id: str, *, from_start: bool) -> Iterator[Mark]:
        """Show a piece of a call's arguments.

        A call without an id of its own is shown when it is whole, for the runtime makes up its id then. So is a call whose
        beginning the reader may have missed.
        """
        call = self._written.setdefault(event.index, _Written())
        call.name = call.name or event.name
        if call.id:
            if event.text:
                self._open[call.id].has_text = True
                yield CallGrew(call.id, event.text)
            return
        call.call_id = call.call_id or event.call_id
        call.texts.append(event.text)
        is_usable = call.call_id.isascii() and call.call_id not in self._ids
        if from_start and call.name and call.call_id and is_usable:
            call.id = self._new_id(call.call_id, made_up=False)
            text = "".join(call.texts)
            self._open[call.id] = _Open(call.name, has_text=bool(text))
            yield CallBegan(call.id, call.name, text_id)
            if text:
                yield CallGrew(call.id, text)

    def end_turn(self, calls: Sequence[ToolCall]) -> Iterator[Mark]:
        """End the calls that the model has written.

        Args:
            calls: the calls of the turn, with the ids of the provider.
        """
        first = {call.id: call for call in reversed(calls)}  # a later call with the same id gets another one
        is_whole = len(self._written) == len(calls)
        for position, index in enumerate(sorted(self._written)):
            written = self._written[index]
            if written.id not in self._open:
                continue
            call = first.get(written.call_id)
            if call is None or call.name != written.name or (is_whole and call is not calls[position]):
                self._ids.pop(written.call_id, None)
                yield self._void(written.id, "The call is not part of the turn.")
            else:
                yield from self._ready(written.id, call)
        self._written.clear()

    def show(self, call: ToolCall, text_id: str) -> Iterator[Mark]:
        """Show a call that is whole, as far as the front end has it not."""
        id = self._ids.get(call.id)
        if id is None:
            id = self._from_before(call)
        if id is None:
            id = self._new_id(call.id, made_up=call.made_up_id)
            self._open[id] = _Open(call.name)
            yield CallBegan(id, call.name, text_id)
        if id in self._open:
            yield from self._ready(id, call)

    def done(self, event: ToolFinished, text_id: str) -> Iterator[Mark]:
        """Show the result of a call; the first one, should there be several."""
        yield from self.show(event.call, text_id)
        id = self._ids[event.call.id]
        if self._open.pop(id, None) is not None:
            yield CallDone(id, event)

    def void(self, why: str, keep: Collection[str] = ()) -> Iterator[Mark]:
        """End all calls that get no result.

        Args:
            why: in words for the user.
            keep: ids of calls that stay open: they wait for a person, or for a run inside that waits for one.
        """
        for id in [id for id, call in self._open.items() if id not in keep or not call.is_ready]:
            yield self._void(id, why)
        self._written.clear()

    def id_of(self, call: ToolCall) -> str:
        """Return the id that the front end has of a call that was shown."""
        return self._ids[call.id]

    def _ready(self, id: str, call: ToolCall) -> Iterator[Mark]:
        state = self._open[id]
        if state.is_ready:
            return
        if not state.has_text:
            yield CallGrew(id, arguments_text(call))
        state.is_ready = True
        yield CallReady(id, call)

    def _void(self, id: str, why: str) -> Mark:
        state = self._open.pop(id)
        return CallVoid(id, state.name, state.is_ready, why)

    def _from_before(self, call: ToolCall) -> str | None:
        """Return the id of a call that was shown before the run paused."""
        whole = f"{self._run_id}.{call.id}"
        for id in reversed(self._shown):
            if id == whole or (not self._is_inner and _may_be(id, call.id)):
                self._ids[call.id] = id
                self._open[id] = _Open(call.name, has_text=True, is_ready=True)
                return id
        return None

    def _new_id(self, call_id: str, *, made_up: bool) -> str:
        id = f"{self._run_id}.{call_id}" if made_up or self._is_inner else call_id
        again = 1
        while id in self._taken:
            again += 1
            id = f"{self._run_id}.{again}.{call_id}"
        self._taken.add(id)
        self._ids[call_id] = id
        return id


def _may_be(id: str, call_id: str) -> bool:
    return id == call_id or (id.endswith(f".{call_id}") and not is_id(id))


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as JSON, or the model's own text if they are no JSON object."""
    return json_text(plain_call(call)["arguments"]) if call.bad_arguments is None else call.bad_arguments
