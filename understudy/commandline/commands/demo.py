"""`understudy demo`: the bicycle shop's clerk, from the files that come with the package."""

from __future__ import annotations

import argparse
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TextIO

from understudy.commandline.report import COMPLETE, UsageMistake

from . import options, run
from .loading import load
from .printing import put, warn

QUESTION = "What needs my attention this week?"

ABOUT = f"""\
Run an example: the clerk of a bicycle shop, whose tools read real files.

No key is needed: a stand-in for the model calls each tool once and then prints
the results. --model names a model that answers in its place.

Without INPUT, the question is {QUESTION!r}.

examples:
  understudy demo
  understudy demo --into shop          copy the files to a new folder
  understudy demo "What do I have to order from Lumo?" --model anthropic:claude-haiku-4-5
"""

FILES = ("agent.yaml", "tools.py", "README.md", "data")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `demo`."""
    parser.epilog = options.EXITS
    parser.add_argument("input", metavar="INPUT", nargs="?", type=options.text, default=QUESTION, help="the question")
    parser.add_argument("--into", metavar="FOLDER", help="copy the example's files to this new folder, and run nothing")
    options.add_run_options(parser)


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Run the example, or copy it."""
    files = folder()
    if arguments.into is not None:
        return _copy(files, Path(arguments.into), out)
    arguments.file, arguments.id, arguments.set = str(files / "agent.yaml"), "clerk", []
    arguments.user = arguments.conversation = None
    arguments.tools = [str(files / "tools.py")]
    arguments.rehearse = arguments.rehearse or not (arguments.model or arguments.replay or arguments.record)
    status = run.carry_out(load(arguments.file, arguments.tools), arguments, out)
    if sys.stderr.isatty() and not arguments.json and not arguments.events:
        warn("understudy demo --into shop copies the files, so that you can change them")
    return status


def folder() -> Path:
    """Return the folder of the example's files."""
    spec = find_spec("understudy.demo")
    if spec is None or spec.origin is None:
        raise UsageMistake("the example's files are not installed; expected the package understudy.demo")
    return Path(spec.origin).parent


def _copy(files: Path, into: Path, out: TextIO) -> int:
    """Copy the example, and print how to run it."""
    if into.exists():
        raise UsageMistake(f"--into {into}: there is such a file or folder already, and it is left alone; name another")
    try:
        into.mkdir(parents=True)
        for name in FILES:
            if (files / name).is_dir():
                shutil.copytree(files / name, into / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                text = (files / name).read_text(encoding="utf-8")
                (into / name).write_text(text.replace("examples/ledger/", f"{into}/"), encoding="utf-8")
    except OSError as error:
        raise UsageMistake(f"--into {into}: the files cannot be copied: {error.strerror}") from error
    spec, tools = into / "agent.yaml", into / "tools.py"
    put(
        f"{spec} describes a clerk and a buyer, {tools} has their tools. Change them, and run:\n"
        f'  understudy run {quote(str(spec))} clerk "{QUESTION}" --tools {quote(str(tools))} --rehearse\n'
        "With a key in the environment, leave --rehearse out, or name a model: --model openai:gpt-4o",
        out,
    )
    return COMPLETE
