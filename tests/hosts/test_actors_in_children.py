"""Systems, actors and futures that were made before a fork, seen from the child."""

from __future__ import annotations

import os
import textwrap

import pytest

from . import processes

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.timeout(60),
]

HEAD = """
import os, signal, threading, time
import understudy as us
from tests.hosts.clerk import clerk, work
from tests.hosts.forking import in_child

class Counter(us.Actor):
    def on_start(self):
        self.seen = 0

    def on_receive(self, message):
        if message == "wait":
            entered.set()
            gate.wait()
        self.seen += 1
        return self.seen

    def on_stop(self):
        ended.append(os.getpid())

entered, gate, ended = threading.Event(), threading.Event(), []
system = us.ActorSystem("own")

def refused(ref):
    began = time.monotonic()
    try:
        ref.ask("count")
    except us.AgentDown as error:
        assert str(error) == f"{ref.address} belongs to the process that forked this one", error
        return time.monotonic() - began < 5
    return False
"""


def check(body: str) -> None:
    processes.check(HEAD + textwrap.dedent(body))


def test_an_actor_of_the_parent_is_down_in_the_child_and_goes_on_in_the_parent() -> None:
    check("""
        idle, busy = system.spawn(Counter, name="idle"), system.spawn(Counter, name="busy")
        group = system.spawn(us.Supervisor("group", [
            us.Child(Counter, name="first"), us.Supervisor("inner", [us.Child(Counter, name="second")])
        ]))
        first, second = system.find("first"), system.find("second")
        refs = [idle, busy, first, second]
        idle.ask("count")
        slow = busy.ask_future("wait")
        entered.wait()

        def look():
            assert all([refused(ref) for ref in refs])
            downs = []
            for ref in refs:
                ref.tell("nobody hears it")
                ref.on_down("test", downs.append)
                assert not ref.is_alive()
                assert ref.stop(timeout=5) is False
            assert [down.actor for down in downs] == [ref.address for ref in refs]
            assert all([isinstance(down.reason, us.AgentDown) for down in downs])
            assert not group.is_alive()
            assert group.stop(timeout=5) is False
            assert ended == []

        in_child(look)
        gate.set()
        assert (slow.result(10), idle.ask("count"), busy.ask("count"), group.is_alive()) == (1, 2, 2, True)
        assert first.ask("count") == second.ask("count") == 1
        assert system.stop() == ()
    """)


def test_a_system_made_before_the_fork_has_fresh_actors_in_the_child() -> None:
    check("""
        old = system.spawn(Counter, name="counter")
        old.ask("count")

        class Late(us.Actor):
            def on_start(self):
                self.after(0.01, "now")

            def on_receive(self, message):
                late.set()

        late = threading.Event()

        def use():
            assert system.tree() == "own"
            new = system.spawn(Counter, name="counter")
            assert new.ask("count") == 1 and refused(old)
            assert system.find("counter").ask("count") == 2
            system.spawn(us.Supervisor("group", [us.Child(Counter, name="member")]))
            assert system.find("member").ask("count") == 1
            system.spawn(Late)
            assert late.wait(10)
            assert clerk.run("21", system=system).text.split()[0] == "42"
            assert system.health().ok
            assert system.stop() == ()
            assert ended == [os.getpid()] * 2

        in_child(use)
        assert old.ask("count") == 2 and system.find("counter") == old
    """)


def test_a_system_that_was_stopped_before_the_fork_stays_stopped() -> None:
    check("""
        system.stop()

        def refuse():
            for use in (lambda: clerk.run("1", system=system), lambda: system.spawn(Counter)):
                try:
                    use()
                except us.AgentDown:
                    continue
                raise AssertionError("it works again")

        in_child(refuse)
    """)


def test_futures_are_merged_in_the_child() -> None:
    check("""
        us.collect([clerk.submit("1")], timeout=10).result(10)  # so that there is a clock's thread in the parent

        def merge():
            counter = system.spawn(Counter)
            runs = us.collect([clerk.submit(str(number)) for number in range(8)], timeout=10).result(10)
            assert [run.text for run in runs] == [f"{2 * number} {os.getpid()}" for number in range(8)]
            assert us.collect([counter.ask_future("count"), counter.ask_future("count")]).result(10) == [1, 2]
            assert us.first([counter.ask_future("wait"), clerk.submit("4")]).result(10).text == f"8 {os.getpid()}"
            try:
                us.collect([system.spawn(Counter).ask_future("wait")], timeout=0.05).result(10)
            except TimeoutError:
                return
            raise AssertionError("the deadline did not come")

        in_child(merge)
        merge()
    """)


def test_the_parents_timers_and_futures_stay_in_the_parent() -> None:
    check("""
        class Clock(us.Actor):
            def on_start(self):
                self.every(0.01, "tick")

            def on_receive(self, message):
                ticks.append(os.getpid())
                ticked.set()

        ticks, ticked = [], threading.Event()
        busy = system.spawn(Counter)
        replies = us.collect([busy.ask_future("wait")], timeout=10)
        entered.wait()
        clock = system.spawn(Clock)
        assert ticked.wait(10)

        def look():
            ticks.clear()
            assert work(1) == (2, os.getpid())
            try:
                replies.result(0.1)
            except TimeoutError:
                assert not replies.done() and ticks == []
                return
            raise AssertionError("the parent's reply came in the child")

        in_child(look)
        gate.set()
        ticked.clear()
        assert ticked.wait(10) and replies.result(10) == [1]
    """)


