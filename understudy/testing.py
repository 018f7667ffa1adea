"""Doubles for the tests of applications that use understudy.

from understudy.testing import ScriptedModel, calls, says

model = ScriptedModel([calls("on_shelf", sku="A-113"), says("Seven.")])
with clerk.override(model=model):
    assert clerk.run("How many?").text == "Seven."

`ScriptedModel([pieces("Yes: ", "seven.")])` writes its turn in these pieces, for code that reads a stream.
"""

from understudy.providers import FunctionModel, ScriptedModel
from understudy.providers.offline.doubles import pieces
from understudy.vocabulary.messages import calls, says

__all__ = ["FunctionModel", "ScriptedModel", "calls", "pieces", "says"]
