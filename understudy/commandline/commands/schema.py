"""`understudy schema`: the JSON Schema of specs, for editors."""

from __future__ import annotations

import argparse
import json
from typing import TextIO

from understudy.commandline.report import COMPLETE
from understudy.specs import spec_schema

from .printing import put, write

ABOUT = """\
Print the JSON Schema of specs. With it, an editor completes keys, explains
them, and marks mistakes.

The YAML language server finds the schema if the first line of a spec names it:

  # yaml-language-server: $schema=spec.schema.json

The schema knows keys and types. 'understudy check' also finds a reference to
nothing and a tool that is missing.

examples:
  understudy schema -o spec.schema.json
  understudy schema > spec.schema.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `schema`."""
    parser.add_argument("-o", metavar="FILE", dest="into", help="write a file; an existing file is replaced")


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Print the schema."""
    text = json.dumps(spec_schema(), indent=2, ensure_ascii=False)
    if arguments.into is None:
        put(text, out)
    else:
        write(text, arguments.into)
    return COMPLETE
