"""Drawings in Mermaid, read by Mermaid itself."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Generator
from html import unescape
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.aimock import NotInstalled, installed
from tests.support.drawings import boxes_of, everything, nesting_of, nodes_of, runners, squeezed
from tests.support.paths import ROOT
from understudy import draw
from understudy.orchestration.definitions.runner import Runner
from understudy.specs.drawing.layout import picture_of

HERE = ROOT / "tests" / "peers" / "mermaid"
REPLY_TIMEOUT = 60.0  # Seconds; the first reply waits for node and Mermaid to load.


class Reader:
    """Mermaid in a process of its own, which says what it finds in diagrams."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._replies: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, name="mermaid-replies", daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._replies.put(line)
        self._replies.put('{"error": "node has ended"}')

    def read(self, text: str) -> dict[str, Any]:
        """Return nodes, boxes and arrows of a diagram that must be without mistakes."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._replies.get(timeout=REPLY_TIMEOUT))
        assert "error" not in found, f"{found['error']}\n{text}"
        return found


@pytest.fixture(scope="module")
def mermaid() -> Generator[Reader]:
    """Run Mermaid until the module's tests are done; skipped where there is no node, or npm cannot fetch it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node or no npm on the PATH: Mermaid cannot run")
    package = HERE / "package.json"
    version = json.loads(package.read_text())["dependencies"]["mermaid"]
    try:
        folder = installed(npm, package, f"mermaid-{version}")
    except NotInstalled as error:
        words = f"node is here, but npm could not fetch mermaid {version} (is its registry in reach?): {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(words, pytrace=False)
        pytest.skip(words)
    command = [node, str(HERE / "read.mjs"), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield Reader(process)
        finally:
            process.kill()


def lines_of(label: str) -> list[str]:
    """Read a label as Mermaid keeps it: HTML, in which numbered characters are between marks of its own."""
    html = re.sub(r"ﬂ°°(\d+)¶ß", r"&#\1;", label)
    assert set(re.findall(r"<[^>]*>", html)) <= {"<b>", "</b>", "<small>", "</small>", "<br>", "<br/>"}
    lines = re.split(r"<br/?>", html)
    return [line for line in [squeezed(unescape(re.sub(r"<[^>]*>", "", each))) for each in lines] if line]


@given(given=st.lists(runners, min_size=1, max_size=2))
@example(given=[everything()])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_mermaid_finds_in_a_drawing_what_the_picture_holds(mermaid: Reader, given: list[Runner[object]]) -> None:
    picture = picture_of(given)

    found = mermaid.read(draw(given))

    boxes = boxes_of(picture)
    nodes = {key: lines_of(text) for key, text in found["nodes"].items() if key not in boxes}
    assert nodes == nodes_of(picture)
    assert {key: lines_of(box["title"]) for key, box in found["boxes"].items()} == boxes
    assert {key: set(box["nodes"]) for key, box in found["boxes"].items()} == nesting_of(picture)
    assert {box["dir"] for box in found["boxes"].values()} <= {"TB"}
    arrows = Counter((a["tail"], a["head"], "".join(lines_of(a["label"])), a["stroke"]) for a in found["arrows"])
    drawn = [(a.tail.key, a.head.key, a.label, "dotted" if a.hands_over else "normal") for a in picture.arrows]
    assert arrows == Counter(drawn)
    assert found["config"]["flowchart"]["wrappingWidth"] == 500
