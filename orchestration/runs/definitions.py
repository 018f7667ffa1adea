"""The rules that a line is written under, as data: a text for each definition, and its digest. Loads pydantic.

A line is replayed under the definition that it was written under: an old line under new limits would break the protocol. The
digest is of the whole definition, with limits; the fingerprint, which leaves them out, decides whether a run may go on
with the definition of today.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from typing import Any, TypeAlias

from pydantic import ValidationError

from understudy.orchestration.agent.saved_text import first_problem
from understudy.orchestration.agent.spec import CompactionRule, RunSpec
from understudy.orchestration.graph.spec import GraphSpec
from understudy.orchestration.group.spec import GroupSpec
from understudy.vocabulary.runs.compaction import Compaction

from .group_state import MapSpec
from .lines import as_data, reader_of

Definition: TypeAlias = RunSpec | GroupSpec | GraphSpec | MapSpec
"""The rules and limits of an agent, of a sequence or parallel group, of a workflow, or of a map."""

_KINDS: dict[str, type[Any]] = {"agent": RunSpec, "group": GroupSpec, "workflow": GraphSpec, "map": MapSpec}


def text_of(definition: Definition) -> str:
    """Return a definition as JSON; equal definitions have equal texts in every process.

    A model that sums up conversations may be an object, so the text has only what decisions need of it: its context window
    and its name in the price table. The settings `extra` of a provider, which no decision needs, are left out: they may be secret.
    """
    (kind,) = [kind for kind, cls in _KINDS.items() if cls is type(definition)]
    rule = definition.compaction if isinstance(definition, RunSpec) else None
    if isinstance(definition, RunSpec):
        settings = definition.settings
        settings = replace(settings, extra={}) if settings.extra else settings
        definition = replace(definition, compaction=None, settings=settings)
    data = as_data(definition)
    for name in ("asks", "parameters"):
        if name in data:
            data[name] = sorted(data[name])
    if "given" in data:
        data["given"] = dict(data["given"])  # it is a view that nobody can change
    if rule is not None:
        numbers = {
            each.name: getattr(rule.compaction, each.name) for each in fields(Compaction) if each.name != "model"
        }
        data["compaction"] = [numbers, rule.window, rule.summary_window, rule.priced_as]
    # In the order of the fields, and schemas as they are: a model is told a schema as text.
    return json.dumps([kind, data], allow_nan=False, separators=(",", ":"))


def digest_of(text: str) -> str:
    """Return the name under which the text of a definition is stored: 32 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def definition_of(text: str) -> Definition:
    """Return the definition that `text_of` wrote, without the model of its compaction.

    Raises:
        ValueError: the text is no definition that this version knows.
    """
    try:
        kind, data, *_ = json.loads(text)
        rule = data.pop("compaction", None)
        cls: Any = _KINDS[kind]
        given = reader_of(cls, without="compaction").validate_python(data)
        made: Definition = cls(**given) if rule is None else cls(**given, compaction=_rule(*rule))
        return made
    except ValidationError as error:
        problem = first_problem(error)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        problem = "it is not of this version"
    raise ValueError(f"not a definition: {problem}")


def _rule(numbers: dict[str, Any], window: int | None, summary_window: int | None, priced_as: str) -> CompactionRule:
    rule = Compaction(**numbers)
    return CompactionRule(compaction=rule, window=window, summary_window=summary_window, priced_as=priced_as)
