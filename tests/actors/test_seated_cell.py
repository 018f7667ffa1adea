"""A cell with seats, mostly without a thread: who has a seat, who waits, and how each message ends."""

from __future__ import annotations

import random
import threading
import time
from functools import partial

import pytest

from tests.support.scripts import WAIT, eventually
from understudy.actors.cells import seated_cell
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import Fate
from understudy.actors.cells.seated_cell import Entered, SeatedCell
from understudy.vocabulary.actors.system_events import LostBecause


class Message:
    def __init__(self, name: object) -> None:
        self.name = name
        self.begun = time.monotonic()

    def __repr__(self) -> str:
        return f"Message({self.name})"


class Play:
    """A cell, its messages by name, and what became of them."""

    def __init__(self, seats: int | None) -> None:
        self.events = EventStream("shop")
        self.cell: SeatedCell[Message] = SeatedCell("shop/tools/cut", seats, self.events)
        self.messages: dict[object, Message] = {}
        self.running: list[object] = []
        self.lost: list[tuple[object, LostBecause]] = []

    def enter(self, name: object, due: float | None = None) -> Entered:
        message = self.messages[name] = Message(name)
        entered = self.cell.enter(
            message, lambda: self.running.append(name), lambda reason: self.lost.append((name, reason)), due
        )
        if entered is Entered.NOW:
            self.running.append(name)
        return entered

    def enter_all(self, *names: object) -> list[Entered]:
        return [self.enter(name) for name in names]

    def leave(self, name: object, fate: Fate = Fate.HANDLED) -> None:
        self.cell.leave(self.messages[name], fate)

    def give_up(self, name: object) -> None:
        self.cell.give_up(self.messages[name])

    @property
    def ended(self) -> dict[str, int]:
        """Fate -> how many messages ended so, without those of which there is none."""
        return {fate.name.lower(): number for fate, number in self.cell.counts.items() if number}

    @property
    def letters(self) -> list[tuple[str, LostBecause]]:
        return [(letter.message_type, letter.reason) for letter in self.events.letters.last()]


NOW, LATER, LOST = Entered


def test_so_many_run_and_the_others_come_in_order() -> None:
    play = Play(2)

    assert play.enter_all("a", "b", "c", "d") == [NOW, NOW, LATER, LATER]
    assert (play.cell.depth, play.cell.high_water) == (2, 2)
    play.leave("b")
    assert play.running == ["a", "b", "c"]
    for name in ("a", "c", "d"):
        play.leave(name)

    assert play.running == ["a", "b", "c", "d"]
    assert play.enter("e") is NOW
    assert (play.ended, play.cell.depth) == ({"handled": 4}, 0)


def test_without_a_number_of_seats_all_run_at_once() -> None:
    play = Play(None)

    assert play.enter_all(*range(50)) == [NOW] * 50
    for number in range(50):
        play.leave(number, Fate.FAILED if number % 5 == 0 else Fate.HANDLED)

    assert play.ended == {"handled": 40, "failed": 10}
    assert play.cell.busy_since is None


@pytest.mark.parametrize("seats", [1, None])
def test_a_turn_on_the_thread_of_its_sender_is_a_message_like_any_other(seats: int | None) -> None:
    play, message = Play(seats), Message("lone")

    assert play.cell.take_turn(message)
    assert play.cell.busy_since == message.begun
    play.cell.leave(message)

    assert play.ended == {"handled": 1}
    assert play.cell.busy_since is None


def test_no_turn_is_taken_before_those_that_wait() -> None:
    play = Play(1)
    play.enter_all("a", "b")

    assert not play.cell.take_turn(Message("c"))
    play.leave("a")
    assert not play.cell.take_turn(Message("c"))
    play.leave("b")
    assert play.cell.take_turn(Message("c"))


def test_a_message_that_is_withdrawn_never_begins() -> None:
    play = Play(1)
    play.enter_all("a", "b", "c")

    assert [play.cell.withdraw(play.messages[name]) for name in ("a", "b", "b")] == [False, True, False]
    play.leave("a")

    assert play.running == ["a", "c"]
    assert play.ended == {"handled": 1, "cancelled": 1}
    assert play.letters == [("Message", "cancelled")]
    assert play.lost == []


