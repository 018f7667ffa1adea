"""Faults in what carries messages: mailboxes, cells, replies and the threads that are lent."""

from __future__ import annotations

from .mutant import Mutant

MAILBOX = "actors/mailbox.py"
CELL = "actors/cell.py"
REPLY = "actors/reply.py"
SHELL = "actors/shell.py"

TEST_MAILBOX = "tests/actors/test_mailbox.py"
TEST_CELL = "tests/actors/test_cell.py"
TEST_LAW = "tests/actors/test_law.py::TestLaw"
TEST_REPLY = "tests/actors/test_reply.py"
TEST_SHELL = "tests/actors/test_shell.py"

MUTANTS = (
    # --- mailboxes
    Mutant(
        "a closed mailbox takes one more message",
        MAILBOX,
        "if self._closed and (self._over or not system):\n                return CLOSED\n            if system:",
        "if system:",
        (TEST_MAILBOX,),
    ),
    Mutant(
        "a mailbox is checked and filled under two locks",
        MAILBOX,
        "(self._over or not system):\n                return CLOSED\n            if system:",
        "(self._over or not system):\n                return CLOSED\n        with self._lock:\n            if system:",
        (TEST_MAILBOX,),
    ),
    Mutant(
        "a drain forgets the system lane",
        MAILBOX,
        "left = [*self._system, *self._user]",
        "left = [*self._user]",
        (TEST_MAILBOX,),
    ),
    Mutant(
        "a drained mailbox never wakes again",
        MAILBOX,
        "self._running = False\n            left =",
        "left =",
        (TEST_MAILBOX,),
    ),
    Mutant(
        "a mailbox that was emptied never wakes again",
        MAILBOX,
        "self._running = False\n            return None",
        "return None",
        (TEST_MAILBOX,),
    ),
    Mutant(
        "the system lane has no precedence",
        MAILBOX,
        "self._system.append(item)",
        "self._user.append(item)",
        (TEST_MAILBOX,),
    ),
    Mutant(
        "a mailbox holds one more than its capacity",
        MAILBOX,
        "elif len(self._user) >= self._capacity:",
        "elif len(self._user) > self._capacity:",
        (TEST_MAILBOX,),
    ),
    Mutant(
        "who waits for room is not told of it",
        MAILBOX,
        "self._space.notify()",
        "pass",
        ("tests/actors/test_actors.py::test_a_caller_outside_of_actors_waits_for_room_if_the_mailbox_says_so",),
    ),
    Mutant(
        "who waits for room is not told of the end",
        MAILBOX,
        "self._suspended = False  # an end comes also to who is not at work\n            if self._space is not None:",
        "self._suspended = False\n            if False:",
        (TEST_MAILBOX,),
    ),
    Mutant(
        "a suspended lane is taken from",
        MAILBOX,
        "if self._user and not self._suspended:",
        "if self._user:",
        (
            "tests/actors/test_supervision.py::test_what_waits_for_a_sibling_is_kept_in_order_over_its_restart",
            "tests/actors/test_supervision.py::test_a_backoff_is_waited_while_messages_wait_and_is_doubled",
        ),
    ),
    Mutant(
        "an end waits behind a suspension",
        MAILBOX,
        "self._suspended = not self._closed",
        "self._suspended = True",
        (TEST_MAILBOX,),
    ),
    # --- cells
    Mutant(
        "a stopping actor forgets what waits",
        CELL,
        "self.finish(envelope, Fate.DEAD, error=error)",
        "pass",
        (f"{TEST_CELL}::test_a_stopped_actor_answers_what_waits_and_what_comes_with_agent_down",),
    ),
    Mutant(
        "an expired message is handled anyway",
        CELL,
        "time.monotonic() >= envelope.deadline",
        "False",
        (f"{TEST_CELL}::test_a_message_that_is_reached_after_its_deadline_is_not_handled",),
    ),
    Mutant(
        "a cancelled message is handled anyway",
        CELL,
        "envelope.reply is not None and envelope.reply.done:",
        "False:",
        ("tests/actors/test_actors.py::test_an_ask_that_is_cancelled_before_its_turn_is_never_handled",),
    ),
    Mutant(
        "an exit in one actor escapes",
        CELL,
        "except BaseException as cause:  # also SystemExit",
        "except Exception as cause:  # but not SystemExit",
        (f"{TEST_CELL}::test_a_failure_reaches_the_asker_with_its_cause_and_the_next_message_meets_a_fresh_behaviour",),
    ),
    Mutant(
        "a failed behaviour stays in its place",
        CELL,
        "self.behaviour = None  # the next",
        "pass  # the next",
        (TEST_CELL,),
    ),
    Mutant(
        "the epoch of a cell is not raised",
        CELL,
        "self.epoch += 1",
        "pass",
        (TEST_CELL,),
    ),
    Mutant(
        "nobody is told of a lost message",
        CELL,
        "envelope.on_lost(error)",
        "pass",
        (f"{TEST_CELL}::test_a_tell_that_fails_says_so_to_its_sender_if_it_asked_to_hear_of_it",),
    ),
    Mutant(
        "an expired message has no fate",
        CELL,
        "        else:\n            self._count(fate)\n        if error",
        "        elif fate is not Fate.EXPIRED:\n            self._count(fate)\n        if error",
        (f"{TEST_CELL}::test_every_message_ends_in_exactly_one_fate",),
    ),
    Mutant(
        "without a thread a message waits for ever",
        CELL,
        "self._lose_waiting(error, close=False)",
        "pass",
        (TEST_CELL,),
    ),
    Mutant(
        "a cell that was handed over waits for later messages",
        CELL,
        "if shell is not None and shell.next is not None and len(self._mailbox):",
        "if False:",
        (f"{TEST_CELL}::test_a_cell_handed_over_does_not_wait_for_messages_that_came_later",),
    ),
    # --- the law, whatever happens to some actors at random
    Mutant(
        "a dead letter is not answered",
        CELL,
        "if envelope.reply is not None:\n            envelope.reply.fail(error)",
        "if envelope.reply is not None and fate is not Fate.DEAD:\n            envelope.reply.fail(error)",
        (TEST_LAW,),
    ),
    Mutant(
        "an exit takes along the thread and what waits",
        CELL,
        "except BaseException as cause:  # also SystemExit",
        "except Exception as cause:  # but not SystemExit",
        (TEST_LAW,),
    ),
    Mutant(
        "a failure is answered with a value",
        CELL,
        "envelope.reply.fail(error)",
        "envelope.reply.set(error)",
        (TEST_LAW,),
    ),
    # --- replies
    Mutant(
        "a reply completes twice",
        REPLY,
        "if self._done:\n                return False",
        "if False:\n                return False",
        (TEST_REPLY,),
    ),
    Mutant(
        "a reply that came wakes nobody",
        REPLY,
        "if gate is not None:\n            gate.release()\n        if callbacks is not None:",
        "if callbacks is not None:",
        (
            "tests/actors/test_tool_calls.py::test_a_tool_that_hangs_alone_gets_a_timeout_result_and_the_run_goes_on",
        ),  # it waits without a limit
        hangs=True,
    ),
    Mutant(
        "a reply wakes one and leaves the others waiting",
        REPLY,
        "gate.release()  # for the next",
        "pass  # for the next",
        (f"{TEST_REPLY}::test_all_who_wait_are_woken",),
    ),
    Mutant(
        "a callback that fails keeps the others from being called",
        REPLY,
        "except BaseException:  # also its sys.exit()",
        "except AssertionError:  # and no other",
        (TEST_REPLY,),
    ),
    Mutant(
        "a callback that comes late is never called",
        REPLY,
        "if not self._done:\n                self._callbacks",
        "if True:\n                self._callbacks",
        (TEST_REPLY,),
    ),
    # --- threads
    Mutant(
        "a cell that was handed over is run by two threads",
        SHELL,
        "pool.lend(shell.next)\n            shell.next = None",
        "pool.lend(shell.next)",
        (TEST_SHELL, TEST_CELL),
    ),
    Mutant(
        "a shell that was woken brings no other one",
        SHELL,
        "        self.arrived()\n        return True\n",
        "        return True\n",
        (TEST_SHELL,),
    ),
    Mutant(
        "a shell that was started brings no other one",
        SHELL,
        "        self.slot.pool.arrived()\n",
        "",
        (TEST_SHELL,),
    ),
    Mutant(
        "all shells that are lent are on their way at once",
        SHELL,
        "if not self._places:",
        "if False:",
        (TEST_SHELL,),
    ),
    Mutant(
        "a shell that is done leaves what is in line to others",
        SHELL,
        "            if self._line:\n                shell.slot.given",
        "            if False:\n                shell.slot.given",
        (TEST_SHELL,),
    ),
    Mutant(
        "who finds no thread keeps its place",
        SHELL,
        "            if starts:\n                self.arrived()",
        "            if False:\n                self.arrived()",
        (TEST_SHELL,),
    ),
    Mutant(
        "what is in line does not hear that there is no thread",
        SHELL,
        "                cell.refused(cause)\n\n    def _start",
        "                pass\n\n    def _start",
        (TEST_SHELL,),
    ),
    Mutant(
        "a Ctrl-C while a shell is woken leaves it asleep",
        SHELL,
        "        finally:\n            if shell is not None:",
        "        else:\n            if shell is not None:",
        (TEST_SHELL,),
    ),
    Mutant(
        "a thread that is started is waited for",
        SHELL,
        "        thread._started = _Flag()",
        "        _Flag()",
        (TEST_SHELL,),
    ),
    Mutant(
        "a shell that ends takes a cell along that was lent to it just then",
        SHELL,
        "            gate.acquire()  # lent in this very moment: the cell is on its way\n",
        "            return False\n",
        (TEST_SHELL,),
    ),
)
