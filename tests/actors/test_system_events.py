"""What happens in a system, as those who subscribe hear it."""

from __future__ import annotations

import gc
import itertools
import logging
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.players import Player
from tests.support.scripts import WAIT, eventually, scripted
from understudy.testing import FunctionModel, calls, says
from understudy.vocabulary.actors import system_events

KINDS = [
    kind
    for kind in vars(system_events).values()
    if isinstance(kind, type) and issubclass(kind, us.SystemEvent) and kind is not us.SystemEvent
]


@dataclass
class Understudies:
    """Fails at its first starts."""

    failing: int

    def __call__(self) -> Player:
        self.failing -= 1
        if self.failing >= 0:
            raise LookupError("no costume")
        return Player()


def fail(ref: us.ActorRef[object], error: BaseException) -> BaseException:
    with pytest.raises(us.AgentCrashed):
        ref.ask(error)
    return error


# --- each event


def heard_in(system: us.ActorSystem, *kinds: type[us.SystemEvent]) -> list[us.SystemEvent]:
    """Subscribe to events of these kinds, or to all, and return the list to which they are added."""
    heard: list[us.SystemEvent] = []
    system.subscribe(heard.append, *kinds)
    return heard


def test_a_life_with_a_restart(system: us.ActorSystem) -> None:
    heard = heard_in(system)
    ref = system.spawn(Player, name="ann")

    error = fail(ref, ValueError("no"))
    ref.stop(timeout=WAIT)
    system.stop()

    assert heard == [
        us.ActorStarted(address="shop/ann"),
        us.ActorFailed(address="shop/ann", error=error, message_type="ValueError"),
        us.ActorRestarted(address="shop/ann", epoch=1, restarts=1),
        us.ActorStopped(address="shop/ann"),
    ]


def test_a_failure_to_start_and_the_start_that_follows(system: us.ActorSystem) -> None:
    heard = heard_in(system)

    assert system.spawn(Understudies(failing=1), name="ann").ask("x") == "x"
    system.stop()

    failed, restarted, stopped = heard
    assert isinstance(failed, us.ActorFailed)
    assert (str(failed.error), failed.message_type) == ("no costume", "")
    assert restarted == us.ActorRestarted(address="shop/ann", epoch=1, restarts=1)
    assert stopped == us.ActorStopped(address="shop/ann")


def test_a_restart_that_waits(system: us.ActorSystem) -> None:
    heard = heard_in(system, us.ActorBackedOff, us.ActorRestarted)
    ref = system.spawn(Player, name="ann", strategy=us.OneForOne(backoff=(0.01, 0.01)))

    fail(ref, ValueError("no"))
    assert ref.ask("x") == "x"
    system.stop()

    backed_off, restarted = heard
    assert isinstance(backed_off, us.ActorBackedOff)
    assert backed_off.address == "shop/ann" and 0.008 <= backed_off.seconds <= 0.01
    assert restarted == us.ActorRestarted(address="shop/ann", epoch=1, restarts=1)


def test_a_group_that_waits_does_so_under_its_supervisors_address(system: us.ActorSystem) -> None:
    heard = heard_in(system, us.ActorBackedOff, us.ActorRestarted)
    children = [us.Child(Player, "ann"), us.Child(Player, "bob")]
    system.spawn(us.Supervisor("desk", children, strategy=us.OneForAll(backoff=(0.01, 0.01))))

    fail(system.find("ann"), ValueError("no"))
    eventually(lambda: len(heard) == 3, "both are back")

    assert [(type(event), event.address) for event in heard] == [
        (us.ActorBackedOff, "shop/desk"),
        (us.ActorRestarted, "shop/desk/ann"),
        (us.ActorRestarted, "shop/desk/bob"),
    ]


