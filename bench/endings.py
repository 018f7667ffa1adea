"""The time from the end of a run to the waiting caller's answer, while the work that blocks the run still blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import SimpleQueue

import understudy as us

from .batch import Batch, Round, timing_itself, warmed
from .holding import PATIENCE, Situation
from .measure import Measure, Side
from .situations import SITUATIONS, BackingOff
from .sizes import Sizes

LIMIT = 0.05  # Seconds; people notice a longer delay.
WOKEN = "wake a thread that waits for a threading.Event"
RUNG = "a thread that waits so long for a threading.Event"


def after_cancel(situation: Situation) -> float:
    """Return the time from a cancel to the answer in the thread that waits for the run."""
    handle, answered = situation.submit(), SimpleQueue[float]()
    waiting = threading.Thread(target=_note_answer, args=(handle, answered), name="bench-waiting", daemon=True)
    waiting.start()
    assert situation.held()
    began = time.perf_counter()
    handle.cancel()
    ended = answered.get()
    _clear(situation)
    return ended - began


def _note_answer(handle: us.RunHandle[str], answered: SimpleQueue[float]) -> None:
    assert isinstance(handle.exception(), us.RunCancelled)
    answered.put(time.perf_counter())


def after_deadline(situation: Situation, timeout: float) -> float:
    """Return the time from a run's deadline to the answer in the thread that waits for it."""
    while True:
        situation.prepare()
        deadline = time.perf_counter() + timeout
        handle = situation.submit(timeout)
        held = situation.held(within=timeout)
        assert isinstance(handle.exception(), us.RunTimedOut)
        ended = time.perf_counter()
        _clear(situation)
        if held:
            return ended - deadline
        timeout *= 2  # the machine is too busy to hold the run in that time


def _clear(situation: Situation) -> None:
    """Wait for the threads of a finished run, so that they do not compete with the next sample."""
    situation.release()
    latest = time.monotonic() + PATIENCE
    while situation.system.hung:
        situation.release()  # again, as a call may have arrived after the first release
        assert time.monotonic() < latest, f"{situation.name}: {situation.system.hung} calls hang"
        time.sleep(0.001)


def _wake() -> float:
    event, woken = threading.Event(), SimpleQueue[float]()

    def wait() -> None:
        event.wait()
        woken.put(time.perf_counter())

    threading.Thread(target=wait, name="bench-waiting", daemon=True).start()
    time.sleep(0.001)  # until it waits
    began = time.perf_counter()
    event.set()
    return woken.get() - began


def _ring(timeout: float) -> float:
    began = time.perf_counter()
    threading.Event().wait(timeout)
    return time.perf_counter() - began - timeout


@contextmanager
def _ended(
    kinds: tuple[type[Situation], ...],
    sample: Callable[[Situation], float],
    reference: tuple[str, Callable[[], float]],
    sizes: Sizes,
) -> Generator[Round]:
    with ExitStack() as stack:
        held = [stack.enter_context(kind()) for kind in kinds]
        sides: dict[str, Callable[[int], Batch]] = {
            each.name: partial(timing_itself, partial(sample, each)) for each in held
        }
        label, bare = reference
        yield warmed({**sides, label: partial(timing_itself, bare)}, sizes.samples)


def _sides(kinds: tuple[type[Situation], ...]) -> tuple[Side, ...]:
    return tuple([Side(label=kind.name, target=LIMIT, target_p99=LIMIT) for kind in kinds])


# A client asked to wait beyond the deadline fails at once.
WITH_DEADLINE = tuple([kind for kind in SITUATIONS if kind is not BackingOff])

CANCEL = Measure(
    name="cancel",
    title=lambda _: "from cancel() to RunCancelled in the thread that waits for a run, by what holds the run up",
    ours=_sides(SITUATIONS),
    references=(Side(label=WOKEN),),
    prepare=lambda sizes: _ended(SITUATIONS, after_cancel, (WOKEN, _wake), sizes),
)

DEADLINE = Measure(
    name="deadline",
    title=lambda sizes: f"from a deadline after {sizes.patience * 1000:g} ms to RunTimedOut, by what holds the run up",
    ours=_sides(WITH_DEADLINE),
    references=(Side(label=RUNG),),
    prepare=lambda sizes: _ended(
        WITH_DEADLINE,
        partial(after_deadline, timeout=sizes.patience),
        (RUNG, partial(_ring, sizes.patience)),
        sizes,
    ),
)
