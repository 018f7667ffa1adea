"""Doubles for the tests of applications that use understudy.

from understudy.testing import ScriptedModel, calls, says

model = ScriptedModel([calls("on_shelf", sku="A-113"), says("Seven.")])
with clerk.override(model=model):
    assert clerk.run("How many?").text == "Seven."
"""

from understudy.messages import calls, says
from understudy.providers import FunctionModel, ScriptedModel

__all__ = ["FunctionModel", "ScriptedModel", "calls", "says"]
