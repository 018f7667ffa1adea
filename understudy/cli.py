"""The command line: `understudy run FILE.yaml ID INPUT` and `understudy resume TOKEN FILE.yaml`."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, TextIO

from understudy.actors import ActorSystem
from understudy.errors import UnderstudyError
from understudy.events import RunFailed, RunFinished
from understudy.models import ModelName
from understudy.orchestration import Agent
from understudy.outcomes import Outcome
from understudy.providers.credentials import check_key
from understudy.specs import LoadedSpec, SpecLoader, load_tool_file

from . import resuming
from .casting import recording, rehearsing, replaying
from .report import INTERRUPTED, SPEC, USAGE, CallLog, UsageMistake, as_json, for_people, status_of
from .terminal import Progress, Quiet, progress_on

ABOUT = """\
Run agents that are described in YAML.

example:
  understudy run examples/ledger/agent.yaml clerk "What needs my attention this week?" \\
      --tools examples/ledger/tools.py --rehearse

'understudy COMMAND --help' explains a command.
"""

ABOUT_RUN = """\
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

EXITS = """\
keys:
  A model's key is read from the environment, such as ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY.
  With --rehearse none is needed: a stand-in for the model calls every tool once and then answers.
  With --replay none is needed: the tape of an earlier run with --record answers.

exit status:
  0    the run is complete
  1    the run failed: the provider, the store, a tool that ends the run, a limit, a bug
  2    the command line, the spec or a file of tools is wrong; nothing was run
  3    the run waits for a person, for an answer or an approval; with --store, the token for it is printed
  130  interrupted; the run was cancelled
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; `argv` is without the program's name."""
    given = list(sys.argv[1:] if argv is None else argv)
    _never_fail_to_print()
    out = sys.stdout
    log = CallLog()
    again = SPEC
    ended: Outcome[object] | BaseException
    try:
        arguments = _parser().parse_args(given)
        again = resuming.repeated(arguments)
        # What tools print is not the answer, and must not come between a program and its JSON.
        with contextlib.redirect_stdout(sys.stderr):
            ended = resuming.without_vain_token(arguments.do(arguments, log), arguments)
    except SystemExit as ending:  # argparse printed its help or version
        return ending.code if isinstance(ending.code, int) else USAGE
    except (UsageMistake, UnderstudyError, KeyboardInterrupt) as error:
        ended = error
    return _tell(ended, log, out, again, json="--json" in given)


def _run(arguments: argparse.Namespace, log: CallLog) -> Outcome[object] | BaseException:
    loaded = _load(arguments.file, arguments.tools)
    agent = loaded.agent(arguments.id)
    _check_tools(agent)
    text = _read_input(arguments.input)
    system = resuming.system_of(arguments)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_models_of(loaded, agent, arguments))
        progress = Quiet() if arguments.json else progress_on(sys.stderr)
        stack.callback(progress.close)
        return _watch(agent, text, arguments.timeout, system, log, progress)


def _resume(arguments: argparse.Namespace, log: CallLog) -> Outcome[object] | BaseException:
    system = resuming.system_of(arguments)
    loaded = _load(arguments.file, arguments.tools)
    agent = loaded.agent(resuming.agent_id(arguments, system))
    _check_tools(agent)
    if not (arguments.rehearse or arguments.replay) and isinstance(agent.model, ModelName):
        check_key(agent.model.provider)  # now: once the token is taken, what was approved is done, and the run is lost
    with _models_of(loaded, agent, arguments):
        return resuming.go_on(agent, arguments, system, log)


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


def _models_of(
    loaded: LoadedSpec, agent: Agent[object], arguments: argparse.Namespace
) -> contextlib.AbstractContextManager[None]:
    """Return what lets the models of the spec be played, while it is entered, by those that the options name."""
    agents, model = loaded.agents.values(), _model_name(agent)

    def warn(text: str) -> None:
        _print(text, sys.stderr)

    def say(text: str) -> None:
        if not arguments.json:
            warn(text)

    if arguments.rehearse:
        return rehearsing(agents, say, model)
    if arguments.record is not None:
        return recording(agents, arguments.record, say, warn)
    if arguments.replay is not None:
        return replaying(agents, arguments.replay, say, model)
    return contextlib.nullcontext()


