"""`SupervisorRef`: the address of a group of actors."""

from __future__ import annotations

from understudy.actors.threads.promise import Promise

from .supervisor import SupervisorCell


class SupervisorRef:
    """A group of actors that was spawned together."""

    __slots__ = ("_supervisor",)

    def __init__(self, supervisor: SupervisorCell) -> None:
        self._supervisor = supervisor

    @property
    def address(self) -> str:
        """The group's name in its system: `SYSTEM/ID`."""
        return self._supervisor.name

    def is_alive(self) -> bool:
        """Whether it works; False once it has failed more often than its strategy bears."""
        return self._supervisor.cause is None

    def stop(self, timeout: float | None = None) -> bool:
        """Stop the children, the last one first, each after what it has to do.

        Args:
            timeout: seconds to wait for the end; None does not wait.

        Returns:
            Whether all have stopped.
        """
        stopped: Promise[None] = Promise()
        self._supervisor.stop_then(lambda: stopped.set(None))
        return stopped.done if timeout is None else stopped.wait(timeout)

    def __repr__(self) -> str:
        return f"SupervisorRef({self.address!r})"