def test_an_actor_that_fails_too_often_is_given_up_and_comes_back(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.actors.actor import lifecycle

    heard = heard_in(system)
    monkeypatch.setattr(lifecycle, "LONGEST_BACKOFF", 0.0)  # seconds until the one more attempt
    ref = system.spawn(Player, name="ann", strategy=us.OneForOne(max_restarts=0))

    error = fail(ref, ValueError("no"))
    assert ref.ask("x") == "x"
    system.stop()

    assert heard[1:4] == [
        us.ActorFailed(address="shop/ann", error=error, message_type="ValueError"),
        us.ActorGivenUp(address="shop/ann", reason=error),
        us.ActorRestarted(address="shop/ann", epoch=1, restarts=1),
    ]


@pytest.mark.parametrize("given_up", [True, False])
def test_an_actor_is_what_the_event_says_when_it_is_heard(system: us.ActorSystem, given_up: bool) -> None:
    alive: list[tuple[type[object], bool]] = []
    strategy = us.OneForOne(max_restarts=0, decider=lambda error: "restart" if given_up else "stop")
    ref = system.spawn(Player, name="ann", strategy=strategy)
    assert ref.ask("x") == "x"
    stops = heard_in(system, us.ActorStopped)
    system.subscribe(lambda event: alive.append((type(event), ref.is_alive())), us.ActorGivenUp, us.ActorStopped)

    error = fail(ref, ValueError("no"))
    if given_up:
        eventually(lambda: len(alive) == 1, "it is given up")
    ref.stop(timeout=WAIT)
    system.stop()

    assert alive == [(us.ActorGivenUp, False)] * given_up + [(us.ActorStopped, False)]
    assert stops == [us.ActorStopped(address="shop/ann", reason=None if given_up else error)]


def test_a_supervisor_escalates_and_the_one_above_restarts_its_children(system: us.ActorSystem) -> None:
    heard = heard_in(system, us.Escalated, us.ActorGivenUp, us.ActorRestarted)
    inner = us.Supervisor(
        "inner", [us.Child(Player, "ann"), us.Child(Player, "bob")], strategy=us.OneForOne(max_restarts=0)
    )
    system.spawn(us.Supervisor("outer", [inner]))

    error = fail(system.find("ann"), ValueError("no"))
    eventually(lambda: len(heard) == 5, "both are given up, and are back")

    ann, bob = "shop/outer/inner/ann", "shop/outer/inner/bob"
    assert us.Escalated(address="shop/outer/inner", reason=error) in heard
    for address in (ann, bob):
        assert [event for event in heard if event.address == address] == [
            us.ActorGivenUp(address=address, reason=error),
            us.ActorRestarted(address=address, epoch=1, restarts=1),
        ]


def test_a_group_that_cannot_start_waits_under_the_address_of_the_supervisor_above(system: us.ActorSystem) -> None:
    heard = heard_in(system, us.ActorBackedOff)
    late = us.Child(Understudies(failing=1), "ann")
    inner = us.Supervisor("inner", [late], strategy=us.OneForOne(max_restarts=0))
    system.spawn(us.Supervisor("outer", [inner], strategy=us.OneForOne(backoff=(0.01, 0.01))))

    eventually(lambda: system.find("ann").is_alive() and len(heard) == 1, "it has started after a while")

    assert heard[0].address == "shop/outer"


def test_a_message_that_finds_no_room(system: us.ActorSystem) -> None:
    heard: list[us.DeadLetter] = []
    system.subscribe(heard.append, us.DeadLetter)
    ref, hold = system.spawn(Player, name="ann", mailbox=us.Mailbox(1)), Gate()
    ref.tell(hold)
    assert hold.entered.wait(WAIT)

    ref.tell("waits")
    with pytest.raises(us.MailboxFull):
        ref.tell(7)
    hold.open()
    system.stop()

    assert [(letter.address, letter.reason, letter.message_type) for letter in heard] == [
        ("shop/ann", "mailbox_full", "int")
    ]


def test_messages_that_are_reached_too_late_or_not_wanted_any_more(system: us.ActorSystem) -> None:
    heard: list[us.DeadLetter] = []
    system.subscribe(heard.append, us.DeadLetter)
    ref, hold = system.spawn(Player), Gate()
    ref.tell(hold)
    assert hold.entered.wait(WAIT)

    late, unwanted = ref.ask_future("late", timeout=0.0), ref.ask_future(1.5)
    unwanted.cancel()
    hold.open()
    assert isinstance(late.exception(WAIT), TimeoutError)
    system.stop()

    assert [(letter.reason, letter.message_type) for letter in heard] == [("expired", "str"), ("cancelled", "float")]


@pytest.mark.parametrize("together", [False, True], ids=["alone", "with another"])
def test_a_tool_that_hangs_is_told_with_its_name_and_its_run(system: us.ActorSystem, together: bool) -> None:
    heard, hold = heard_in(system, us.WorkAbandoned), Gate()
    hang, quick = us.tool(name="hang", timeout=0.05)(lambda: hold()), us.tool(name="quick")(lambda: "done")

    turn = calls("hang") + calls("quick") if together else calls("hang")
    outcome = scripted(turn, says("So be it."), tools=[hang, quick]).run("Go", system=system)
    hold.open()
    system.stop()

    (event,) = heard
    assert isinstance(event, us.WorkAbandoned)
    assert (event.address, event.run_id, event.what) == ("shop/clerk", outcome.run_id, "running tool hang")
    assert event.seconds >= 0.05


def test_a_model_call_that_nobody_waits_for_any_more(system: us.ActorSystem) -> None:
    heard, hold = heard_in(system, us.WorkAbandoned), Gate()

    handle = us.Agent("clerk", model=us.FunctionModel(hold.then(says("too late")))).submit("Go", system=system)
    assert hold.entered.wait(WAIT)
    handle.cancel()
    hold.open()
    system.stop()

    (event,) = heard
    assert isinstance(event, us.WorkAbandoned)
    assert (event.address, event.run_id, event.what) == ("shop/clerk", handle.run_id, "waiting for the model, turn 1")


def test_an_actors_message_that_hangs(system: us.ActorSystem) -> None:
    heard = heard_in(system, us.WorkAbandoned, us.ActorRestarted)
    hold = Gate()
    system.spawn(us.Supervisor("desk", [us.Child(Player, "ann", turn_timeout=0.05)]))

    with pytest.raises(us.AgentCrashed):
        system.find("ann").ask(hold)
    assert system.find("ann").ask("x") == "x"
    hold.open()
    system.stop()

    assert heard == [
        us.WorkAbandoned(address="shop/desk/ann", what="handling a message of type Gate", seconds=0.05),
        us.ActorRestarted(address="shop/desk/ann", epoch=1, restarts=1),
    ]


def clerk_with(*errors: Exception) -> us.Agent:
    """Make an agent whose run crashes with each error, one after another, and which then says hello."""
    left = list(errors)

    def prompt(context: us.RunContext) -> str:
        if left:
            raise left.pop(0)
        return "Be brief."

    return us.Agent("clerk", model=us.ScriptedModel([says("Hello.")]), system_prompt=prompt)


@pytest.mark.parametrize(("failures", "poison"), [(1, [False]), (3, [False, False, True])])
def test_each_crash_of_a_run_is_told_and_whether_the_run_goes_on(
    system: us.ActorSystem, failures: int, poison: list[bool]
) -> None:
    heard, errors = heard_in(system, us.RunCrashed), [LookupError(f"no {n}") for n in range(failures)]

    handle = clerk_with(*errors).submit("Go", system=system)
    assert isinstance(handle.exception(WAIT), us.AgentCrashed) is poison[-1]
    system.stop()

    assert heard == [
        us.RunCrashed(address="shop/clerk", run_id=handle.run_id, error=error, crashes=n + 1, poison=ends)
        for n, (error, ends) in enumerate(zip(errors, poison, strict=True))
    ]


def test_an_agent_whose_run_crashes_is_restarted_like_any_actor(system: us.ActorSystem) -> None:
    heard, error = heard_in(system), LookupError("no")

    handle = clerk_with(error).submit("Go", system=system)
    assert handle.result(WAIT).text == "Hello."
    system.stop()

    assert heard == [
        us.ActorStarted(address="shop/clerk"),
        us.RunCrashed(address="shop/clerk", run_id=handle.run_id, error=error, crashes=1, poison=False),
        us.ActorFailed(address="shop/clerk", error=error),
        us.ActorRestarted(address="shop/clerk", epoch=1, restarts=1),
        us.ActorStopped(address="shop/clerk"),
    ]


def test_an_actor_that_would_wait_for_itself(system: us.ActorSystem) -> None:
    heard = heard_in(system, us.CircleRefused)
    ref = system.spawn(Player, name="ann")

    with pytest.raises(us.AgentCrashed):
        ref.ask(lambda: ref.ask("x"))
    system.stop()

    assert heard == [us.CircleRefused(address="shop/ann", path=("shop/ann", "shop/ann"))]


@pytest.mark.parametrize("submits", [False, True])
def test_a_run_that_would_wait_for_itself(system: us.ActorSystem, submits: bool) -> None:
    refused = us.CircleRefused(address="shop/clerk", path=("clerk", "clerk"))
    heard = threading.Event()
    system.subscribe(lambda event: heard.set() if event == refused else None, us.CircleRefused)
    asked = itertools.count()

    @us.tool
    def again() -> str:
        return (clerk.submit("Go").result() if submits else clerk.run("Go")).text

    def answers(request: us.ModelRequest) -> us.ModelTurn:
        if next(asked) == 0:
            return calls("again")
        heard.wait(WAIT)  # a run that is over already would not be waited for
        return says("So be it.")

    clerk = us.Agent("clerk", model=FunctionModel(answers), tools=[again])
    clerk.run("Go", system=system)

    assert heard.is_set()


# --- those who subscribe


def test_events_of_one_actor_come_in_order_whatever_others_do(system: us.ActorSystem) -> None:
    heard = heard_in(system, us.ActorFailed, us.ActorRestarted, us.ActorStopped)
    often = us.OneForOne(max_restarts=1000)
    refs = [system.spawn(Player, name=name, strategy=often) for name in ("ann", "bob", "cid")]

    for _ in range(50):
        for ref in refs:
            ref.tell(ValueError("no"))
    assert [ref.stop(timeout=WAIT) for ref in refs] == [True] * 3
    system.stop()

    for ref in refs:
        own = [event for event in heard if event.address == ref.address]
        assert [type(event) for event in own] == [us.ActorFailed, us.ActorRestarted] * 50 + [us.ActorStopped]
        assert [event.restarts for event in own if isinstance(event, us.ActorRestarted)] == list(range(1, 51))


def test_a_slow_subscriber_loses_events_that_are_counted_and_nobody_waits_for_it(system: us.ActorSystem) -> None:
    heard, prompt = list[us.DeadLetter](), list[us.DeadLetter]()
    hold, ref = Gate(), system.spawn(Player)
    assert ref.stop(timeout=WAIT)

    def slow(event: us.DeadLetter) -> None:
        hold()
        heard.append(event)

    subscription = system.subscribe(slow, us.DeadLetter, buffer=2)
    system.subscribe(prompt.append, us.DeadLetter)
    ref.tell("in hand")
    assert hold.entered.wait(WAIT)
    for _ in range(9):
        ref.tell("another")  # it would never come back if it waited for the subscriber

    assert (subscription.lost, system.health().events_lost) == (7, 7)
    hold.open()
    system.stop()
    assert (len(heard), len(prompt)) == (3, 10)


def test_an_actor_goes_on_while_a_subscriber_hangs_at_its_event(system: us.ActorSystem) -> None:
    hold, ref = Gate(), system.spawn(Player)
    system.subscribe(hold, us.ActorFailed)

    fail(ref, ValueError("no"))
    assert hold.entered.wait(WAIT)

    assert ref.ask("x", timeout=WAIT) == "x"
    hold.open()


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)], ids=["an exception", "an exit"])
def test_a_subscriber_that_raises_is_logged_and_kept(
    system: us.ActorSystem, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    heard: list[us.SystemEvent] = []

    def fails(event: us.SystemEvent) -> None:
        heard.append(event)
        raise error

    subscription = system.subscribe(fails)
    with caplog.at_level(logging.ERROR, logger="understudy"):
        system.spawn(Player).stop(timeout=WAIT)
        system.stop()

    assert [type(event) for event in heard] == [us.ActorStarted, us.ActorStopped]
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error, error]
    assert subscription.lost == 0


