"""Streams in an ASGI host: the program of the page, and a client that leaves."""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support.paths import ROOT
from tests.support.run_events import read_sse
from tests.support.run_page import blocks_of, run
from tests.support.scripts import WAIT, eventually
from tests.support.streaming import StreamedScript, Tap, text_turn

testing = pytest.importorskip("starlette.testclient")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    page = ROOT / "docs" / "hosts.md"
    for block in blocks_of(page.read_text()):
        if block.file in ("shop/agents.py", "shop/asgi.py"):
            run(block, page, {})
    yield importlib.import_module("shop.asgi")
    for name in [name for name in sys.modules if name == "shop" or name.startswith("shop.")]:
        del sys.modules[name]


def test_the_program_of_the_page_streams_a_run_to_a_browser(shop: Any) -> None:
    with testing.TestClient(shop.app) as client:
        run_id = client.post("/ask", json={"text": "Do we have five?"}).json()["run"]
        response = client.get(f"/runs/{run_id}/events")
        events = read_sse(response.content)
        rest = read_sse(client.get(f"/runs/{run_id}/events", headers={"Last-Event-ID": events[-2].last_id}).content)
        status = client.get(f"/runs/{run_id}").json()["status"]

    assert response.headers["content-type"].startswith("text/event-stream")
    assert events[-1].event == "run_finished"
    assert [each.event for each in rest] == ["run_finished"]
    assert status == "complete"


def test_a_client_that_leaves_gives_its_thread_back_and_the_run_goes_on(shop: Any) -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()
    handle = us.Agent("clerk", model=StreamedScript([tap])).submit("go")
    closed: list[bool] = []

    def body() -> Iterator[bytes]:
        try:
            yield from us.sse(handle, heartbeat=0.05)
        finally:
            closed.append(True)

    response = sys.modules["starlette.responses"].StreamingResponse(body())
    left = asyncio.Event()

    async def receive() -> dict[str, object]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if b"text_delta" in message.get("body", b""):
            left.set()

    scope: dict[str, object] = {"type": "http", "asgi": {"spec_version": "2.3"}, "method": "GET", "headers": []}
    asyncio.run(asyncio.wait_for(response(scope, receive, send), WAIT))
    del response
    eventually(lambda: gc.collect() >= 0 and closed == [True], "the stream is closed")

    assert not handle.done()
    tap.let(2)
    assert handle.result(WAIT).text == "ab"
