"""Runs that pause in one process and go on in another, whatever becomes of the first."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import pytest

import understudy as us
from tests.support.stores import sqlite_pauses
from understudy.actors.stores.database import Sql
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.store import Store
from understudy.testing import says

from .forking import in_child
from .processes import WAIT, output, started

T = TypeVar("T")

pytestmark = pytest.mark.timeout(60)
NEEDS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Till:
    """A process that has the agent and a store, and does as it is told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert self.hear() == "ready"

    def say(self, *words: str) -> None:
        assert self.process.stdin is not None
        print(*words, file=self.process.stdin, flush=True)

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def pause(self, order: str, ledger: Path) -> str:
        self.say("pause", order, str(ledger))
        return self.hear()

    def approve(self, *tokens: str) -> str:
        self.say("approve", *tokens)
        return self.hear()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT)


@contextmanager
def till(folder: Path) -> Generator[Till]:
    with started("-m", "tests.hosts.cashier", f"sqlite:///{folder}/shop.db", stdin=subprocess.PIPE) as process:
        yield Till(process)


def paid(ledger: Path) -> list[str]:
    return sorted(ledger.read_text().split()) if ledger.exists() else []


def test_a_run_goes_on_in_another_process_after_the_first_was_killed(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with till(tmp_path) as first:
        token = first.pause("7", ledger)
        first.kill()
    assert paid(ledger) == []

    with till(tmp_path) as second:
        assert second.approve(token) == "paid for 7"
        assert second.approve(token) == "TokenUsed"
        assert second.approve(token[:-1]) == "UnknownToken"

    assert paid(ledger) == ["7"]


def test_of_several_processes_that_bring_the_same_tokens_one_goes_on_with_each(tmp_path: Path) -> None:
    ledger, orders = tmp_path / "ledger", [str(number) for number in range(10)]
    with ExitStack() as stack:
        tills = [stack.enter_context(till(tmp_path)) for _ in range(4)]
        tokens = [tills[number % 4].pause(order, ledger) for number, order in enumerate(orders)]
        for one in tills:
            one.say("approve", *tokens)
        said = [one.hear().split(", ") for one in tills]

    for order, ends in zip(orders, zip(*said, strict=True), strict=True):
        assert sorted(ends) == ["TokenUsed"] * 3 + [f"paid for {order}"]
    assert paid(ledger) == orders


def test_processes_that_pause_into_one_file_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    with ExitStack() as stack:
        tills = [stack.enter_context(till(tmp_path)) for _ in range(3)]
        for number in range(30):
            for who, one in enumerate(tills):
                one.say("pause", f"{who}-{number}", str(tmp_path / "ledger"))
        tokens = [one.hear() for _ in range(30) for one in tills]
        assert tills[0].approve(*tokens).count("paid for") == 90


def test_a_run_whose_process_is_killed_when_it_went_on_is_kept_as_taken(tmp_path: Path) -> None:
    out = output(f"""
        import os, signal, subprocess, sys, textwrap
        from tests.hosts import cashier
        import understudy as us

        us.configure(store="sqlite:///{tmp_path}/shop.db")
        token = cashier.pause("7", "{tmp_path}/ledger")
        code = '''
        import os, signal
        from tests.hosts import cashier
        import understudy as us
        def die(request): os.kill(os.getpid(), signal.SIGKILL)
        us.configure(store="sqlite:///{tmp_path}/shop.db")
        with cashier.cashier.override(model=us.FunctionModel(die)):
            cashier.approve({{token!r}})
        '''
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code.format(token=token))])
        print(done.returncode, cashier.approve(token), token)
    """)

    status, again, token = out.split()
    kept = sqlite_pauses(f"{tmp_path}/shop.db").get(token.rsplit(".", 2)[0])
    assert (int(status), again) == (-signal.SIGKILL, "TokenUsed")
    assert kept is not None
    assert (kept.state, "refund" in kept.payload) == ("taken", True)
    assert paid(tmp_path / "ledger") == ["7"]


@pytest.mark.parametrize("after", [1, 2, 5, 11])
def test_a_process_that_is_killed_at_work_spoils_nothing_and_nothing_runs_twice(after: int, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with till(tmp_path) as first:
        first.say("work", str(ledger))
        tokens = [first.hear() for _ in range(after)]
        first.kill()  # while it approves of the last one, or pauses the next
        assert first.process.stdout is not None
        tokens += first.process.stdout.read().split()

    with till(tmp_path) as second:
        said = second.approve(*tokens).split(", ")
        third = second.pause("third", ledger)
        assert second.approve(third) == "paid for third"

    *finished, last = said  # only the last one may have been left, or be on its way
    assert finished == ["TokenUsed"] * len(finished)
    assert last in ("TokenUsed", f"paid for {len(finished)}")
    orders = paid(ledger)
    assert len(orders) == len(set(orders))
    assert set(orders) >= {str(number) for number in range(len(finished))} | {"third"}


# --- the default system


def test_the_environment_names_the_default_systems_store_when_that_starts(tmp_path: Path) -> None:
    out = output(f"""
        import os
        import understudy as us
        from tests.hosts.cashier import approve, pause

        os.environ["UNDERSTUDY_STORE"] = "sqlite:///{tmp_path}/shop.db"
        token = pause("7", "{tmp_path}/ledger")
        with us.ActorSystem("other", store=os.environ["UNDERSTUDY_STORE"]) as other:
            from tests.hosts.cashier import cashier
            print(cashier.resume(token, us.Approve(), system=other).text)
    """)

    assert out == "paid for 7\n"


def test_a_bad_name_in_the_environment_is_raised_at_the_first_run_with_the_variables_name() -> None:
    out = output("""
        import os
        os.environ["UNDERSTUDY_STORE"] = "shop.db"
        from tests.hosts.cashier import pause
        for _ in range(2):
            try:
                pause("7", "ledger")
            except ValueError as error:
                print(str(error)[:44])
        os.environ["UNDERSTUDY_STORE"] = "sqlite:////nowhere/at/all.db"
        import understudy as us
        try:
            pause("7", "ledger")
        except us.StoreError as error:
            print(error)
        os.environ["UNDERSTUDY_STORE"] = ""
        print(pause("7", "ledger").count("."))
    """)

    assert out.splitlines() == [
        "UNDERSTUDY_STORE: store 'shop.db': expected ",
        "UNDERSTUDY_STORE: store 'shop.db': expected ",
        "store sqlite:////nowhere/at/all.db: there is no folder /nowhere/at; expected one in which the file can be made",
        "1",
    ]


def test_the_default_system_can_be_set_up_to_require_users() -> None:
    out = output("""
        import understudy as us
        from understudy.testing import ScriptedModel, says

        us.configure(require_user=True)
        us.configure(store="memory:")
        agent = us.Agent("chat", model=ScriptedModel([says("Yes.")]), memory=us.InMemoryMemory())
        try:
            agent.run("go", conversation_id="c-42")
        except ValueError as error:
            print(error)
        print(agent.run("go", conversation_id="c-42", user_id="ada").text)
    """)

    refusal, answer = out.splitlines()
    assert refusal.startswith("agent 'chat' remembers conversation 'c-42', and no user_id says whose it is")
    assert answer == "Yes."


def test_what_was_configured_stands_above_the_environment_and_is_too_late_after_a_run(tmp_path: Path) -> None:
    out = output(f"""
        import os
        import understudy as us
        from tests.hosts.cashier import approve, pause

        os.environ["UNDERSTUDY_STORE"] = "sqlite:///{tmp_path}/shop.db"
        us.configure(store="sqlite:///{tmp_path}/other.db")
        us.configure(store="memory:")
        token = pause("7", "{tmp_path}/ledger")
        try:
            us.configure(store="sqlite:///{tmp_path}/other.db")
        except RuntimeError as error:
            print(error)
        print(approve(token), sorted(name for name in os.listdir("{tmp_path}") if name[-4:] not in ("-wal", "-shm")))
    """)

    assert out.splitlines() == [
        "the default system of this process is in use already; call us.configure(…) before the first run",
        "paid for 7 ['ledger', 'other.db']",
    ]


@NEEDS_FORK
def test_forked_children_have_the_parents_store_and_may_be_given_another(tmp_path: Path) -> None:
    out = output(f"""
        import os, sys
        import understudy as us
        from tests.hosts.cashier import approve, pause
        from tests.hosts.forking import in_child

        ledger = "{tmp_path}/ledger"
        us.configure(store="sqlite:///{tmp_path}/shop.db")
        token = pause("parents", ledger)

        def same():
            assert approve(token) == "paid for parents"
            os.write(1, (pause("childs", ledger) + "\\n").encode())

        def other():
            us.configure(store="sqlite:///{tmp_path}/other.db")
            assert approve(token) == "UnknownToken"
            assert approve(pause("others", ledger)) == "paid for others"
            try:
                us.configure(store="memory:")
            except RuntimeError:
                os.write(1, b"too late\\n")

        in_child(other)
        in_child(same)
        print(approve(token))
    """)

    first, second, third = out.splitlines()
    assert (first, third) == ("too late", "TokenUsed")
    with till(tmp_path) as one:
        assert one.approve(second) == "paid for childs"
    assert paid(tmp_path / "ledger") == ["childs", "others", "parents"]


class Asked(SQLiteDatabase):
    """Counts how often each process asks it for something."""

    def __init__(self, path: str) -> None:
        self.asked = Counter[int]()
        super().__init__(path)

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        self.asked[os.getpid()] += 1
        return super().write(work, durable=durable)

    def read(self, work: Callable[[Sql], T]) -> T:
        self.asked[os.getpid()] += 1
        return super().read(work)


@NEEDS_FORK
@pytest.mark.parametrize("recover", ["always", None])
def test_a_fork_asks_no_database_until_the_child_has_a_run(recover: Literal["always"] | None, tmp_path: Path) -> None:
    """A server that is away would hold up each fork of the process, and a child without runs needs no connection."""
    database = Asked(str(tmp_path / "shop.db"))
    clerk = us.Agent("clerk", model=us.FunctionModel(lambda _: says("done")))
    with us.ActorSystem("shop", store=Store(database), recover=recover) as system:

        def forked() -> None:
            assert database.asked[os.getpid()] == 0
            assert clerk.run("go", system=system).text == "done"
            assert database.asked[os.getpid()] > 0

        in_child(forked)
