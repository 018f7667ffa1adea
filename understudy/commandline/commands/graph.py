"""`understudy graph FILE.yaml [ID]`: a spec as a drawing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TextIO

from understudy.commandline.report import COMPLETE, UsageMistake
from understudy.specs import draw
from understudy.specs.drawing.render import Form

from . import options
from .loading import load
from .printing import put, write

ABOUT = """\
Draw all of a spec, or one of its agents, groups and workflows with everything
inside it. No agent runs, and no key is needed. Only the code of --tools FILE.py
is run, and with --allow-code also the files that the spec names.

Without -o the drawing is printed as Mermaid, which GitHub and many editors
show. SVG needs the program dot of Graphviz.

examples:
  understudy graph newsroom.yaml
  understudy graph newsroom.yaml pipeline -o pipeline.mmd
  understudy graph newsroom.yaml -o newsroom.svg
  understudy graph newsroom.yaml --format dot | dot -Tpng -o newsroom.png
"""

FORMS: dict[str, Form] = {".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg"}
"""File suffix -> form."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `graph`."""
    parser.add_argument("file", metavar="FILE.yaml", help="the spec")
    parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        type=options.text,
        help="the id of an agent, a group or a workflow; without it, all are drawn",
    )
    parser.add_argument(
        "-o", metavar="FILE", dest="into", help="write a file .mmd, .dot or .svg; an existing file is replaced"
    )
    parser.add_argument(
        "--format", choices=sorted(set(FORMS.values())), help="the format; the default follows the ending of FILE"
    )
    options.add_tools(parser)
    options.add_allow_code(parser)


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Draw the spec."""
    form = _form(arguments.format, arguments.into)
    loaded = load(arguments.file, arguments.tools, allow_code=arguments.allow_code)
    text = draw(loaded.runners if arguments.id is None else loaded.runner(arguments.id), form)
    if arguments.into is None:
        put(text.rstrip("\n"), out)
    else:
        write(text, arguments.into)
    return COMPLETE


def _form(given: Form | None, into: str | None) -> Form:
    if given is not None:
        return given
    if into is None:
        return "mermaid"
    form = FORMS.get(Path(into).suffix.lower())
    if form is None:
        raise UsageMistake(f"-o {into}: expected a name that ends in {', '.join(FORMS)}, or --format")
    return form
