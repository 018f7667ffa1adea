"""`understudy run FILE.yaml ID INPUT`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO

from understudy.commandline.call_log import CallLog
from understudy.commandline.model_overrides import cast_of
from understudy.commandline.report import UsageMistake, one_line
from understudy.commandline.turn_text import is_of_outermost
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.graph.parameters import check_parameters
from understudy.orchestration.graph.spec import uses_input
from understudy.vocabulary.checks import not_json
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonValue
from understudy.vocabulary.runs.events import Event, RunFailed, RunFinished
from understudy.vocabulary.runs.memory import MemoryNotUsed

from . import options
from .lines import decoded
from .loading import agents_in, check_tools, load
from .printing import warn
from .remembering import warn_if_forgotten
from .run_display import display_of, tell_end
from .waiting import system_of

if TYPE_CHECKING:
    from understudy.actors import ActorSystem
    from understudy.orchestration.definitions.runner import Runner
    from understudy.specs import LoadedSpec
    from understudy.vocabulary.runs.handles import RunHandle
    from understudy.vocabulary.runs.outcomes import Outcome

ABOUT = """\
Run an agent, a group or a workflow of a spec on one input. Print its answer.

The answer goes to standard output, and the progress to standard error. A
terminal shows the text while the model writes it. A pipe gets it piece by piece
if no other text can follow, and otherwise the answer at the end of the run;
--stream writes every text as it comes, and --no-stream the answer alone. A spec
names its tools: a tool of --tools FILE.py by its name, and a tool of another
file beside the spec as FILE.py:FUNCTION.

A prompt of a workflow may refer to tasks and to parameters. --set NAME=VALUE
gives a parameter as text, and NAME:=JSON gives a list, a number or an object.
INPUT may be left out if no prompt of the workflow has ${input}.

examples:
  understudy run shop.yaml clerk "How many of A-113 are left?"
  understudy run shop.yaml clerk "How many of A-113 are left?" --tools tools.py --rehearse
  understudy run shop.yaml clerk "How many of A-113 are left?" --record tape.jsonl
  understudy run shop.yaml clerk "How many of A-113 are left?" --replay tape.jsonl
  understudy run shop.yaml clerk "And of B-7?" --store sqlite:///shop.db --user ada --conversation c-42
  understudy run shop.yaml clerk "How many of A-113 are left?" --events
  git log -5 | understudy run notes.yaml writer - --timeout 60 --json
  understudy run news.yaml brief --set topic=tides --set 'regions:=["north", "south"]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `run`."""
    parser.epilog = options.EXITS
    parser.add_argument("file", metavar="FILE.yaml", help="the spec")
    parser.add_argument(
        "id", metavar="ID", type=options.text, help="the id of an agent, a group or a workflow of the spec"
    )
    parser.add_argument(
        "input",
        metavar="INPUT",
        nargs="?",
        type=options.text,
        help="the message of the user; - reads it from standard input",
    )
    add_parameters(parser)
    options.add_conversation(parser, "without it the run remembers nothing and is not remembered")
    options.add_tools(parser)
    options.add_run_options(parser)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add `--set`."""
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        type=options.text,
        default=[],
        help="a parameter of a workflow, as text; NAME:=JSON for other values; repeatable",
    )


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Load the spec, run the named runner, and print the answer."""
    return carry_out(load(arguments.file, arguments.tools), arguments, out)


def carry_out(loaded: LoadedSpec, arguments: argparse.Namespace, out: TextIO) -> int:
    """Run a runner of a spec, and print the answer."""
    runner = loaded.runner(arguments.id)
    check_tools(runner)
    given = parameters(runner, arguments.set)
    text = read_input(runner, arguments.input)
    if arguments.conversation is not None:
        warn_if_forgotten(runner, arguments)
    system = system_of(arguments)
    log, began = CallLog(), time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(cast_of(agents_in(loaded.runners.values()), agents_in([runner]), arguments, warn))
        display = display_of(runner, arguments, out)
        stack.callback(display.close)
        start = partial(begin, runner, text, given, arguments, system)
        ended = watch(start, log.see, display.see)
    return tell_end(ended, arguments, out, log, time.monotonic() - began, display)


