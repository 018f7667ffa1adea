"""What a worker process is like, so that what one call did to it harms no later one."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

MANY_THREADS = 100  # Left behind: more than any library keeps, and what starts as many will do so again.


@dataclass(frozen=True, slots=True)
class ProcessBaseline:
    """What calls share besides the modules that they import, as it was before the first one.

    A call that changed any of it has had its way; its process is used no more. Variables that were added to the environment
    count for nothing, as libraries do so when they are imported.
    """

    folder: str | None = field(default_factory=lambda: _folder())
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    streams: tuple[object, ...] = field(default_factory=lambda: _streams())
    limits: tuple[float, ...] = field(default_factory=lambda: _limits())
    memory: int = field(default_factory=lambda: _memory())
    memory_limit: int | None = None

    def is_kept(self) -> bool:
        """Whether the process is as it was."""
        return (
            _folder() == self.folder
            and all(os.environ.get(name) == value for name, value in self.environment.items())
            and _streams() == self.streams
            and all(now >= then for now, then in zip(_limits(), self.limits, strict=True))
            and signal.getitimer(signal.ITIMER_REAL)[0] == 0
            and threading.active_count() <= MANY_THREADS
            and self._has_room()
        )

    def _has_room(self) -> bool:
        """Whether at least half of the memory is left that the first call had."""
        return self.memory_limit is None or _memory() - self.memory <= (self.memory_limit - self.memory) / 2


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _streams() -> tuple[object, ...]:
    """Return where output goes, and whether it gets there."""
    open_ones: list[int] = []
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            found = os.fstat(descriptor)
            open_ones += [descriptor, found.st_dev, found.st_ino]
    return (*open_ones, *[(id(stream), stream is not None and stream.closed) for stream in (sys.stdout, sys.stderr)])


def _limits() -> tuple[float, ...]:
    import resource

    kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_AS)
    soft = [resource.getrlimit(kind)[0] for kind in kinds]
    return (sys.getrecursionlimit(), *[inf if each == resource.RLIM_INFINITY else each for each in soft])


def _memory() -> int:
    """Return the bytes of address space in use; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
