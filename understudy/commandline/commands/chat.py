"""`understudy chat FILE.yaml ID`: each line is one run in one conversation."""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias, cast

from understudy.commandline.call_log import CallLog
from understudy.commandline.event_words import Display
from understudy.commandline.model_overrides import cast_of
from understudy.commandline.report import (
    COMPLETE,
    INTERRUPTED,
    WAITING,
    WIDEST_ASKED,
    as_json,
    explain,
    for_people,
    one_line,
    shown_call,
    status_of,
)
from understudy.errors import AnswerRefused, UnderstudyError
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonObject, JsonValue, ToolCall
from understudy.vocabulary.runs.outcomes import Approve, Decision, NeedsApproval, NeedsInput, Pause, PauseAnswer, Reject

from . import options
from .lines import Lines
from .loading import agents_in, check_tools, load
from .printing import put, tell, warn
from .remembering import outlives_process, remembering, warn_if_forgotten
from .run import add_parameters, begin, parameters, watch
from .run_display import display_of
from .waiting import repeated, system_of, without_vain_token

if TYPE_CHECKING:
    from understudy.actors import ActorSystem
    from understudy.orchestration.definitions.runner import Runner
    from understudy.specs import LoadedSpec
    from understudy.vocabulary.runs.outcomes import Outcome

ABOUT = """\
Talk to an agent, a group or a workflow of a spec. Each line is the input of
one run, and all runs are in one conversation.

If the agent asks a question, the next line answers it. If a call needs an
approval, the call is shown: y approves it, n REASON rejects it, and e changes
its arguments first. An agent without a memory gets one that lasts as long as
the chat. A persistent memory keeps the conversation in the store: with the same
--store, --user and --conversation a later chat goes on with it. A group
remembers if its agents do. Ctrl-C cancels the present run; a second Ctrl-C, or
Ctrl-D, ends the chat. /help explains /reset and /quit.

In a pipe, only answers, questions and approvals go to standard output, and the
lines that follow reply to them. --json prints one object for each run. The exit
status is that of the first run that did not complete.

examples:
  understudy chat shop.yaml clerk --tools tools.py
  understudy chat shop.yaml clerk --rehearse
  understudy chat shop.yaml clerk --store sqlite:///shop.db --user ada --conversation c-42
  printf 'Hello\\nWhat did I say?\\n' | understudy chat shop.yaml clerk --json
"""

