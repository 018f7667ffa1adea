"""The kinds of objects that a spec can name: which objects fit each kind, and the message for a name that does not.

A name is looked up only among the registered objects. This imports nothing, and calls none of them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import isroutine, signature
from types import MappingProxyType
from typing import cast

from understudy import errors
from understudy.errors import RunError, UnderstudyError
from understudy.orchestration.definitions.method_checks import fault_of_memory
from understudy.specs.reading.problems import did_you_mean, listed
from understudy.vocabulary.answers.output_type import OutputType
from understudy.vocabulary.checks import is_async
from understudy.vocabulary.models import Model
from understudy.vocabulary.runs.callbacks import AgentCallback
from understudy.vocabulary.runs.memory import Memory

OF_ANNOTATIONS = ("types", "typing", "typing_extensions")
"""Modules of annotation classes: an annotation such as `list[int]` can be called, but is not a function."""
Misfit = Callable[[object], str]
"""Returns what was expected instead of an object; empty if the object fits."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of object that a place in a spec takes.

    Attributes:
        word: the kind's name in errors.
        look: returns what was expected instead of an object; empty if the object fits.
        built_in: objects by name that need not be registered.
    """

    word: str
    look: Misfit
    built_in: Mapping[str, object] = field(default_factory=lambda: MappingProxyType(dict[str, object]()))

    def misfit(self, given: object) -> str:
        """Return what was expected instead of an object; empty if it fits. The object is not called."""
        try:
            return self.look(given)
        except Exception:  # noqa: BLE001  # an unbound proxy may raise anything when it is inspected
            return f"a {self.word} that can be looked at"

    def fitting(self, known: Mapping[str, object]) -> dict[str, object]:
        """Return the registered objects of this kind."""
        return {name: each for name, each in known.items() if not self.misfit(each)}

    def problem(self, name: str, known: Mapping[str, object], more: str = "") -> str:
        """Return why a name cannot be used here; empty if it can.

        Args:
            name: the name in the spec.
            known: the registered objects by name; they take precedence over the built-in ones.
            more: tells in an error where more objects can come from.
        """
        if name in known or name in self.built_in:
            given = known[name] if name in known else self.built_in[name]
            expected = self.misfit(given)
            return f"{name!r} must be {expected}, got {described(given)}" if expected else ""
        fitting = self.fitting(known)
        where = "built in or registered" if self.built_in else "registered"
        hint = did_you_mean(name, [*fitting, *self.fitting(self.built_in)])
        return f"no {self.word} {name!r} is {where}; registered: {listed(sorted(fitting))}{more}{hint}"


def described(given: object) -> str:
    """Return a description of an object's type, without its contents, which may be secret."""
    if isinstance(given, type):
        return f"the class {given.__name__}"
    return "another function" if isroutine(given) else f"an object of {type(given).__name__}"


def _function_of(*arguments: str) -> Misfit:
    expected = f"a function of {' and '.join(arguments)}"

    def misfit(given: object) -> str:
        if isinstance(given, type) or not callable(given) or type(given).__module__ in OF_ANNOTATIONS:
            return expected
        return "" if _takes(given, len(arguments)) else expected

    return misfit


def _plain_function_of(*arguments: str) -> Misfit:
    misfit = _function_of(*arguments)

    def plain_misfit(given: object) -> str:
        return f"a plain function of {' and '.join(arguments)}, not async def" if is_async(given) else misfit(given)

    return plain_misfit


def _takes(given: Callable[..., object], count: int) -> bool:
    """Whether a function accepts `count` arguments; also true if its signature is unknown, as of some C functions."""
    try:
        found = signature(given)
    except (TypeError, ValueError):
        return True
    try:
        found.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _object_of(kind: type, expected: str) -> Misfit:
    return lambda given: expected if isinstance(given, type) or not isinstance(given, kind) else ""


def _misfit_as_memory(given: object) -> str:
    """Take a class too, which is called without arguments; a function could be anything."""
    fits = isinstance(given, Memory) and not (isinstance(given, type) and fault_of_memory(given))
    return "" if fits else "an object with load(), append() and clear()"


def _misfit_as_error(given: object) -> str:
    if not isinstance(given, type) or not issubclass(given, Exception):
        return "a class of errors"
    return "a class of errors, and not how a run ends" if issubclass(given, RunError) else ""


def _misfit_as_output_type(given: object) -> str:
    try:
        OutputType(given, "")
    except TypeError:
        return "a type, such as a class or list[int]"
    return ""


def _classes(named: Iterable[tuple[str, object]], root: type[Exception]) -> Mapping[str, object]:
    return MappingProxyType({name: each for name, each in named if isinstance(each, type) and issubclass(each, root)})


def known_errors() -> Mapping[str, object]:
    """Return the exception classes of Python and understudy by name."""
    named = cast("Mapping[str, object]", vars(builtins)), cast("Mapping[str, object]", vars(errors))
    return {**_classes(named[0].items(), Exception), **_classes(named[1].items(), UnderstudyError)}


CALLBACK = Kind("callback", _object_of(AgentCallback, "an AgentCallback"))
CRITERION = Kind("criterion", _function_of("the context", "the text"))
MEMORY = Kind("memory", _misfit_as_memory)
MODEL = Kind("model", _object_of(Model, "an object with complete()"))
OUTPUT_TYPE = Kind("output type", _misfit_as_output_type)
ERROR = Kind("class of errors", _misfit_as_error, known_errors())
PROMPT = Kind("function", _function_of("the context"))
CHECK = Kind("function", _function_of("the context", "the text"))
CALL_RULE = Kind("function", _function_of("the context", "the invalid call"))
APPROVAL = Kind("function", _function_of("the call", "the context"))
WHEN = Kind("function", _plain_function_of("the tasks' results"))
UNTIL = Kind("function", _plain_function_of("the task's text"))
DECIDER = Kind("function", _function_of("the error"))
OFFERED = (CALLBACK, CRITERION, MEMORY, MODEL, OUTPUT_TYPE, PROMPT)
"""Kinds of objects that a file of tools offers; functions are checked only for taking one argument or two."""