def test_a_subscriber_may_cancel_its_subscription_while_it_is_called(system: us.ActorSystem) -> None:
    heard, hold, ref = list[us.DeadLetter](), Gate(), system.spawn(Player)
    assert ref.stop(timeout=WAIT)

    def once(event: us.DeadLetter) -> None:
        heard.append(event)
        hold()
        subscription.cancel()

    subscription = system.subscribe(once, us.DeadLetter)
    ref.tell(1)
    assert hold.entered.wait(WAIT)
    ref.tell(2)  # waits in its buffer
    hold.open()
    eventually(lambda: not subscription.is_active, "it is cancelled")
    ref.tell(3)
    system.stop()

    assert len(heard) == 1
    assert subscription.lost == 0


def test_the_end_of_a_with_block_cancels_the_subscription(system: us.ActorSystem) -> None:
    heard: list[us.SystemEvent] = []
    with system.subscribe(heard.append) as subscription:
        assert subscription.is_active

    system.spawn(Player)
    system.stop()

    assert not subscription.is_active
    assert heard == []


class Listener(us.Actor[object]):
    """Keeps the events it hears of."""

    def __init__(self, heard: list[us.SystemEvent]) -> None:
        self.heard = heard

    def on_receive(self, message: object) -> None:
        if isinstance(message, us.SystemEvent):
            self.heard.append(message)
        elif callable(message):
            message()