HELP = """\
/help   this
/reset  begin another conversation
/quit   end the chat, as Ctrl-D does
Ctrl-C cancels the run that goes on; a line that begins with // is sent with one / less"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `chat`."""
    parser.epilog = options.EXITS
    parser.add_argument("file", metavar="FILE.yaml", help="the spec")
    parser.add_argument(
        "id", metavar="ID", type=options.text, help="the id of an agent, a group or a workflow of the spec"
    )
    add_parameters(parser)
    options.add_conversation(parser, "without it the chat begins a new one")
    options.add_tools(parser)
    options.add_run_options(parser)


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Load the spec, and chat."""
    return carry_out(load(arguments.file, arguments.tools), arguments, out)


def carry_out(loaded: LoadedSpec, arguments: argparse.Namespace, out: TextIO) -> int:
    """Chat with a runner of a spec until the input ends."""
    found = loaded.runner(arguments.id)
    check_tools(found)
    given = parameters(found, arguments.set)
    runner = remembering(found)
    warn_if_forgotten(runner, arguments)
    system = system_of(arguments)
    lines = Lines(out)
    every = agents_in([runner, *loaded.runners.values()])
    with cast_of(every, agents_in([runner]), arguments, warn):
        return Chat(runner, given, system, lines, arguments, out).go_on()


class Chat:
    """One conversation, line by line."""

    def __init__(
        self,
        runner: Runner[object],
        given: Mapping[str, JsonValue],
        system: ActorSystem,
        lines: Lines,
        arguments: argparse.Namespace,
        out: TextIO,
    ) -> None:
        self._runner: Final = runner
        self._given: Final = given
        self._system: Final = system
        self._lines: Final = lines
        self._arguments: Final = arguments
        self._out: Final = out
        self._conversation: str = arguments.conversation or _new_conversation()
        self._interrupts = 0
        """How many there were since the last line."""
        self._status = COMPLETE

    def go_on(self) -> int:
        """Read and answer lines until the input ends, and return the exit status."""
        if self._lines.interactive:
            warn(f"{self._runner.id} listens; /help explains, Ctrl-D ends{self._how_to_return()}")
        while True:
            try:
                line = self._lines.read("> ")
                if line is None or line.strip() == "/quit":
                    return COMPLETE if self._lines.interactive else self._status
                if line.strip():
                    self._interrupts = 0
                    self._take(line)
            except KeyboardInterrupt:
                self._interrupts += 1
                if self._interrupts > 1 or not self._lines.interactive:
                    return INTERRUPTED
                warn("\nCtrl-C again, or Ctrl-D, ends the chat")
            except EOFError:
                return WAITING

    def _how_to_return(self) -> str:
        """Name the conversation, if a store may keep it beyond the chat."""
        if not outlives_process(self._runner, self._arguments):
            return ""
        return f"\n--conversation {shlex.quote(self._conversation)} goes on with this conversation later"

    def _take(self, line: str) -> None:
        match line.strip():
            case "/help":
                warn(HELP)
            case "/reset":
                self._conversation = _new_conversation()
                warn(f"another conversation begins{self._how_to_return()}")
            case word if word.startswith("/") and not word.startswith("//") and word[1:].isalpha():
                warn(f"there is no command {word}; /help tells those there are")
            case _:
                self._answer(line[1:] if line.startswith("//") else line)

    def _answer(self, text: str) -> None:
        log = CallLog()
        display = display_of(self._runner, self._arguments, self._out, has_progress=self._lines.interactive)
        with contextlib.closing(display):
            start = partial(
                begin,
                self._runner,
                text,
                self._given,
                self._arguments,
                self._system,
                self._conversation,
            )
            ended = watch(start, log.see, display.see)
            while isinstance(ended, (NeedsInput, NeedsApproval)):
                display.close()  # before the person types
                ended = self._resumed(ended, log, display)
        self._tell(ended, log, display)
        if isinstance(ended, KeyboardInterrupt):
            raise ended

    def _resumed(
        self, waiting: NeedsInput | NeedsApproval, log: CallLog, display: Display
    ) -> Outcome[object] | BaseException:
        """Ask a person for the answers, and continue the run.

        Raises:
            EOFError: the input ended before the answers.
        """
        ask = warn if self._is_for_program else partial(put, stream=self._out)
        try:
            answers = answers_to(waiting.pauses, self._lines.read, ask)
        except KeyboardInterrupt:
            self._leave(waiting)
            raise
        if answers is None:
            told = without_vain_token(waiting, self._arguments)
            again = repeated(self._arguments)
            tell(told, self._out, json=self._arguments.json, log=log, again=again, display=display)
            raise EOFError
        self._interrupts = 0
        start = partial(
            self._runner.submit_resume,
            waiting.token,
            answers,
            timeout=self._arguments.timeout,
            system=self._system,
        )
        try:
            return watch(start, log.see, display.see)
        except AnswerRefused as error:  # the token is still valid: ask again
            ask(str(error))
            return waiting
        except UnderstudyError as error:
            if self._arguments.events:  # no event tells it: the run has not gone on
                warn(f"understudy: {explain(error)}")
            return error

    def _leave(self, waiting: NeedsInput | NeedsApproval) -> None:
        """Print how to answer a run later, if it can be answered later."""
        told = without_vain_token(waiting, self._arguments)
        if isinstance(told, (NeedsInput, NeedsApproval)) and told.token:
            warn(f"\n{for_people(told, repeated(self._arguments))[1]}")

    @property
    def _is_for_program(self) -> bool:
        return bool(self._arguments.json or self._arguments.events)

    def _tell(self, ended: Outcome[object] | BaseException, log: CallLog, display: Display) -> None:
        """Print how a run ended. Unlike `tell`, this passes an interrupt on, as it may be meant to end the chat."""
        ended = without_vain_token(ended, self._arguments)
        if self._arguments.json:
            put(as_json(ended, log, repeated(self._arguments)), self._out)
        else:
            answer, aside = display.settle(*for_people(ended, repeated(self._arguments)))
            warn(aside)
            put(answer, self._out, markdown=not (self._arguments.plain or self._arguments.rehearse))
            display.check()
        self._status = self._status or status_of(ended)


def _new_conversation() -> str:
    return f"chat-{secrets.token_hex(4)}"


Read: TypeAlias = Callable[[str], str | None]
"""Reads a line, after a prompt; None at the end of the input."""
Say: TypeAlias = Callable[[str], None]

HOW = "y lets it run; n, or n REASON, does not; e edits the arguments first, or e JSON gives them"


def answers_to(pauses: Iterable[Pause], read: Read, say: Say) -> dict[str, PauseAnswer] | None:
    """Ask for all answers, by the ids of the pauses; None if the input ended first.

    Args:
        pauses: the pauses of the run.
        read: reads a line.
        say: prints a question.
    """
    answers: dict[str, PauseAnswer] = {}
    for pause in pauses:
        answer = _answered(pause, read, say) if pause.question is not None else _decided(pause, read, say)
        if answer is None:
            return None
        answers[pause.id] = answer
    return answers


def _answered(pause: Pause, read: Read, say: Say) -> str | None:
    say(f"{_who(pause)}{pause.question}")
    while (line := read("? ")) is not None:
        if line.strip():
            return line
    return None


def _decided(pause: Pause, read: Read, say: Say) -> dict[str, Decision] | None:
    decisions: dict[str, Decision] = {}
    for call in pause.calls:
        why = pause.reasons.get(call.id, "")
        shown = shown_call(call, WIDEST_ASKED)
        say(f"{_who(pause)}may this run? {shown}{f' ({one_line(why)})' if why else ''}")
        decision = _decision(call, read, say)
        if decision is None:
            return None
        decisions[call.id] = decision
    return decisions


def _who(pause: Pause) -> str:
    return f"{' > '.join(pause.path)}: " if len(pause.path) > 1 else ""


def _decision(call: ToolCall, read: Read, say: Say) -> Decision | None:
    while (line := read("[y/N/e] ")) is not None:
        word, _, rest = line.strip().partition(" ")
        match word.lower():
            case "y" | "yes":
                return Approve()
            case "" | "n" | "no":
                return Reject(rest.strip())
            case "e" | "edit":
                arguments = _edited(call, rest.strip(), read, say)
                if arguments is not None:
                    return Approve(arguments=arguments)
            case _:
                say(HOW)
    return None


def _edited(call: ToolCall, given: str, read: Read, say: Say) -> JsonObject | None:
    """Return the given arguments, or None if they are not a JSON object."""
    if not given:
        say(f"the arguments are {json.dumps(dict(call.arguments), ensure_ascii=False, default=str)}")
        given = read("arguments as JSON: ") or ""
    try:
        arguments: object = parse(given)
    except ValueError as error:
        say(f"that is no JSON: {error}")
        return None
    if not isinstance(arguments, dict):
        say('expected a JSON object, such as {"order": "7"}')
        return None
    return cast(JsonObject, arguments)
