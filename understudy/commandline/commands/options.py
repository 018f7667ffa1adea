"""Options shared by several commands."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from typing import Any

from understudy.actors.stores.open_store import MEMORY
from understudy.actors.system.runtime import STORE
from understudy.commandline.report import UsageMistake
from understudy.log_output import FORMATS
from understudy.vocabulary.context.budget import LIMITS, Budget
from understudy.vocabulary.models import ModelName

from .lines import decoded

EXITS = """\
keys:
  The key of a model is read from the environment: ANTHROPIC_API_KEY,
  OPENAI_API_KEY, GEMINI_API_KEY and others.
  --rehearse needs no key: a stand-in for the model calls each tool once and
  then answers. The tools really run.
  --replay needs no key: it gives the answers that --record has written.

exit status:
  0    the run is complete
  1    the run failed: the provider, the store, a tool that ends the run, a
       limit, a bug
  2    the command line, the spec or a file of tools is wrong; nothing ran
  3    the run waits for a person; with --store, its token is printed
  130  interrupted; the run was cancelled
"""


def add_tools(parser: argparse.ArgumentParser) -> None:
    """Add `--tools`."""
    parser.add_argument(
        "--tools",
        metavar="FILE.py",
        action="append",
        default=[],
        help="offer the tools of this file to the spec: functions with @tool, and public functions with annotations; "
        "also the other objects that the spec names, such as memories; repeatable",
    )


def add_allow_code(parser: argparse.ArgumentParser) -> None:
    """Add `--allow-code`, for commands that run nothing without it."""
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="run also the files that the spec names as FILE.py:FUNCTION, if they are in its folder or below",
    )


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add the options that replace the models."""
    models = parser.add_mutually_exclusive_group()
    models.add_argument(
        "--rehearse",
        action="store_true",
        help="a stand-in answers for every model, without a key or a network; the tools really run",
    )
    models.add_argument(
        "--record",
        metavar="TAPE",
        help="write the requests and answers of all models to a new file; keys are left out",
    )
    models.add_argument(
        "--replay",
        metavar="TAPE",
        help="the answers of a recorded run take the place of every model; the tools really run",
    )
    parser.add_argument(
        "--speed",
        metavar="FACTOR",
        type=factor,
        help="with --replay: give streamed answers as fast as they were recorded (1), or so many times faster",
    )


def add_named_models(parser: argparse.ArgumentParser) -> None:
    """Add `--model`."""
    parser.add_argument(
        "--model",
        metavar="PROVIDER:MODEL",
        action="append",
        type=named_model,
        default=[],
        help="use this model for all agents, such as ollama:llama3.2; AGENT=PROVIDER:MODEL uses it for one agent; repeatable",
    )


def named_model(given: str) -> tuple[str, ModelName]:
    """Return the id of an agent (empty for all agents), and the model that answers for it."""
    agent, equals, model = given.rpartition("=")
    if equals and not agent.strip():
        raise argparse.ArgumentTypeError(f"expected an agent's id before '=', got {given!r}")
    try:
        return agent, ModelName.parse(model)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_debug(parser: argparse.ArgumentParser) -> None:
    """Add `--debug`."""
    parser.add_argument(
        "--debug",
        action="store_true",
        help="print the traceback of each tool that fails, and of the error that ends the run",
    )


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add `--log`."""
    parser.add_argument(
        "--log",
        choices=FORMATS,
        help="print log lines instead of the progress to standard error; with --debug also those of level debug",
    )


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add `--timeout`."""
    parser.add_argument("--timeout", metavar="SECONDS", type=seconds, help="the time limit of the run")


def add_json(parser: argparse.ArgumentParser, help: str, *, again: bool = False) -> None:
    """Add `--json`; `again` if the parser around this one has it too."""
    parser.add_argument("--json", action="store_true", default=_flag(again), help=help)


def _flag(again: bool) -> bool | str:
    """Return the default of a flag; one that the parser around has too must not take back what was said before."""
    return argparse.SUPPRESS if again else False


def add_conversation(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """Add `--user` and `--conversation`; `otherwise` says what a run has without the latter."""
    parser.add_argument(
        "--user",
        metavar="ID",
        type=identifier,
        help="the user_id, which conversations and session values belong to; without it they are those of 'default'",
    )
    parser.add_argument(
        "--conversation",
        metavar="ID",
        type=identifier,
        help=f"the conversation_id; one that an agent's memory knows goes on; {otherwise}",
    )


def add_store(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """Add `--store`; `again` if the parser around this one has it too."""
    parser.add_argument(
        "--store",
        metavar="URL",
        default=argparse.SUPPRESS if again else usual_store(),
        help="where waiting runs, conversations and session values are kept, such as sqlite:///shop.db; "
        "the default is UNDERSTUDY_STORE",
    )


def usual_store() -> str:
    """Return the store to use without `--store`; an empty environment variable counts as unset."""
    return os.environ.get(STORE) or MEMORY


def add_run_options(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """Add the options of a run beside its spec and input; `again` as for `add_store`."""
    add_models(parser)
    add_named_models(parser)
    add_debug(parser)
    add_log(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        action="store_true",
        default=_flag(again),
        help="print one JSON object at the end, for errors too, and no progress",
    )
    form.add_argument(
        "--events",
        action="store_true",
        help="print each event as it comes, as one JSON object a line, and no progress; the last line has the outcome",
    )
    parser.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="write the model's text as it comes, in a pipe too if it may not be the answer; --no-stream prints the "
        "answer when the run is over",
    )
    parser.add_argument("--plain", action="store_true", help="do not render the answer as Markdown on a terminal")
    add_timeout(parser)
    add_store(parser, again=again)


def text(given: str) -> str:
    """Return a text of the command line for a model, a tool or a prompt."""
    try:
        return decoded(given)
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"expected text in UTF-8, got {given!r}") from error


def identifier(given: str) -> str:
    """Return the id of a user or a conversation."""
    if not given.strip():
        raise argparse.ArgumentTypeError("expected an id, got an empty text")
    return text(given)


def seconds(text: str) -> float:
    """Return a number of seconds above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return number


def factor(text: str) -> float:
    """Return a factor above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return number


def limit(text: str) -> tuple[str, float]:
    """Return one limit of a budget."""
    name, _, number = text.partition("=")
    try:
        most = float(number)
    except ValueError:
        most = math.nan
    if name not in LIMITS or not math.isfinite(most):
        raise argparse.ArgumentTypeError(f"expected LIMIT=N with a limit of {', '.join(LIMITS)}, got {text!r}")
    return name, int(most) if most.is_integer() else most


def budget(limits: Sequence[tuple[str, float]]) -> Budget | None:
    """Return a budget with these limits; None without limits."""
    if not limits:
        return None
    given: dict[str, Any] = dict(limits)
    try:
        return Budget(**given)
    except (TypeError, ValueError) as error:
        raise UsageMistake(f"--budget: {error}") from error