def begin(
    runner: Runner[object],
    text: str,
    given: Mapping[str, JsonValue],
    arguments: argparse.Namespace,
    system: ActorSystem,
    conversation_id: str | None = None,
) -> RunHandle[object]:
    """Begin a run of any runner, in a conversation if one is named; `given` are the parameters of a workflow."""
    user_id, timeout = arguments.user, arguments.timeout
    conversation_id = conversation_id or arguments.conversation
    with warnings.catch_warnings():
        # A single run has nothing to recall, and the command tells of a missing store.
        warnings.simplefilter("ignore", MemoryNotUsed)
        if isinstance(runner, Workflow):
            return runner.submit(
                text,
                parameters=given,
                timeout=timeout,
                system=system,
                user_id=user_id,
                conversation_id=conversation_id,
            )
        return runner.submit(text, timeout=timeout, system=system, user_id=user_id, conversation_id=conversation_id)


def watch(start: Callable[[], RunHandle[object]], *see: Callable[[Event], None]) -> Outcome[object] | BaseException:
    """Start or continue a run, pass its events to each `see`, and return its outcome or error.

    An interrupt cancels the run, from its very start; the run's own events that follow are passed on too.
    """
    handle: RunHandle[object] | None = None
    last: str | None = None
    try:
        handle = start()
        for event in handle.events(inner=True):
            last = event.id if is_of_outermost(event) else last
            for each in see:
                each(event)
            match event:
                case RunFinished(outcome=outcome):
                    handle.result()  # the run writes its last log line after this event
                    return outcome
                case RunFailed(error=error):
                    with contextlib.suppress(type(error)):
                        handle.result()
                    return error
                case _:
                    pass
    except KeyboardInterrupt:
        interrupted = KeyboardInterrupt("the run was cancelled")
        if handle is not None and handle.cancel():
            interrupted.__cause__ = handle.exception()  # it has the token
            for event in handle.events(after=last):
                for each in see:
                    each(event)
        return interrupted
    return handle.result()


def read_input(runner: Runner[object], given: str | None) -> str:
    """Return the given input, or else standard input; empty if there is no input and none is needed."""
    if given is None:
        if isinstance(runner, Workflow) and not uses_input(runner.run_spec.tasks):
            return ""
        why = "; its prompts refer to ${input}" if isinstance(runner, Workflow) else ""
        raise UsageMistake(f"the following arguments are required: INPUT, for {runner.id!r} to answer{why}")
    try:
        text = decoded(sys.stdin.read()) if given == "-" else given
    except UnicodeDecodeError as error:
        raise UsageMistake(f"standard input is not text: {error}") from error
    if not text.strip():
        raise UsageMistake("the input is empty; expected what the agent is to answer, or '-' to read standard input")
    return text


def parameters(runner: Runner[object], settings: Sequence[str]) -> dict[str, JsonValue]:
    """Return the parameters given by `--set`; they must be exactly those that the workflow's prompts need."""
    if not isinstance(runner, Workflow):
        if settings:
            raise UsageMistake(f"--set {settings[0]}: {runner.id!r} is no workflow, and only these have parameters")
        return {}
    given: dict[str, JsonValue] = {}
    for setting in settings:
        name, value = _parameter(setting)
        if name in given:
            raise UsageMistake(f"--set {setting}: {name!r} is set twice")
        given[name] = value
    try:
        check_parameters(runner.run_spec, given)
    except (TypeError, ValueError) as error:
        raise UsageMistake(f"{error}\n  --set NAME=VALUE gives a parameter; {_names_of(runner)}") from error
    return given


def _parameter(setting: str) -> tuple[str, JsonValue]:
    name, equals, text = setting.partition("=")
    if not equals or not name.strip(": "):
        raise UsageMistake(f"--set {setting}: expected NAME=VALUE, or NAME:=JSON")
    if not name.endswith(":"):
        return name, text
    try:
        value = parse(text)
    except ValueError as error:
        raise UsageMistake(f"--set {one_line(setting)}: what follows ':=' is no JSON: {error}") from error
    if fault := not_json(value, "the value"):  # how deep a text may go for `parse` depends on the Python
        raise UsageMistake(f"--set {one_line(setting)}: what follows ':=' is not taken: {fault}")
    return name[:-1], value


def _names_of(workflow: Workflow) -> str:
    return f"it needs {', '.join(sorted(workflow.parameters)) or 'none'}"