def _load(file: str, tool_files: Sequence[str]) -> LoadedSpec:
    loader = SpecLoader(tool_files=True)
    for tool_file in tool_files:
        found = load_tool_file(tool_file)
        for name, tool in found.tools.items():
            try:
                loader.register_tool(name, tool)
            except ValueError as error:
                raise UsageMistake(f"--tools {tool_file}: {error}") from error
        for name, reason in found.unusable.items():
            loader.explain_missing_tool(name, reason)
    return loader.load_file(file)


def _check_tools(agent: Agent[object]) -> None:
    """Build the schemas of the tools now, for what is wrong with them is the user's to mend, not the run's failure."""
    try:
        _ = agent.run_spec
    except (TypeError, ValueError) as error:
        raise UsageMistake(f"agent {agent.id!r}: {error}") from error
    for tool in agent.tools:
        if tool.isolation == "caller":
            raise UsageMistake(
                f"agent {agent.id!r}: tool {tool.name!r} has isolation='caller', which needs a program that waits in run()"
            )


def _model_name(agent: Agent[object]) -> str:
    model = agent.model
    return str(model) if isinstance(model, ModelName) else repr(model)


def _read_input(given: str) -> str:
    try:
        text = sys.stdin.read() if given == "-" else given
    except UnicodeDecodeError as error:
        raise UsageMistake(f"standard input is not text: {error}") from error
    if not text.strip():
        raise UsageMistake("the input is empty; expected what the agent is to answer, or '-' to read standard input")
    return text


def _tell(ended: Outcome[object] | BaseException, log: CallLog, out: TextIO, again: str, *, json: bool) -> int:
    if json:
        answer, aside = as_json(ended, log, again), ""
    else:
        answer, aside = for_people(ended, again)
    try:
        _print(aside, sys.stderr)
        _print(answer, out)
    except KeyboardInterrupt:
        return INTERRUPTED
    return status_of(ended)


def _print(text: str, stream: TextIO) -> None:
    try:
        if text:
            print(text, file=stream, flush=True)
    except BrokenPipeError:
        # The reader has gone, as `head` does. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _never_fail_to_print() -> None:
    """Escape what an old terminal's encoding cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageMistake(f"{message}\n{self.format_usage().strip()}\n'{self.prog} --help' explains more")


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="understudy", description=ABOUT, formatter_class=raw, allow_abbrev=False)
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    run = commands.add_parser(
        "run",
        help="run one agent of a spec on one input",
        description=ABOUT_RUN,
        epilog=EXITS,
        formatter_class=raw,
        allow_abbrev=False,
    )
    run.add_argument("file", metavar="FILE.yaml", help="the spec")
    run.add_argument("id", metavar="ID", help="which of its agents")
    run.add_argument("input", metavar="INPUT", help="what the user says; - reads standard input")
    run.set_defaults(do=_run)
    _add_options(run)
    resume = commands.add_parser(
        "resume",
        help="go on with a run that waits",
        description=resuming.ABOUT,
        epilog=EXITS,
        formatter_class=raw,
        allow_abbrev=False,
    )
    resuming.add_arguments(resume)
    resume.set_defaults(do=_resume)
    _add_options(resume)
    return parser


def _add_options(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--tools",
        metavar="FILE.py",
        action="append",
        default=[],
        help="offer the spec this file's tools: what @tool made, and public functions with annotations; repeatable",
    )
    models = run.add_mutually_exclusive_group()
    models.add_argument(
        "--rehearse", action="store_true", help="let a stand-in play every model; needs no key or network"
    )
    models.add_argument(
        "--record",
        metavar="TAPE",
        help="write what every model is asked and answers to a new file, without keys and what looks like one",
    )
    models.add_argument(
        "--replay",
        metavar="TAPE",
        help="let the answers of a recorded run play every model; needs no key or network. The tools really run",
    )
    run.add_argument("--json", action="store_true", help="print one JSON object, also for errors, and no progress")
    run.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="end the run after this time")
    resuming.add_store(run)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return seconds


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"understudy {version('understudy')}")
        parser.exit(0)
