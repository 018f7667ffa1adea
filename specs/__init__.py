"""Specs: agents, workflows and supervisors described in YAML, loaded into the definitions that Python makes."""

from understudy.specs.checks.tool_files import ToolFile, load_tool_file
from understudy.specs.drawing.render import draw
from understudy.specs.grammar.json_schema import spec_schema

from .loaded_spec import LoadedSpec
from .loader import SpecLoader, load_spec, load_spec_text

__all__ = [
    "LoadedSpec",
    "SpecLoader",
    "ToolFile",
    "draw",
    "load_spec",
    "load_spec_text",
    "load_tool_file",
    "spec_schema",
]
