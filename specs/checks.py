"""Check what a spec's values mean: ids, models, tools.

These read the document as it is, so that they find their problems even where the grammar finds others beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from understudy.messages import JsonValue
from understudy.models import PROVIDERS, ModelName
from understudy.orchestration.checks import ID

from .document import Document, Path
from .problems import Place, Problem, did_you_mean, listed
from .shape import owner
from .toolbox import Toolbox

JsonMapping = Mapping[str, JsonValue]


def check_meaning(document: Document, toolbox: Toolbox) -> Iterator[Problem]:
    """Yield what is wrong with the agents of a document, apart from its grammar."""
    ids: dict[str, Place] = {}
    for path, agent in _agents(document):
        for at, message in (*_check_id(document, path, agent, ids), *_check_model(path, agent)):
            yield Problem(document.place(at), owner(document, path) + message)
        for at, message in _check_tools(document, path, agent, toolbox):
            yield Problem(document.place(at), owner(document, path) + message)


def model_string(provider: str | None, model: str | None) -> str:
    """Return `PROVIDER:MODEL` of the two keys; the provider may stand in either."""
    if provider is None:
        return model or ""
    return provider if model is None else f"{provider}:{model}"


def _agents(document: Document) -> list[tuple[Path, JsonMapping]]:
    top = document.value
    agents = top.get("agents") if isinstance(top, Mapping) else None
    if not isinstance(agents, list):
        return []
    return [(("agents", position), agent) for position, agent in enumerate(agents) if isinstance(agent, Mapping)]


Found = Iterator[tuple[Path, str]]
"""Where, and what."""


def _check_id(document: Document, path: Path, agent: JsonMapping, ids: dict[str, Place]) -> Found:
    id = agent.get("id")
    if not isinstance(id, str):
        return
    at = (*path, "id")
    if not ID.fullmatch(id):
        yield at, f"'id' must be 1 to 128 characters on one line, without edges of space; got {id[:60]!r}"
    if id in ids:
        yield at, f"this id stands twice, first in line {ids[id].line}"
    ids.setdefault(id, document.place(at))


def _check_model(path: Path, agent: JsonMapping) -> Found:
    provider, model = agent.get("provider"), agent.get("model")
    at_provider, at_model = (*path, "provider"), (*path, "model")
    if isinstance(provider, str) and provider not in PROVIDERS:
        expected = listed(sorted(PROVIDERS))
        yield at_provider, f"unknown provider {provider!r}; expected {expected}{did_you_mean(provider, PROVIDERS)}"
        return
    if not isinstance(provider, str | None) or not isinstance(model, str | None):
        return
    prefix = "" if model is None else model.partition(":")[0]
    if provider is not None and model is not None and ":" in model and prefix in PROVIDERS:
        yield at_model, f"'provider' and 'model' both name a provider; write model: {model.partition(':')[2]}"
        return
    text = model_string(provider, model)
    if not text:
        yield at_model, "'model' is missing; expected model: PROVIDER:MODEL, such as anthropic:claude-haiku-4-5"
        return
    if provider is None and ":" not in text and text not in PROVIDERS:
        yield at_model, f"no provider for {text!r}; add provider: NAME, one of {listed(sorted(PROVIDERS))}"
        return
    try:
        ModelName.parse(text)
    except ValueError as error:
        yield at_model, str(error)


def _check_tools(document: Document, path: Path, agent: JsonMapping, toolbox: Toolbox) -> Found:
    listed_tools = agent.get("tools")
    tools = listed_tools if isinstance(listed_tools, list) else []
    seen: dict[str, Path] = {}
    names: list[str] = []
    for position, given in enumerate(tools):
        at = (*path, "tools", position)
        reference = given.get("name") if isinstance(given, Mapping) else given
        if not isinstance(reference, str):
            continue
        if reference in seen:
            yield at, f"the tool {reference!r} stands twice, first in line {document.place(seen[reference]).line}"
        seen.setdefault(reference, at)
        found = toolbox.find(reference)
        if isinstance(found, str):
            yield at, found
        else:
            names.append(found.name)
    settings = agent.get("settings")
    choice = settings.get("tool_choice") if isinstance(settings, Mapping) else None
    if len(names) == len(tools) and isinstance(choice, str):
        if choice not in ("auto", "none", "required", *names):
            known = ["auto", "none", "required", *names]
            hint = did_you_mean(choice, known)
            yield (*path, "settings", "tool_choice"), f"tool_choice {choice!r} must be one of {listed(known)}{hint}"
        if choice == "required" and not names:
            yield (*path, "settings", "tool_choice"), "tool_choice is 'required', but the agent has no tools"
