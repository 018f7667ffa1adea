"""Shells: the seam to Pykka, and threads that are lent, parked and reused."""

from __future__ import annotations

import inspect
import threading
import weakref
from typing import cast

import pykka
import pytest

from understudy.actors import shell
from understudy.actors.shell import Shell, ShellPool

WAIT = 10.0  # Seconds after which a test that waits has failed.


class Note:
    """Something to run: notes its thread and says that it ran."""

    def __init__(self) -> None:
        self.ran = threading.Event()
        self.thread: threading.Thread | None = None

    def run_turns(self) -> None:
        self.thread = threading.current_thread()
        self.ran.set()


def wait_until_idle(pool: ShellPool, number: int) -> None:
    """Lend nothing until `number` shells are parked; there is no event for it, so ask again, with an end."""
    tries = threading.Event()
    for _ in range(int(WAIT * 1000)):
        if pool.idle >= number:
            return
        tries.wait(0.001)
    pytest.fail(f"{pool.idle} shells are idle, expected {number}")


def test_pykka_still_has_the_hooks_that_a_shell_overrides() -> None:
    hooks = {
        "_actor_loop": ["self"],
        "on_start": ["self"],
        "on_receive": ["self", "message"],
    }

    found = {name: list(inspect.signature(getattr(pykka.ThreadingActor, name)).parameters) for name in hooks}

    assert found == hooks


def test_a_shell_has_all_that_pykkas_own_constructor_sets() -> None:
    class Bare(pykka.ThreadingActor):
        """An actor as Pykka makes it."""

    made = Shell(ShellPool(), Note(), "understudy-0")

    assert vars(Bare()).keys() <= vars(made).keys()
    assert vars(Bare()).keys() == {"actor_urn", "actor_inbox", "actor_stopped", "_actor_ref"}
    assert str(made) == "Shell (understudy-0)"


def test_a_shell_is_a_pykka_actor_that_no_registry_knows() -> None:
    pool, note = ShellPool(), Note()

    pool.lend(note)

    assert note.ran.wait(WAIT)
    assert issubclass(Shell, pykka.ThreadingActor)
    assert pykka.ActorRegistry.get_all() == []


def test_a_parked_shell_is_lent_again_before_a_thread_is_started() -> None:
    pool, first, second = ShellPool(), Note(), Note()

    pool.lend(first)
    assert first.ran.wait(WAIT)
    wait_until_idle(pool, 1)
    pool.lend(second)

    assert second.ran.wait(WAIT)
    assert second.thread is first.thread


def test_shells_are_daemons_with_names() -> None:
    pool, note = ShellPool(), Note()

    pool.lend(note)

    assert note.ran.wait(WAIT)
    assert note.thread is not None and note.thread.daemon
    assert note.thread.name.startswith("understudy-")


def test_a_parked_shell_keeps_nothing_it_ran_alive() -> None:
    pool, note = ShellPool(), Note()
    gone = weakref.ref(note)

    pool.lend(note)
    assert note.ran.wait(WAIT)
    del note
    wait_until_idle(pool, 1)

    assert gone() is None


def test_a_shell_that_is_idle_for_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "IDLE_SECONDS", 0.01)
    pool, note = ShellPool(), Note()

    pool.lend(note)
    assert note.ran.wait(WAIT)
    assert note.thread is not None
    note.thread.join(WAIT)

    assert not note.thread.is_alive()
    assert pool.idle == 0


def test_a_cell_that_is_handed_over_runs_on_the_same_thread_afterwards() -> None:
    pool, after = ShellPool(), Note()

    class Hands(Note):
        def run_turns(self) -> None:
            shell.hand_over(after)
            assert not after.ran.is_set()
            super().run_turns()

    before = Hands()
    pool.lend(before)

    assert after.ran.wait(WAIT)
    assert after.thread is before.thread


def test_only_the_first_cell_handed_over_waits_for_the_turn_to_end() -> None:
    pool, after, beside = ShellPool(), Note(), Note()

    class Hands(Note):
        def run_turns(self) -> None:
            shell.hand_over(after)
            shell.hand_over(beside)
            assert beside.ran.wait(WAIT)  # runs while this turn still goes on
            super().run_turns()

    hands = Hands()
    pool.lend(hands)

    assert after.ran.wait(WAIT)
    assert beside.thread is not hands.thread


