"""The cell of a user's actor: it starts, is restarted when it fails, is given up when it fails too often, and stops."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from understudy.errors import AgentCrashed, AgentDown
from understudy.messaging import Down, Mailbox
from understudy.orchestration.supervision import LONGEST_BACKOFF, RestartBudget, RestartLimit

from .actor import Actor
from .cell import Behaviour, Cell, Envelope, Fate
from .mailbox import Put
from .reply import Reply
from .shell import on_a_shell

if TYPE_CHECKING:
    from collections.abc import Generator

ActorState: TypeAlias = Literal["starting", "running", "down", "stopping", "stopped"]

START, STOP = object(), object()
log = logging.getLogger("understudy")


class ActorCell(Cell):
    """One actor of the user's, under its name.

    A failure fails the message in hand, and the next one meets a fresh object from the factory, on the same mailbox. When
    failures come faster than the limit allows, the actor is given up: it answers `AgentDown` with the cause, and makes one
    attempt more after `LONGEST_BACKOFF` seconds.
    """

    __slots__ = (
        "_budget",
        "_cause",
        "_lock",
        "_make",
        "_policy",
        "_retry_at",
        "_watchers",
        "busy_since",
        "restarts",
        "state",
        "stopped",
    )

    def __init__(
        self, address: str, make: Callable[[], Actor[object]], *, mailbox: Mailbox, limit: RestartLimit
    ) -> None:
        super().__init__(address, self._begin, capacity=mailbox.capacity)
        self._make = make
        self._policy = mailbox
        self._budget = RestartBudget(limit)
        self._cause: BaseException | None = None
        self._retry_at = 0.0
        self._lock = threading.Lock()
        """Guards the watchers and the end."""
        self._watchers: list[Callable[[Down], object]] = []
        self.state: ActorState = "starting"
        self.restarts = 0
        self.busy_since: float | None = None
        self.stopped: Reply[None] = Reply()
        """Completes when the actor has stopped; fails with the cause if `on_stop` did."""

    # --- from any thread

    def start(self) -> None:
        """Have the actor's `on_start` run before any message."""
        self.tell(START, system=True)

    def stop(self) -> None:
        """Accept nothing more, handle what waits, then stop. A second call does nothing."""
        if self._mailbox.close(Envelope(STOP)) is Put.WAKE:
            self._wake(False)

    def send(self, envelope: Envelope, timeout: float) -> Put:
        """Put a user's message; outside of actors, and with the policy `block`, wait up to `timeout` seconds for room."""
        if self._policy.when_full == "block" and not on_a_shell():
            put = self._mailbox.put_waiting(envelope, timeout)
        else:
            put = self._mailbox.put(envelope)
        self._sent(envelope, put, False)
        return put

    def watch(self, watcher: Callable[[Down], object]) -> None:
        """Call `watcher` with one `Down`, when the actor stops or is given up; at once if it has."""
        with self._lock:
            if self.state not in ("down", "stopped"):
                self._watchers.append(watcher)
                return
        watcher(Down(self.address, self._cause, self.epoch))

    @property
    def oldest_age(self) -> float:
        """Seconds since the longest waiting message was sent; 0 if none waits."""
        oldest = self._mailbox.oldest()
        return 0.0 if oldest is None else time.monotonic() - oldest.sent

    # --- on the actor's thread

    def _handle(self, envelope: Envelope) -> None:
        with self._busy():
            if envelope.message is START:
                self._start()
                self.finish(envelope, Fate.HANDLED)
            elif envelope.message is STOP:
                self._stop()
                self.finish(envelope, Fate.HANDLED)
            elif self.state == "down" and not self._try_again():
                self.finish(envelope, Fate.DEAD, error=self._down_error())
            else:
                super()._handle(envelope)

    @contextmanager
    def _busy(self) -> Generator[None]:
        self.busy_since = time.monotonic()
        try:
            yield
        finally:
            self.busy_since = None

    def _begin(self) -> Actor[object]:
        actor = self._make()
        actor.on_start()
        return actor

    def _start(self) -> None:
        try:
            self._behaviour = self._begin()
            self.state = "running"
        except BaseException as cause:
            self._restart(cause)

    def _failed(self, envelope: Envelope, cause: BaseException) -> None:
        old, self._behaviour = self._behaviour, None
        error = AgentCrashed(f"{self.address} failed: {type(cause).__name__}: {cause}", actor=self.address)
        error.__cause__ = cause
        if old is not None:
            self._guard("before_restart", partial(_actor(old).before_restart, cause, envelope.message))
        if envelope.reply is None:  # nobody waits to be told
            log.error("%s", error, exc_info=cause)
        self.finish(envelope, Fate.FAILED, error=error)
        self._restart(cause)

    def _restart(self, cause: BaseException) -> None:
        """Replace the behaviour, in place; failures to start burn the same budget."""
        while self._budget.spend(time.monotonic()):
            self.epoch += 1
            self.restarts += 1
            try:
                self._behaviour = self._begin()
                self.state = "running"
                return
            except BaseException as again:
                cause = again
        self._give_up(cause)

    def _give_up(self, cause: BaseException) -> None:
        self._cause = cause
        self._retry_at = time.monotonic() + LONGEST_BACKOFF
        self._announce("down")

    def _try_again(self) -> bool:
        """Make the one attempt that an actor that was given up has after a while."""
        if time.monotonic() < self._retry_at:
            return False
        try:
            self._behaviour = self._begin()
        except BaseException as cause:
            self._cause = cause
            self._retry_at = time.monotonic() + LONGEST_BACKOFF
            return False
        self.epoch += 1
        self.restarts += 1
        self._budget.renew()
        self._cause = None
        self.state = "running"
        return True

    def _down_error(self) -> AgentDown:
        error = AgentDown(f"{self.address} failed too often and is given up for now: {self._cause}", actor=self.address)
        error.__cause__ = self._cause
        return error

    def _stop(self) -> None:
        old, self._behaviour = self._behaviour, None
        if old is not None:
            self._guard("on_stop", _actor(old).on_stop)
        self._announce("stopped")
        self.stopped.set(None)

    def _announce(self, state: ActorState) -> None:
        with self._lock:
            self.state = state
            watchers, self._watchers = self._watchers, []
        down = Down(self.address, self._cause, self.epoch)
        for watcher in watchers:
            self._guard("a watcher", partial(watcher, down))

    def _guard(self, what: str, call: Callable[[], object]) -> None:
        """Run a hook; its failure changes nothing about what happens to the actor."""
        try:
            call()
        except BaseException:
            log.exception("%s: %s failed", self.address, what)


def _actor(behaviour: Behaviour) -> Actor[object]:
    assert isinstance(behaviour, Actor)  # what `_begin` made
    return cast("Actor[object]", behaviour)