def test_an_actor_hears_of_events_in_its_mailbox_but_not_of_its_own(system: us.ActorSystem) -> None:
    heard: list[us.SystemEvent] = []
    listener = system.spawn(lambda: Listener(heard), name="listener")
    system.subscribe(listener)

    def fails() -> None:
        raise ValueError("no")

    listener.tell(fails)
    system.spawn(Player, name="ann").stop(timeout=WAIT)
    assert listener.stop(timeout=WAIT)

    assert heard == [us.ActorStarted(address="shop/ann"), us.ActorStopped(address="shop/ann")]


def test_an_actor_whose_mailbox_is_full_loses_events_which_are_no_dead_letters(system: us.ActorSystem) -> None:
    heard: list[us.SystemEvent] = []
    listener, hold = system.spawn(lambda: Listener(heard), mailbox=us.Mailbox(2)), Gate()
    subscription = system.subscribe(listener)
    listener.tell(hold)
    assert hold.entered.wait(WAIT)

    for _ in range(2):
        system.spawn(Player).stop(timeout=WAIT)

    assert subscription.lost == 2
    assert system.health().dead_letters == 0
    hold.open()
    assert listener.stop(timeout=WAIT)
    assert len(heard) == 2
    assert not subscription.is_active  # it has stopped


@pytest.mark.parametrize("as_actor", [False, True], ids=["a function", "an actor"])
def test_a_subscriber_that_writes_to_an_actor_that_is_down_does_not_hear_of_that_for_ever(
    system: us.ActorSystem, as_actor: bool
) -> None:
    heard: list[us.DeadLetter] = []
    stopped = system.spawn(Player)
    down = system.spawn(Player, strategy=us.OneForOne(max_restarts=0))
    assert stopped.stop(timeout=WAIT)
    fail(down, ValueError("no"))

    def forward(event: us.DeadLetter) -> None:
        heard.append(event)
        stopped.tell([event])
        down.tell([event])

    class Forwards(us.Actor[us.DeadLetter]):
        def on_receive(self, message: us.DeadLetter) -> None:
            forward(message)

    system.subscribe(system.spawn(Forwards) if as_actor else forward, us.DeadLetter)
    stopped.tell("x")
    eventually(lambda: system.health().dead_letters == 3, "all three are dead letters")
    system.stop()

    assert [letter.message_type for letter in heard] == ["str"]