def test_outside_of_a_shell_a_cell_handed_over_is_lent() -> None:
    note = Note()

    shell.hand_over(note)

    assert note.ran.wait(WAIT)
    assert note.thread is not threading.current_thread()


def test_a_cell_that_was_handed_on_to_another_shell_is_run_once() -> None:
    pool, after, left = ShellPool(), Note(), list[bool]()

    class HandsOn(Note):
        def run_turns(self) -> None:
            shell.hand_over(after)
            shell.lend_next()
            here = shell.here()
            left.append(here is not None and here.next is not None)
            super().run_turns()

    hands = HandsOn()
    pool.lend(hands)

    assert hands.ran.wait(WAIT) and after.ran.wait(WAIT)
    assert left == [False]


class Bell:
    """A gate that keeps nobody, and notes whom its release would wake."""

    def __init__(self, woken: list[str], name: str) -> None:
        self._woken = woken
        self._name = name

    def acquire(self, timeout: float = -1) -> bool:
        return True

    def release(self) -> None:
        self._woken.append(self._name)


def resting_in(pool: ShellPool, woken: list[str], *names: str) -> None:
    """Park a shell without a thread for each name; the last one is lent first."""
    for name in names:
        resting = Shell(pool, Note(), name)
        resting.slot.gate = cast("threading.Lock", Bell(woken, name))
        pool.park(resting, resting.slot.gate)


def test_of_shells_lent_at_once_each_that_arrives_wakes_one() -> None:
    pool, woken = ShellPool(waking=2), list[str]()
    resting_in(pool, woken, "d", "c", "b", "a")

    for _ in range(4):
        pool.lend(Note())

    assert woken == ["a", "b"]
    pool.arrived()
    assert woken == ["a", "b", "c"]
    pool.arrived()
    assert woken == ["a", "b", "c", "d"]


def test_when_all_have_arrived_a_shell_that_is_lent_is_woken_at_once() -> None:
    pool, woken = ShellPool(waking=1), list[str]()
    resting_in(pool, woken, "b", "a")

    pool.lend(Note())
    pool.arrived()
    pool.lend(Note())

    assert woken == ["a", "b"]


class InterruptedBell(Bell):
    """A gate at whose release a Ctrl-C comes: once the call is done, which is when Python looks for one."""

    def release(self) -> None:
        super().release()
        raise KeyboardInterrupt


class InterruptedLock:
    """A pool's lock at whose first release a Ctrl-C comes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupts = True

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._interrupts:
            self._interrupts = False
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", ["the gate", "the lock"])
def test_a_ctrl_c_while_a_shell_is_woken_loses_neither_it_nor_its_place(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, woken, note = ShellPool(waking=1), list[str](), Note()
    resting_in(pool, woken, "c", "b")
    interrupted = Shell(pool, Note(), "a")
    gate = (InterruptedBell if at == "the gate" else Bell)(woken, "a")
    interrupted.slot.gate = cast("threading.Lock", gate)
    pool.park(interrupted, interrupted.slot.gate)
    if at == "the lock":
        monkeypatch.setattr(pool, "_lock", InterruptedLock())

    with pytest.raises(KeyboardInterrupt):
        pool.lend(note)

    assert (woken, interrupted.slot.given) == (["a"], note)
    pool.lend(Note())
    assert woken == ["a"]  # it has the only place
    pool.arrived()
    assert woken == ["a", "b"]
    pool.arrived()
    pool.lend(Note())
    assert woken == ["a", "b", "c"]  # and gave it back


def test_a_shell_says_when_it_has_arrived() -> None:
    pool = ShellPool(waking=1)

    for _ in range(3):  # the first one starts the thread, and each of the others wakes it
        note = Note()
        pool.lend(note)
        assert note.ran.wait(WAIT)
        wait_until_idle(pool, 1)


def test_a_shell_that_is_lent_in_the_moment_it_gives_up_waiting_runs_the_cell() -> None:
    pool, note = ShellPool(), Note()
    resting = Shell(pool, note, "resting")

    class LentTooLate:
        """A gate at which the wait ends, and the shell is lent before it can leave."""

        def acquire(self, timeout: float = -1) -> bool:
            if timeout < 0:
                return resting.slot.gate.acquire(timeout=WAIT)
            pool.lend(note)
            return False

    stays = pool.park(resting, cast("threading.Lock", LentTooLate()))

    assert stays
    assert resting.slot.given is note
