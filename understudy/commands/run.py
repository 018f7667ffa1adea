"""`understudy run FILE.yaml ID INPUT`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, TextIO

from understudy.casting import cast_of
from understudy.events import RunFailed, RunFinished
from understudy.orchestration import Agent
from understudy.report import CallLog, UsageMistake
from understudy.terminal import Progress, Quiet, progress_on

from . import options
from .loading import agents_in, check_tools, load
from .printing import tell, warn
from .waiting import repeated, system_of, without_vain_token

if TYPE_CHECKING:
    from understudy.actors import ActorSystem
    from understudy.outcomes import Outcome

ABOUT = """\
Run one agent of a spec on one input, and print its answer.

Progress goes to standard error, the answer to standard output. A spec names its tools: those of --tools FILE.py by their
names, or FILE.py:FUNCTION, a file beside the spec.

examples:
  understudy run shop.yaml clerk "How many of A-113 are left?"
  understudy run shop.yaml clerk "How many of A-113 are left?" --tools tools.py --rehearse
  understudy run shop.yaml clerk "How many of A-113 are left?" --record tape.jsonl
  understudy run shop.yaml clerk "How many of A-113 are left?" --replay tape.jsonl
  git log -5 | understudy run notes.yaml writer - --timeout 60 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `run` takes."""
    parser.epilog = options.EXITS
    parser.add_argument("file", metavar="FILE.yaml", help="the spec")
    parser.add_argument("id", metavar="ID", help="which of its agents")
    parser.add_argument("input", metavar="INPUT", help="what the user says; - reads standard input")
    options.add_tools(parser)
    options.add_run_options(parser)


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Run it, and print the answer."""
    loaded = load(arguments.file, arguments.tools)
    agent = loaded.agent(arguments.id)
    check_tools(agent)
    text = read_input(arguments.input)
    system = system_of(arguments)
    log = CallLog()
    with contextlib.ExitStack() as stack:
        stack.enter_context(cast_of(agents_in(loaded.runners.values()), agents_in([agent]), arguments, warn))
        progress = Quiet() if arguments.json else progress_on(sys.stderr)
        stack.callback(progress.close)
        ended = _watch(agent, text, arguments.timeout, system, log, progress)
    ended = without_vain_token(ended, arguments)
    return tell(ended, out, json=arguments.json, log=log, again=repeated(arguments))


def _watch(
    agent: Agent[object], text: str, timeout: float | None, system: ActorSystem, log: CallLog, progress: Progress
) -> Outcome[object] | BaseException:
    handle = None
    try:
        handle = agent.submit(text, timeout=timeout, system=system)
        for event in handle.events():
            log.see(event)
            progress.see(event)
            match event:
                case RunFinished(outcome=outcome):
                    return outcome
                case RunFailed(error=error):
                    return error
                case _:
                    pass
    except KeyboardInterrupt:
        if handle is not None:  # else it comes to an end with the process, which is next
            handle.cancel()
        return KeyboardInterrupt("the run was cancelled")
    return handle.result()


def read_input(given: str) -> str:
    """Return the input that was given, or what standard input has."""
    try:
        text = sys.stdin.read() if given == "-" else given
    except UnicodeDecodeError as error:
        raise UsageMistake(f"standard input is not text: {error}") from error
    if not text.strip():
        raise UsageMistake("the input is empty; expected what the agent is to answer, or '-' to read standard input")
    return text