def test_an_actor_that_fails_at_an_event_has_not_lost_it(system: us.ActorSystem) -> None:
    class Fails(us.Actor[us.SystemEvent]):
        def on_receive(self, message: us.SystemEvent) -> None:
            raise ValueError("no")

    ref = system.spawn(Fails)
    subscription = system.subscribe(ref, us.ActorStopped)
    assert system.spawn(Player).stop(timeout=WAIT)
    assert ref.stop(timeout=WAIT)

    assert subscription.lost == 0


def test_an_actor_that_hears_of_an_event_may_not_wait_for_itself(system: us.ActorSystem) -> None:
    errors: list[BaseException] = []

    class Asks(us.Actor[object]):
        def on_receive(self, message: object) -> None:
            try:
                self.ref.ask("x", timeout=WAIT)
            except us.CircularAgentCall as error:
                errors.append(error)

    ref = system.spawn(Asks)
    system.subscribe(ref, us.ActorStopped)
    assert system.spawn(Player).stop(timeout=WAIT)

    eventually(lambda: len(errors) == 1, "it was refused")  # before it stops: nobody asks who takes nothing more
    assert ref.stop(timeout=WAIT)


def test_an_actor_keeps_nothing_of_a_subscription_that_was_cancelled(system: us.ActorSystem) -> None:
    ref = system.spawn(Player, name="bob")
    subscription = system.subscribe(ref)
    gone = weakref.ref(subscription)

    subscription.cancel()
    del subscription

    gc.collect()
    assert gone() is None


