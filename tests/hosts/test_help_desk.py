"""The example of a help desk in a browser."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import understudy as us
from tests.support.killing import killed
from tests.support.paths import ROOT
from tests.support.scripts import eventually


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.delenv("HELP_DESK_MODEL", raising=False)
    monkeypatch.setenv("HELP_DESK_STORE", f"sqlite:///{tmp_path}/desk.db")
    spec = importlib.util.spec_from_file_location("help_desk", ROOT / "examples" / "help_desk" / "help_desk.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PAUSE", 0.0)
    return module


def events_of(client: Any, run: str, **headers: str) -> list[dict[str, Any]]:
    response = client.get(f"/runs/{run}/events", headers=headers)
    assert response.mimetype == "text/event-stream"
    data = [line.partition(": ")[2] for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(each) for each in data]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join([event["text"] for event in events if event["type"] == "text_delta"])


def numbered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all events but the deltas, which each reader gets in other pieces."""
    return [event for event in events if "offset" not in event]


@pytest.mark.parametrize(("approve", "said"), [(True, "12.00 paid back for order 7"), (False, "the customer said no")])
def test_a_customer_asks_approves_and_reloads(desk: ModuleType, approve: bool, said: str) -> None:
    client = desk.app.test_client()
    run = client.post("/ask", json={"text": "Where is my order 7?"}).get_json()["run"]
    first = events_of(client, run)
    assert first[-1]["outcome"]["status"] == "needs_approval"
    assert text_of(first).startswith("Let me look that up. Your order is lost.")

    token = first[-1]["outcome"]["token"]
    assert client.post("/answer", json={"token": token, "approve": approve}).get_json() == {"run": run}

    events_of(client, run)
    whole = events_of(client, run)  # once it is over, every reader gets the same pieces
    assert [each["id"] for each in numbered(whole)[: len(numbered(first))]] == [each["id"] for each in numbered(first)]
    assert text_of(whole).startswith(text_of(first))
    assert whole[-1]["outcome"]["status"] == "complete" and said in whole[-1]["outcome"]["text"]
    for number, event in enumerate(whole):
        rest = events_of(client, run, **{"Last-Event-ID": event["id"]})
        assert [each["id"] for each in rest] == [each["id"] for each in whole[number + 1 :]]


def test_an_answer_counts_once_and_only_a_yes_is_a_yes(desk: ModuleType) -> None:
    client = desk.app.test_client()
    run = client.post("/ask", json={"text": "Where is my order 7?"}).get_json()["run"]
    token = events_of(client, run)[-1]["outcome"]["token"]

    client.post("/answer", json={"token": token, "approve": "yes"})
    again = client.post("/answer", json={"token": token, "approve": True})

    assert again.status_code == 409 and "has been used" in again.get_json()["error"]
    assert "said no" in events_of(client, run)[-1]["outcome"]["text"]


def test_a_run_is_told_to_the_visitor_who_began_it_alone(desk: ModuleType) -> None:
    client, other, stranger = (desk.app.test_client() for _ in range(3))
    run = client.post("/ask", json={"text": "Where is my order 7?"}).get_json()["run"]
    other.post("/ask", json={"text": "Where is my order 8?"})
    nobodys = desk.desk.submit("Where is my order 7?", system=desk.system).run_id

    for reader in (other, stranger):
        for id in (run, nobodys):
            assert reader.get(f"/runs/{id}/events").status_code == 404
    assert text_of(events_of(client, run)).startswith("Let me look that up.")


class Deadly:
    def get(self, order: int, unknown: str) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return unknown


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")
def test_a_worker_goes_on_with_the_run_of_a_killed_one_and_refuses_a_yes_to_a_call_in_doubt(
    desk: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_killed() -> None:
        monkeypatch.setattr(desk, "ORDERS", Deadly())
        desk.desk.run("Where is my order 7?", system=desk.system)

    assert killed(is_killed)
    client = desk.app.test_client()
    assert client.get("/").status_code == 200
    eventually(lambda: len(desk.system.pending()) == 1, "the run waits for a decision")
    (waits,) = desk.system.pending()
    (pause,) = desk.system.handle(waits.run_id).pauses()

    for approve in (True, False):
        answer = client.post("/answer", json={"token": waits.token, "approve": approve})
        assert answer.status_code == 409 and "may have happened" in answer.get_json()["error"]
    again = dict.fromkeys(pause.in_doubt, us.Approve())
    assert desk.desk.resume(waits.token, again, system=desk.system).status == "needs_approval"
    desk.system.stop()


def test_a_run_that_is_not_there_is_not_found(desk: ModuleType) -> None:
    client = desk.app.test_client()
    assert client.get("/runs/other/events").status_code == 404
    run = client.post("/ask", json={"text": "Where is my order 7?"}).get_json()["run"]
    assert client.get(f"/runs/{run}/events", headers={"Last-Event-ID": "no id"}).status_code == 400
    assert "EventSource" in desk.app.test_client().get("/").text
