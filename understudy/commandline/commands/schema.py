"""`understudy schema`: the JSON Schema of specs, for editors."""

from __future__ import annotations

import argparse
import json
from typing import TextIO

from understudy.commandline.report import COMPLETE
from understudy.specs import spec_schema

from .printing import put, write

ABOUT = """\
Print the JSON Schema of specs, with which an editor completes keys, explains them, and marks what is wrong.

An editor with the YAML language server reads it where the first line of a spec names it:

  # yaml-language-server: $schema=spec.schema.json

It knows keys and types. Whether a reference leads somewhere, and whether a tool is there, says 'understudy check'.

examples:
  understudy schema -o spec.schema.json
  understudy schema > spec.schema.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `schema`."""
    parser.add_argument("-o", metavar="FILE", dest="into", help="write a file, in place of one that is there")


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Print the schema."""
    text = json.dumps(spec_schema(), indent=2, ensure_ascii=False)
    if arguments.into is None:
        put(text, out)
    else:
        write(text, arguments.into)
    return COMPLETE