def test_an_event_that_comes_after_a_stop_is_not_lost_to_a_slow_subscriber(
    system: us.ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    hold = Gate()
    subscription = system.subscribe(hold, us.ActorStarted)
    system.spawn(Player)
    assert hold.entered.wait(WAIT)

    subscription.drain()  # as a stop does, which cancels later
    ref = system.spawn(Player, name="late")
    assert ref.ask("x") == "x"  # it has started, and that was told
    hold.open()

    assert (subscription.lost, caplog.text) == (0, "")


def test_a_stop_waits_for_those_who_have_not_heard_all_of_it(system: us.ActorSystem) -> None:
    heard, hold = list[us.SystemEvent](), Gate()

    def slow(event: us.SystemEvent) -> None:
        hold()
        heard.append(event)

    system.subscribe(slow)
    system.spawn(Player)
    assert hold.entered.wait(WAIT)
    threading.Timer(0.05, hold.open).start()

    system.stop()

    assert [type(event) for event in heard] == [us.ActorStarted, us.ActorStopped]


def test_a_stop_waits_no_longer_than_it_was_told_to(system: us.ActorSystem) -> None:
    heard, hold = list[us.SystemEvent](), Gate()
    system.subscribe(heard.append)
    subscription = system.subscribe(hold)
    assert system.spawn(Player).stop(timeout=WAIT)

    assert system.stop(0.05) == ()  # it comes back while the subscriber hangs
    hold.open()

    assert not subscription.is_active
    assert len(heard) == 2


def test_a_subscriber_may_stop_the_system(system: us.ActorSystem) -> None:
    stopped = threading.Event()

    def stop(event: us.ActorStarted) -> None:
        system.stop()
        stopped.set()

    system.subscribe(stop, us.ActorStarted)
    system.spawn(Player)

    assert stopped.wait(WAIT)


def test_a_system_that_has_stopped_takes_no_subscribers(system: us.ActorSystem) -> None:
    system.stop()

    with pytest.raises(us.AgentDown):
        system.subscribe(print)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((print, us.RunFinished), {}, TypeError),
        ((print, us.ActorStarted(address="x")), {}, TypeError),
        (("print",), {}, TypeError),
        ((print,), {"buffer": 0}, ValueError),
    ],
)
def test_a_mistake_is_told_to_who_makes_it(
    system: us.ActorSystem, arguments: tuple[object, ...], options: dict[str, int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        system.subscribe(*arguments, **options)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_an_agent_takes_no_events(system: us.ActorSystem) -> None:
    ref = system.spawn(scripted(says("Hello.")))

    with pytest.raises(TypeError, match="takes runs and no messages"):
        system.subscribe(ref, us.ActorStarted)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


def eventful(system: us.ActorSystem) -> None:
    """Have all kinds of things happen."""
    hold, crashes = Gate(), [LookupError("no")]

    def prompt(context: us.RunContext) -> str:
        if crashes:
            raise crashes.pop()
        return ""

    model = us.ScriptedModel([calls("hang"), says("So be it.")])
    hang = us.tool(name="hang", timeout=0.05)(lambda: hold())
    us.Agent("clerk", model=model, tools=[hang], system_prompt=prompt).run("Go", system=system)
    hold.open()
    strategy = us.OneForOne(max_restarts=1, backoff=(0.01, 0.01))
    system.spawn(us.Supervisor("desk", [us.Child(Player, "ann")], strategy=strategy))
    ann = system.find("ann")
    with pytest.raises(us.AgentCrashed):
        ann.ask(lambda: ann.ask("x"))
    fail(ann, ValueError("no"))
    assert ann.stop(timeout=WAIT)
    ann.tell("x")


@pytest.mark.parametrize("listens", [False, True])
def test_no_event_is_built_that_nobody_hears(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, listens: bool
) -> None:
    caplog.set_level("ERROR", logger="understudy")  # some events have a line at level warning
    built: list[type[object]] = []

    def counting(kind: type[us.SystemEvent]) -> Callable[..., None]:
        init: Callable[..., None] = kind.__init__

        def construct(self: object, **fields: object) -> None:
            built.append(kind)
            init(self, **fields)

        return construct

    for kind in KINDS:
        monkeypatch.setattr(kind, "__init__", counting(kind))
    if listens:
        system.subscribe(lambda _: None)

    eventful(system)
    system.stop()

    assert set(built) == (set(KINDS) if listens else set())


def test_an_event_is_not_built_for_those_who_hear_only_of_others(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def construct(self: object, **fields: object) -> None:
        raise AssertionError("it is built")

    monkeypatch.setattr(us.ActorRestarted, "__init__", construct)
    system.subscribe(lambda _: None, us.ActorStopped)
    ref = system.spawn(Player)

    fail(ref, ValueError("no"))

    assert ref.ask("x") == "x"
