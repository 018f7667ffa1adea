"""What OpenAI-compatible servers want otherwise: their addresses, and their request bodies, by the rows of `Preset`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from understudy.providers.http.options import checked_root, checked_url
from understudy.providers.wire.json_values import is_array, is_object
from understudy.providers.wire.settings import refuse
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelRequest
from understudy.vocabulary.presets import PRESETS, Preset

from .families import is_own_host
from .sent_messages import DIALECT

BRIDGE: JsonObject = {"role": "assistant", "content": "OK"}
CHAT = "/chat/completions"
"""The path of the method, behind the address of a server."""

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def checked_preset(preset: str | Preset | None) -> Preset | None:
    """Return the option `preset`, by its name too; raises TypeError or ValueError if there is none."""
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(sorted(PRESETS))}, or a Preset; got {preset[:40]!r}")
        return PRESETS[preset]
    if preset is None or isinstance(preset, Preset):
        if preset is not None:
            checked_root(preset.address, preset.path.strip("/"), (CHAT,), "the preset's address")
        return preset
    raise TypeError(f"preset must be a name or a Preset, got {type(preset).__name__}")


def dialect_of(preset: Preset | None, address: str) -> str:
    """Return the dialect of a server's turns: that of OpenAI, or one with the name of the preset, or of the host.

    The servers share texts and calls. What else one sends, such as Mistral's thinking, others refuse as unknown.
    """
    if preset is None and is_own_host(address):
        return DIALECT
    return f"{DIALECT}/{urlsplit(address).netloc.lower() if preset is None else preset.name}"


def address_in(text: str, preset: Preset) -> str:
    """Return the address that the preset's variable tells, with the path.

    Ollama, FAQ: `OLLAMA_HOST` may be a host, a host with a port, or a URL. 0.0.0.0 is where a server listens, and no address
    for clients on every system.
    """
    default = urlsplit(preset.address)
    found = checked_url(text if "://" in text else f"{default.scheme}://{text}", preset.address_variable)
    parts = urlsplit(found)
    host = "127.0.0.1" if parts.hostname == "0.0.0.0" else parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = default.port if parts.port is None and "://" not in text else parts.port
    path = parts.path.removesuffix(preset.path)
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{path}{preset.path}"


def fitted(body: JsonObject, request: ModelRequest, model: str, preset: Preset) -> JsonObject:
    """Return a request body as the preset's server takes it.

    Fields of `Settings.extra` stay as they are.

    Raises:
        ValueError: the server lacks one of the request's settings.
    """
    settings = request.settings
    fit = {**body}
    _rename(fit, "max_tokens", preset.max_tokens_field, settings.extra)
    _rename(fit, "seed", preset.seed_field, settings.extra)
    for name in preset.lacks:
        if name in settings.extra or getattr(settings, name) in (None, "auto"):
            continue
        if name != "tool_choice" or not _is_for_answer(request):
            refuse(preset.name, name)
        fit.pop(name, None)
    if "tool_choice" in fit and "tool_choice" not in settings.extra:
        _fit_choice(fit, request, model, preset)
    elif preset.says_auto and fit.get("tools"):
        fit.setdefault("tool_choice", "auto")
    if preset.call_id_length is not None and is_array(fit["messages"]):
        fit["messages"] = [_with_ids(message, preset.call_id_length) for message in fit["messages"]]
    if not preset.user_after_results and is_array(fit["messages"]):
        fit["messages"] = _bridged(fit["messages"])
    return fit


def _rename(body: dict[str, JsonValue], name: str, field: str, extra: JsonObject) -> None:
    if name != field and name in body and name not in extra and field not in extra:
        body[field] = body.pop(name)


def _is_for_answer(request: ModelRequest) -> bool:
    """Whether the forced tool is the one of a typed answer; a text is read as the answer too."""
    return (
        request.output is not None and bool(request.output.tool) and request.settings.tool_choice == request.output.tool
    )


def _fit_choice(body: dict[str, JsonValue], request: ModelRequest, model: str, preset: Preset) -> None:
    if preset.unforced and body["tool_choice"] != "none" and re.search(preset.unforced, model):
        if not _is_for_answer(request):
            refuse(preset.name, f"tool_choice={request.settings.tool_choice!r} for {model}", "use 'auto' or 'none'")
        del body["tool_choice"]
    elif is_object(body["tool_choice"]) and preset.forced_by == "word":
        if len(request.tools) != 1:
            refuse(preset.name, "tool_choice by the name of a tool", "write 'required'")
        body["tool_choice"] = "required"
    elif body["tool_choice"] == "required" and preset.forced_by == "name":
        if len(request.tools) != 1:
            refuse(preset.name, "tool_choice='required'", "write the name of a tool")
        body["tool_choice"] = {"type": "function", "function": {"name": request.tools[0].name}}


def _bridged(messages: Sequence[JsonValue]) -> list[JsonValue]:
    """Put a short message of the model's between the results of tools and a user's message."""
    found: list[JsonValue] = []
    roles = [message.get("role") if is_object(message) else None for message in messages]
    for before, role, message in zip([None, *roles], roles, messages, strict=False):
        found += [BRIDGE, message] if (before, role) == ("tool", "user") else [message]
    return found


def _with_ids(message: JsonValue, length: int) -> JsonValue:
    """Mistral API, Function calling: an id has nine letters and digits. Those of other servers are replaced alike each time."""
    if not is_object(message):
        return message
    fit = {**message}
    given = message.get("tool_call_id")
    if isinstance(given, str):
        fit["tool_call_id"] = _id(given, length)
    calls = message.get("tool_calls")
    if is_array(calls):
        fit["tool_calls"] = [
            {**call, "id": _id(call_id, length)}
            if is_object(call) and isinstance(call_id := call.get("id"), str)
            else call
            for call in calls
        ]
    return fit


def _id(given: str, length: int) -> str:
    if len(given) == length and given.isascii() and given.isalnum():
        return given
    number = int.from_bytes(hashlib.sha256(given.encode("utf-8", "backslashreplace")).digest())
    letters: list[str] = []
    for _ in range(length):
        number, rest = divmod(number, len(LETTERS))
        letters.append(LETTERS[rest])
    return "".join(letters)
