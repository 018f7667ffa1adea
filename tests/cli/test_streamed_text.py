"""The model's text while it is written: what is on standard output, and when."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import understudy as us
from tests.support.commands import chat_made, run_made
from tests.support.streaming import StreamedScript, Tap, text_turn
from tests.support.tools import look
from understudy.commandline.commands.run_display import is_certain
from understudy.commandline.piece_writer import OutputFailed
from understudy.testing import FunctionModel, ScriptedModel, calls, says

pytestmark = pytest.mark.usefixtures("folder")

LOOKS = [us.TextPiece("Let me "), us.TextPiece("look."), us.CallPiece(0, '{"word": "x"}', "c1", "look"), us.TurnEnd()]


class Out(io.StringIO):
    """Standard output that keeps each write, and calls a function after it."""

    def __init__(self, then: Callable[[], object] = lambda: None, *, terminal: bool = False) -> None:
        super().__init__()
        self._then = then
        self._terminal = terminal
        self.writes: list[str] = []

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        self.writes.append(text)
        self._then()
        return super().write(text)


def printed(monkeypatch: pytest.MonkeyPatch, out: Out, runner: us.Runner[Any], *words: str) -> int:
    """Run a runner with `out` as standard output, and return the exit status."""
    monkeypatch.setattr(sys, "stdout", out)
    return run_made(runner, "go", *words)


def clerk(*turns: Any, **options: Any) -> us.Agent[Any]:
    return us.Agent("clerk", model=StreamedScript(turns), **options)


# --- in a pipe


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_a_pipe_gets_each_piece_of_a_certain_answer_before_the_next_one_is_written(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    tap = Tap(text_turn("The ", "sum is ", "4."))
    tap.let()
    out = Out(lambda: tap.let(2))  # the last piece and the turn's end come together

    assert printed(monkeypatch, out, clerk(tap), *options) == 0

    assert out.writes[0] == "The "
    assert out.getvalue() == "The sum is 4.\n"


def test_a_pipe_gets_the_answer_alone_where_a_text_may_turn_out_not_to_be_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = Out()

    assert printed(monkeypatch, out, clerk(LOOKS, text_turn("Se", "ven."), tools=[look])) == 0

    assert out.getvalue() == "Seven.\n"


def test_if_it_is_asked_to_a_pipe_gets_texts_beside_calls_too(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Out()

    assert printed(monkeypatch, out, clerk(LOOKS, text_turn("Se", "ven."), tools=[look]), "--stream") == 0

    assert out.getvalue() == "Let me look.\nSeven.\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_without_a_stream_the_answer_is_printed_when_the_run_is_over(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    out = Out(terminal=terminal)

    assert printed(monkeypatch, out, clerk(text_turn("Se", "ven.")), "--no-stream", "--plain") == 0

    assert [text for text in out.writes if text.strip()] == ["Seven."]


def test_json_is_one_object_and_nothing_of_the_text_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Out()

    assert printed(monkeypatch, out, clerk(text_turn("Se", "ven.")), "--json") == 0

    assert out.getvalue().startswith('{"outcome": "complete"')
    assert out.getvalue().count("\n") == 1


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_a_question_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    out = Out()

    assert printed(monkeypatch, out, clerk(text_turn(" __ask", "_user__: ", "which?")), *options) == 3

    assert out.getvalue() == ""
    assert "for an answer to: which?" in capsys.readouterr().err


def test_an_answer_that_begins_like_a_question_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Out()

    assert printed(monkeypatch, out, clerk(text_turn("\n__ask", "__ is", " a word."))) == 0

    assert out.getvalue() == "\n__ask__ is a word.\n"


def test_texts_of_runs_inside_are_not_mixed_into_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = us.Agent("inner", model=StreamedScript([text_turn("In", "side.")]), description="knows")
    hands = [us.CallPiece(0, '{"task": "t"}', "c1", "inner"), us.TurnEnd()]
    out = Out()

    assert printed(monkeypatch, out, clerk(hands, text_turn("Out", "side."), sub_agents=[inner]), "--stream") == 0

    assert out.getvalue() == "Outside.\n"


def test_the_answer_of_a_group_comes_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Out()
    group = us.SequentialAgent("both", [clerk(text_turn("o", "ne")), us.Agent("b", model=ScriptedModel([says("two")]))])

    assert printed(monkeypatch, out, group, "--stream") == 0

    assert out.getvalue() == "two\n"


def broken_off(_: us.ModelRequest) -> Iterator[us.Piece]:
    yield us.TextPiece("The sum")
    raise us.RateLimited("gone")


def test_a_failure_leaves_the_part_that_was_written_and_says_that_it_does_not_stand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Out()

    assert printed(monkeypatch, out, clerk(broken_off)) == 1

    err = capsys.readouterr().err
    assert out.getvalue() == "The sum\n"
    assert "[taken back: the model call failed]\n" in err
    assert "RateLimited: agent 'clerk' (StreamedScript): gone" in err


def test_an_answer_that_is_not_what_was_written_is_printed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    invented = [us.TextPiece("Let me look."), us.CallPiece(0, "{}", "c1", "nothing"), us.TurnEnd()]
    out = Out()

    assert printed(monkeypatch, out, clerk(invented, text_turn("Seven."))) == 0

    assert out.getvalue() == "Let me look.\nSeven.\n"


def test_a_full_disk_fails_the_command_after_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OutputFailed, match="No space left"):
        printed(monkeypatch, Out(full), clerk(text_turn("Se", "ven.")))


def test_a_reader_that_goes_away_in_the_middle_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise BrokenPipeError

    assert printed(monkeypatch, Out(gone), clerk(text_turn("Se", "ven."))) == 0


def test_a_chat_in_a_pipe_writes_as_it_comes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    tap = Tap(text_turn("Hello ", "Ada."))
    tap.let()
    out = Out(lambda: tap.let(2))
    monkeypatch.setattr(sys, "stdin", io.StringIO("hi\n"))
    monkeypatch.setattr(sys, "stdout", out)

    assert chat_made(us.Agent("clerk", model=StreamedScript([tap]))) == 0

    assert (out.writes[0], out.getvalue()) == ("Hello ", "Hello Ada.\n")


# --- which answers are certain


class Judge(us.AgentCallback):
    def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> None:
        return None


class Rescue(us.AgentCallback):
    def on_error(self, ctx: us.RunContext, error: BaseException) -> None:
        return None


class Watch(us.AgentCallback):
    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> None:
        return None


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [look]},
        {"sub_agents": [us.Agent("inner", model="rehearsal", description="knows")]},
        {"output_type": int},
        {"criteria": [us.KeywordCriteria("done")]},
        {"callbacks": [Judge()]},
        {"callbacks": [Watch(), Rescue()]},
        {"restart_on": [ConnectionError]},
        {"settings": us.Settings(extra={"tools": []})},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_text_is_not_certain_where_something_may_follow_or_replace_it(options: dict[str, Any]) -> None:
    assert not is_certain(us.Agent("clerk", model="rehearsal", **options))


def test_a_text_is_certain_where_nothing_can_follow_it() -> None:
    assert is_certain(us.Agent("clerk", model="rehearsal", callbacks=[Watch()], memory=us.InMemoryMemory()))
    assert not is_certain(us.SequentialAgent("one", [us.Agent("clerk", model="rehearsal")]))


# --- on a terminal without live lines


def test_a_terminal_gets_every_text_and_marks_for_those_that_do_not_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    no_cards = us.OutputGuardrail("no cards", lambda _, text: "no" if "card" in text else None, retry=True)
    turns = [LOOKS, text_turn("By ", "card\x1b[2J."), text_turn("By ", "cash.\r", "\nThanks.")]
    out = Out(terminal=True)

    assert printed(monkeypatch, out, clerk(*turns, tools=[look], callbacks=[no_cards])) == 0

    assert out.getvalue() == "Let me look.\nBy card�[2J.\n[taken back: by no cards]\nBy cash.\nThanks.\n"


def test_a_text_that_is_not_the_end_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Out(terminal=True)
    agent = clerk(text_turn("Soon."), text_turn("It is ", "done."), criteria=[us.KeywordCriteria("done")])

    assert printed(monkeypatch, out, agent) == 0

    assert out.getvalue() == "Soon.\n[not the answer: the run goes on]\nIt is done.\n"


def test_a_model_that_does_not_stream_has_its_text_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Out(terminal=True)
    agent = us.Agent("clerk", model=ScriptedModel([calls("look", word="x"), says("Seven.")]), tools=[look])

    assert printed(monkeypatch, out, agent) == 0

    assert out.writes == ["Seven.", "\n"]


def test_log_lines_on_the_same_terminal_are_not_mixed_with_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Out(terminal=True)
    monkeypatch.setattr(sys, "stderr", Out(terminal=True))
    agent = us.Agent("clerk", model=FunctionModel(lambda _: "Seven."))

    assert printed(monkeypatch, out, agent, "--log", "console", "--plain") == 0

    assert out.getvalue() == "Seven.\n"
    assert out.writes[0] == "Seven."
