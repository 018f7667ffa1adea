"""The command line: `understudy COMMAND …`. It loads only the module of the called command."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import NoReturn, Protocol, TextIO, cast

from understudy.commandline.report import FAILED, UsageMistake
from understudy.errors import UnderstudyError

ABOUT = """\
Run agents, groups and workflows of YAML specs. Begin with 'understudy demo'.

examples:
  understudy demo
  understudy demo --into shop
  understudy run shop/agent.yaml clerk "What needs my attention this week?" \\
      --tools shop/tools.py --rehearse

'understudy COMMAND --help' explains a command, with examples.
"""

COMMANDS = {
    "demo": "run the example of the package, without a key",
    "run": "run an agent, a group or a workflow of a spec on one input",
    "chat": "talk to an agent, a group or a workflow of a spec, line by line",
    "check": "print what specs define, or all of their mistakes",
    "graph": "draw a spec, or one of its runners",
    "schema": "print the JSON Schema of specs, for editors",
    "resume": "resume a run that waits for a person or stopped at a limit",
    "runs": "list the runs of a store, and look after them",
    "erase": "remove what a store has of a user",
}

OPTIONS = ("--help", "--version")


class Command(Protocol):
    """The interface of a module of `understudy.commandline.commands`."""

    ABOUT: str

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None:
        """Add the command's arguments."""
        ...

    def do(self, arguments: argparse.Namespace, out: TextIO, /) -> int:
        """Carry the command out, print its answer to `out`, and return the exit status."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; `argv` is without the program's name."""
    from understudy.commandline.commands.printing import warn
    from understudy.commandline.piece_writer import OutputFailed

    _open_closed_streams()
    _never_fail_to_print()
    try:
        return _done(list(sys.argv[1:] if argv is None else argv), sys.stdout)
    except OutputFailed as error:
        warn(f"understudy: {error}")
        return FAILED


def _done(given: Sequence[str], out: TextIO) -> int:
    """Run the given command, print any mistake, and return the exit status."""
    from understudy.commandline.commands.printing import for_prints, print_as_log_lines, tell

    print_as_log_lines("--log=json" in given or ("--log", "json") in pairwise(given))
    try:
        _refuse_unknown_command(given)
        command = _command(given)
        parser, of_command = _parsers(given, command)
        arguments, unknown = parser.parse_known_args(given)
        if unknown:
            of_command.error(f"unrecognized arguments: {' '.join(unknown)}.{_nearest_option(unknown, of_command)}")
        assert command is not None, "without a command, the parser has given up"
        _show_log(arguments)
        with contextlib.redirect_stdout(for_prints()):
            return command.do(arguments, out)
    except SystemExit as ending:  # argparse printed its help or version
        return ending.code if isinstance(ending.code, int) else 2
    except (UsageMistake, UnderstudyError, KeyboardInterrupt) as error:
        return tell(error, out, json="--json" in given, debug="--debug" in given)


def _open_closed_streams() -> None:
    """Replace a closed standard stream by /dev/null, before another file is opened under its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # for the process


def _command(given: Sequence[str]) -> Command | None:
    if not given or given[0] not in COMMANDS:
        return None
    return cast(Command, import_module(f"understudy.commandline.commands.{given[0]}"))


def _show_log(arguments: argparse.Namespace) -> None:
    """Print the runtime's log to standard error: all of it with `--log`, warnings alone with `--debug`."""
    format, debug = getattr(arguments, "log", None), getattr(arguments, "debug", False)
    if format is not None:
        from understudy.log_output import configure_logging

        configure_logging(format, "debug" if debug else "info")
    elif debug:
        _show_warnings()


def _show_warnings() -> None:
    """Print the warnings of the runtime's log, such as tracebacks of tools, to standard error."""
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.getLogger("understudy").addHandler(handler)


def _refuse_unknown_command(given: Sequence[str]) -> None:
    if not given:
        raise UsageMistake(f"no command was given. Begin with: understudy demo\nthe commands are {', '.join(COMMANDS)}")
    if given[0].startswith("--") and given[0] not in OPTIONS:
        raise UsageMistake(f"there is no option {given[0]!r}.{_nearest(given[0], OPTIONS)}")
    if not given[0].startswith("-") and given[0] not in COMMANDS:
        known = f"the commands are {', '.join(COMMANDS)}"
        raise UsageMistake(f"there is no command {given[0]!r}.{_nearest(given[0], list(COMMANDS))}\n{known}")


def _nearest_option(unknown: Sequence[str], parser: _Parser) -> str:
    options = parser.options
    named = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    return "".join([_nearest(word, options) for word in named[:1]])


def _nearest(given: str, known: Sequence[str]) -> str:
    """Return ` Did you mean '…'?` if a known word is similar."""
    from difflib import get_close_matches

    near = get_close_matches(given, known, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _never_fail_to_print() -> None:
    """Escape characters that the terminal's encoding lacks, in a way that keeps JSON valid."""
    codecs.register_error("understudy.json", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="understudy.json")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return JSON escapes for characters that cannot be encoded; Python's own backslash escapes are not JSON."""
    assert isinstance(error, UnicodeEncodeError), "it is given to streams that write only"
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


class _Parser(argparse.ArgumentParser):
    @property
    def options(self) -> list[str]:
        """The parser's long options."""
        return [word for action in self._actions for word in action.option_strings if word.startswith("--")]

    def error(self, message: str) -> NoReturn:
        raise UsageMistake(f"{message}\n{self.format_usage().strip()}\n'{self.prog} --help' explains more")


def _parsers(given: Sequence[str], command: Command | None) -> tuple[_Parser, _Parser]:
    """Return the main parser, and the command's parser, whose usage errors show; without a command the first again."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="understudy", description=ABOUT, formatter_class=raw, allow_abbrev=False)
    parser.add_argument("--version", action=_Version)
    of_command = parser
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    for name, help in COMMANDS.items():
        each = commands.add_parser(name, help=help, formatter_class=raw, allow_abbrev=False)
        if command is not None and name == given[0]:
            each.description = command.ABOUT
            command.add_arguments(each)
            of_command = each
    return parser, of_command


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from understudy import __version__
        from understudy.commandline.commands.printing import put

        put(f"understudy {__version__}", sys.stdout)
        parser.exit(0)