def test_a_seat_is_given_back_once() -> None:
    play = Play(1)
    play.enter_all("a", "b", "c")

    play.leave("a")
    play.leave("a")

    assert play.running == ["a", "b"]
    assert play.ended == {"handled": 1}


@pytest.mark.parametrize("seats", [2, None])
def test_a_message_that_was_given_up_has_failed_and_keeps_its_seat_until_it_comes_back(seats: int | None) -> None:
    play = Play(seats)
    play.enter("a")
    play.give_up("a")
    play.give_up("a")

    assert (play.ended, play.cell.hung) == ({"failed": 1}, 1)
    assert play.cell.busy_since == play.messages["a"].begun
    assert play.enter_all("b", "c") == [NOW, LATER if seats else NOW]
    play.leave("a")

    assert (play.ended, play.cell.hung) == ({"failed": 1}, 0)
    assert play.running == ["a", "b", "c"]


def test_while_messages_that_were_given_up_hold_all_seats_every_other_one_is_refused() -> None:
    play = Play(2)
    play.enter_all("a", "b", "c", "d")

    play.give_up("a")
    assert play.lost == []
    play.give_up("b")

    assert play.lost == [("c", "given_up"), ("d", "given_up")]
    assert play.enter("e") is LOST
    assert play.lost[2:] == [("e", "given_up")]
    play.leave("a")
    assert play.enter("f") is NOW
    assert play.ended == {"failed": 2, "dead": 3}
    assert play.letters == [("Message", "given_up")] * 3


def test_to_give_up_a_message_that_has_no_seat_changes_nothing() -> None:
    play = Play(1)
    play.enter_all("a", "b")
    play.give_up("b")
    play.leave("a")
    play.give_up("a")

    assert (play.cell.hung, play.running, play.ended) == (0, ["a", "b"], {"handled": 1})


def test_a_stop_empties_the_line_and_lets_turns_end() -> None:
    play = Play(1)
    play.enter_all("a", "b", "c")

    play.cell.stop()
    play.cell.stop()

    assert play.lost == [("b", "stopped"), ("c", "stopped")]
    play.leave("a")
    assert play.running == ["a"]
    assert play.ended == {"handled": 1, "dead": 2}


@pytest.mark.parametrize("seats", [1, None])
def test_a_message_to_one_that_has_stopped_is_a_dead_letter(seats: int | None) -> None:
    play = Play(seats)
    play.cell.stop()

    assert not play.cell.take_turn(Message("a"))
    assert play.enter("b") is LOST
    assert (play.lost, play.ended) == ([("b", "stopped")], {"dead": 1})
    assert play.letters == [("Message", "stopped")]


def test_a_message_whose_time_is_over_in_line_is_answered_by_an_alarm() -> None:
    play = Play(1)
    play.enter("a")
    now = time.monotonic()
    for name, due in (("later", now + 0.06), ("soon", now + 0.03), ("never", None)):
        play.enter(name, due)

    eventually(lambda: len(play.lost) == 2, "two are late")

    assert play.lost == [("soon", "expired"), ("later", "expired")]
    assert play.ended == {"expired": 2}
    play.leave("a")
    assert play.running == ["a", "never"]


