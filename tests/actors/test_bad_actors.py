"""What users' actors do wrong besides failing at a message, and what comes of it."""

from __future__ import annotations

import logging
import threading
from functools import partial

import pytest

import understudy as us
from tests.support.players import Player
from tests.support.scripts import WAIT


def test_an_on_stop_that_raises_is_logged_and_the_actor_has_stopped(
    system: us.ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    class Clumsy(Player):
        def on_stop(self) -> None:
            raise LookupError("nothing to close")

    ref = system.spawn(Clumsy, name="a")

    with caplog.at_level(logging.ERROR, "understudy"):
        assert ref.stop(timeout=WAIT)

    assert "shop/a: on_stop failed" in caplog.text
    assert not ref.is_alive()


def test_a_second_stop_changes_nothing(system: us.ActorSystem) -> None:
    stops: list[int] = []

    class Counted(Player):
        def on_stop(self) -> None:
            stops.append(1)

    ref = system.spawn(Counted, name="a")
    threads = [threading.Thread(target=partial(ref.stop, timeout=WAIT)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)

    assert stops == [1]
    assert ref.stop(timeout=WAIT) is False


@pytest.mark.parametrize("where", ["on_start", "on_receive", "before_restart", "on_stop"])
def test_an_actor_may_stop_itself_anywhere(system: us.ActorSystem, where: str) -> None:
    seen: list[str] = []

    class Ending(us.Actor[object]):
        def _maybe_stop(self, here: str) -> None:
            seen.append(here)
            if here == where:
                self.ref.stop()

        def on_start(self) -> None:
            self._maybe_stop("on_start")

        def on_receive(self, message: object) -> None:
            self._maybe_stop("on_receive")
            raise LookupError("restart me")

        def before_restart(self, error: BaseException, message: object) -> None:
            self._maybe_stop("before_restart")

        def on_stop(self) -> None:
            self._maybe_stop("on_stop")

    ref = system.spawn(Ending, name="a")
    if where == "on_stop":
        ref.stop(block=False)
    elif where != "on_start":
        ref.tell("go")

    ref.actor_stopped.wait(WAIT)
    with pytest.raises(us.AgentDown, match="shop/a has stopped"):
        ref.ask("hello", timeout=WAIT)
    assert seen.count("on_stop") == 1


# --- async def, of which a call runs nothing


async def later(_: object) -> object:
    raise AssertionError("nobody runs it")


@pytest.mark.parametrize("method", ["on_start", "on_receive", "before_restart", "on_stop"])
def test_an_actor_with_a_method_that_is_async_is_refused(method: str, system: us.ActorSystem) -> None:
    kind: type[us.Actor[object]] = type("Waiter", (us.Actor,), {method: later})

    with pytest.raises(TypeError, match=rf"Waiter has {method}\(\) as async def"):
        system.spawn(kind)
    with pytest.raises(TypeError, match=rf"Waiter has {method}\(\) as async def"):
        us.Supervisor("desk", [kind])

    made: us.ActorRef[object] = system.spawn(lambda: kind(), name="made")  # its class is known when it is made
    with pytest.raises(us.UnderstudyError, match=rf"Waiter has {method}\(\) as async def"):
        made.ask("hello", timeout=WAIT)


def test_what_is_called_later_must_be_no_coroutine_function(system: us.ActorSystem) -> None:
    ref = system.spawn(Player, name="a")
    asked = ref.ask_future("hello")
    handle = us.Agent("clerk", model=us.FunctionModel(lambda _: us.ModelTurn((us.TextPart("ok"),)))).submit(
        "go", system=system
    )

    with pytest.raises(TypeError, match="a subscriber must be a plain function, not async def"):
        system.subscribe(later)
    for future in (asked, handle, us.collect([asked])):
        with pytest.raises(TypeError, match="a done callback must be a plain function, not async def"):
            future.add_done_callback(later)
    with pytest.raises(TypeError, match="decider must be a plain function, not async def"):
        us.OneForOne(decider=later)  # type: ignore[arg-type]  # the mistake under test
