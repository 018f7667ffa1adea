"""UI message streams, read by the AI SDK itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import understudy as us
from tests.support.ai_sdk_client import AiSdkClient
from tests.support.aimock import NotInstalled, installed
from tests.support.paths import ROOT
from tests.support.plausible_runs import Told, told_runs
from understudy.vocabulary.runs.events import Event

HERE = ROOT / "tests" / "peers" / "ai_sdk"
TOO_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
Version: TypeAlias = Literal[5, 6, 7]
Reader: TypeAlias = Callable[[list[tuple[Version, list[Event]]]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ai_sdk() -> Reader:
    """Return a function that has the package `ai` read streams; skipped where there is no node, or npm cannot fetch it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node or no npm on the PATH: the AI SDK cannot run")
    package = HERE / "package.json"
    versions = json.loads(package.read_text())["dependencies"]
    name = "-".join(["ai", *(str(each).rpartition("@")[2] for each in versions.values())])
    try:
        folder = installed(npm, package, name)
    except NotInstalled as error:
        words = f"node is here, but npm could not fetch {name} (is its registry in reach?): {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(words, pytrace=False)
        pytest.skip(words)

    def read(runs: list[tuple[Version, list[Event]]]) -> list[dict[str, Any]]:
        lines = [json.dumps({"version": version, "text": sent(events, version)}) for version, events in runs]
        done = subprocess.run(
            [node, str(HERE / "read.mjs"), str(folder)],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=100,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.split("\n") if line]

    return read


def sent(events: list[Event], version: Version) -> str:
    encoder = us.AiSdkEncoder("message", version=version)
    return b"".join([encoder.encode_bytes(event) for event in events]).decode()


def chunks(events: list[Event], version: Version) -> list[Any]:
    encoder = us.AiSdkEncoder("message", version=version)
    return [each for event in events for each in encoder.encode(event)]


@given(told=st.lists(told_runs(), min_size=25, max_size=25), version=st.sampled_from((5, 6, 7)))
@settings(max_examples=4, phases=[Phase.generate], suppress_health_check=TOO_SLOW, deadline=None)
def test_the_ai_sdk_makes_the_message_of_a_run_that_the_rules_give(
    ai_sdk: Reader, told: list[Told], version: Version
) -> None:
    read = ai_sdk([(version, each.events) for each in told])

    assert len(read) == len(told)
    for each, found in zip(told, read, strict=True):
        ours = AiSdkClient(version).read(chunks(each.events, version))
        failed = ours.end is not None and ours.end["type"] == "error"
        assert len(found["errors"]) == failed, found["errors"]
        assert shorts(found["message"]["parts"] if found["message"] else []) == shorts(ours.parts)


def shorts(parts: list[dict[str, Any]]) -> list[list[Any]]:
    """Return what matters of parts; the package does not tell of a step before something is in it."""
    told = [short(part) for part in parts]
    while told and told[-1][0] == "step-start":
        told.pop()
    return told


def short(part: dict[str, Any]) -> list[Any]:
    state = part.get("state") if "toolCallId" in part else None
    return [part["type"], part.get("text"), part.get("toolCallId"), state, part.get("data"), part.get("output")]
