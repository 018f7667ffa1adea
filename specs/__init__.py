"""Specs: agents, workflows and supervisors described in YAML, loaded into the definitions that Python makes."""

from .drawing import draw
from .loaded import LoadedSpec
from .loader import SpecLoader, load_spec, load_spec_text
from .schema import spec_schema
from .toolfiles import ToolFile, load_tool_file

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