def test_an_actor_that_forks_has_a_child_that_can_work() -> None:
    check("""
        class Forker(us.Actor):
            def on_receive(self, message):
                in_child(self.work)
                return "forked"

            def work(self):
                assert work(3) == (6, os.getpid())
                assert refused(self.ref)
                assert system.spawn(Counter).ask("count") == 1

        forker = system.spawn(Forker)
        assert [forker.ask("go"), forker.ask("go")] == ["forked", "forked"]
    """)


def test_references_are_usable_in_children_forked_while_others_send() -> None:
    check("""
        counter, stop = system.spawn(Counter, mailbox=us.Mailbox(100, when_full="block")), threading.Event()

        def send():
            while not stop.is_set():
                counter.tell("count")
                counter.on_down("sender", print)

        senders = [threading.Thread(target=send, daemon=True) for _ in range(3)]
        for sender in senders:
            sender.start()
        for _ in range(20):
            in_child(lambda: refused(counter) or os._exit(2))
        stop.set()
    """)


def test_a_child_forked_by_a_tool_is_still_inside_of_its_run() -> None:
    check("""
        def answer(request):
            return us.says(request.tool_results[0].content) if request.tool_results else us.calls("branch")

        def branch() -> str:
            in_child(look)
            return "ok"

        def look():
            assert work(3) == (6, os.getpid())
            try:
                outer.run("go")
            except us.CircularAgentCall:
                return
            raise AssertionError("the outer run would wait for itself, one process further")

        outer = us.Agent("outer", model=us.FunctionModel(answer), tools=[branch])
        assert outer.run("go").text == "ok"
    """)


def test_a_child_forked_while_a_tool_gets_its_schema_can_use_the_tool() -> None:
    check("""
        class Slow:
            @classmethod
            def __get_pydantic_core_schema__(cls, source, handler):
                entered.set()
                gate.wait()
                return handler.generate_schema(int)

        def take(value: Slow) -> int:
            return value

        agent = us.Agent("agent", model=us.FunctionModel(lambda request: us.says("ok")), tools=[take])
        work(1)
        threading.Thread(target=lambda: agent.run("go"), daemon=True).start()
        entered.wait()

        def use():
            signal.alarm(3)  # the run waits before it has a deadline
            gate.set()
            assert agent.run("go").text == "ok"

        in_child(use)
    """)


def test_an_agent_that_was_spawned_in_the_parent_runs_in_the_child_too() -> None:
    check("""
        from understudy.testing import FunctionModel, says

        greeter = us.Agent("greeter", model=FunctionModel(lambda request: says("hello")))
        system.spawn(us.Supervisor("group", [greeter]))
        ref = system.ref("greeter")
        assert ref.run("hi", timeout=10).text == "hello"

        def look():
            for each in (ref, system.ref("greeter")):
                assert each.run("hi", timeout=10).text == "hello"
            assert system.spawn(greeter).is_alive()

        in_child(look)
        assert ref.is_alive() and ref.run("hi", timeout=10).text == "hello"
    """)


def test_functions_stay_subscribed_in_the_child_and_actors_are_the_parents() -> None:
    check("""
        class Listener(us.Actor):
            def on_receive(self, event):
                if event != "are you there?":
                    told.append((os.getpid(), event.address))

        def hear(event):
            heard.append((os.getpid(), event.address))

        def slow(event):
            entered.set()
            gate.wait()
            slowly.append((os.getpid(), event.address))

        told, heard, slowly = [], [], []
        listener = system.spawn(Listener, name="listener")
        listener.ask("are you there?")
        by_listener = system.subscribe(listener, us.ActorStarted)
        by_function, by_slow = system.subscribe(hear, us.ActorStarted), system.subscribe(slow, us.ActorStarted, buffer=1)
        stopped = system.spawn(Counter, name="stopped")
        stopped.stop(timeout=10)
        stopped.tell("x")
        entered.wait()

        def look():
            gate.set()  # the child's copy; who hangs at it in the parent does not exist here
            heard.clear()
            assert not by_listener.is_active and by_function.is_active and by_slow.is_active
            assert system.dead_letters() == () and system.health().dead_letters == 0
            system.spawn(Counter, name="born")
            stopped.tell("x")
            assert system.health().dead_letters_by_reason == {"stopped": 1}
            assert system.stop() == ()
            assert heard == slowly == [(os.getpid(), "own/born")]
            assert by_slow.lost == 0

        in_child(look)
        gate.set()
        system.spawn(Counter, name="late").stop(timeout=10)
        assert len(system.dead_letters()) == 1
        assert system.stop() == ()
        assert heard[-2:] == slowly == told == [(os.getpid(), "own/stopped"), (os.getpid(), "own/late")]
    """)


def test_a_child_hears_though_another_thread_held_the_streams_locks_at_the_fork() -> None:
    check("""
        heard = []
        subscription = system.subscribe(heard.append, us.DeadLetter, buffer=1)
        ref = system.spawn(Counter)
        ref.stop(timeout=10)

        def hold():
            with system._events._lock, system._events.letters._lock, subscription._lock, \
                    subscription._inbox._mailbox._lock:
                held.set()
                gate.wait()

        held = threading.Event()
        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()

        def use():
            ref.tell("x")
            assert system.subscribe(print, us.RunCrashed).is_active
            assert len(system.dead_letters()) == 1
            system.stop()
            assert [event.reason for event in heard] == ["stopped"]

        in_child(use)
        gate.set()
        holder.join(10)
    """)