def test_without_a_thread_for_the_alarm_no_message_waits_that_has_an_end_to_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_thread(moment: float, ring: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(seated_cell, "ring_at", no_thread)
    play = Play(1)
    play.enter_all("a", "b")

    assert play.enter("c", time.monotonic() + WAIT) is LATER
    assert play.lost == [("c", "no_thread")]
    play.leave("a")
    assert play.running == ["a", "b"]


def test_a_turn_that_is_over_at_once_lets_the_next_one_begin() -> None:
    play = Play(1)
    started: list[int] = []

    def start(message: Message) -> None:
        started.append(int(str(message.name)))
        play.cell.leave(message)

    play.enter("first")
    for number in range(5_000):  # more than calls may stand in one another
        message = Message(number)
        play.cell.enter(message, partial(start, message), lambda reason: None)
    play.leave("first")

    assert started == list(range(5_000))
    assert play.cell.take_turn(Message("next"))


def test_a_message_that_cannot_begin_is_lost_and_keeps_nobody_else_from_it(caplog: pytest.LogCaptureFixture) -> None:
    play = Play(1)
    play.enter("a")

    def fail() -> None:
        raise RuntimeError("can't start new thread")

    play.cell.enter(Message("broken"), fail, lambda reason: play.lost.append(("broken", reason)))
    play.enter("sound")
    play.leave("a")

    assert play.running == ["a", "sound"]
    assert play.lost == [("broken", "no_thread")]
    assert "could not begin" in caplog.text


def test_a_sender_that_fails_when_it_is_told_keeps_nobody_else_from_it() -> None:
    play = Play(1)

    def fail(reason: LostBecause) -> None:
        raise SystemExit(reason)

    play.enter("a")
    play.cell.enter(Message("broken"), lambda: None, fail)
    play.enter("b")
    play.cell.stop()

    assert play.lost == [("b", "stopped")]
    assert play.ended == {"dead": 2}


@pytest.mark.parametrize(("seats", "expected"), [(1, ["a"]), (2, ["a", "b"])])
def test_the_messages_in_hand_keep_those_in_line_waiting(seats: int, expected: list[str]) -> None:
    play = Play(seats)
    play.enter_all("a", "b", "c", "d", "e")

    def holding_up(name: str) -> list[str]:
        return sorted(str(message.name) for message in play.cell.keep_waiting(play.messages[name]))

    assert holding_up("e") == expected
    play.leave("a")
    assert holding_up("e") == sorted([*expected[1:], "bc"[seats - 1]])
    assert [holding_up(name) for name in ("a", "b")] == [[], []]


@pytest.mark.parametrize("seats", [1, 3, None])
@pytest.mark.parametrize("seed", range(15))
def test_whatever_happens_each_message_ends_once_and_the_seats_are_never_over_or_under_run(
    seed: int, seats: int | None
) -> None:
    chance, play = random.Random(seed), Play(seats)
    sent, over, hung, withdrawn = list[int](), set[int](), set[int](), set[int]()
    for number in range(200):
        sent.append(number)
        play.enter(number)
        in_hand = [each for each in play.running if each not in over]
        for each in chance.sample(in_hand, min(len(in_hand), chance.randint(0, 2))):
            assert isinstance(each, int)
            if chance.random() < 0.3:
                hung.add(each)
                play.give_up(each)
            else:
                over.add(each)
                play.leave(each)
        if chance.random() < 0.1:
            each = chance.choice(sent)
            if play.cell.withdraw(play.messages[each]):
                withdrawn.add(each)
        lost = {name for name, _ in play.lost}
        waiting = [each for each in sent if each not in play.running and each not in lost | withdrawn]
        holding = [each for each in play.running if each not in over]
        assert play.cell.depth == len(waiting)
        assert seats is None or len(holding) <= seats
        assert not waiting or len(holding) == seats, "nobody waits before a free seat"
        assert not waiting or not set(holding) <= hung, "nobody waits for those that never come back"
        assert play.running == sorted(play.running, key=lambda each: int(str(each))), "in exact order"
    play.cell.stop()
    for each in [each for each in play.running if each not in over]:
        play.leave(each)
    assert sum(play.cell.counts.values()) == len(sent)
    assert play.cell.counts[Fate.FAILED] == len(hung)
    assert play.cell.counts[Fate.CANCELLED] == len(withdrawn)
    assert play.cell.busy_since is None


@pytest.mark.parametrize("seats", [2, None])
def test_of_a_thread_that_comes_back_and_one_that_gives_it_up_one_ends_the_message(seats: int | None) -> None:
    play = Play(seats)
    for number in range(300):
        assert play.enter(number) is NOW
        both = threading.Barrier(2)

        def give_up(number: int, both: threading.Barrier) -> None:
            both.wait(WAIT)
            play.give_up(number)

        other = threading.Thread(target=give_up, args=(number, both))
        other.start()
        both.wait(WAIT)
        play.leave(number)
        other.join(WAIT)
        assert play.cell.hung == 0
    assert sum(play.cell.counts.values()) == 300


def test_messages_that_threads_handle_at_once_are_all_counted() -> None:
    play = Play(None)

    def work() -> None:
        for _ in range(2_000):
            message = Message("m")
            assert play.cell.take_turn(message)
            play.cell.leave(message)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        assert sum(play.cell.counts.values()) <= 8_000
    for thread in threads:
        thread.join(WAIT)

    assert play.ended == {"handled": 8_000}
