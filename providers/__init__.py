"""Models: those that are reached over the network, and those that need none."""

from .doubles import FunctionModel, ScriptedModel
from .rehearsal import Rehearsal

__all__ = ["FunctionModel", "Rehearsal", "ScriptedModel"]
