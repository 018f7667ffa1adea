"""The programs that users are shown run as they stand."""

from __future__ import annotations

import json
import os
import re
import signal
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pykka
import pytest
from flask import Flask

from tests.support.killing import killed
from tests.support.paths import ROOT, wire_folder
from tests.support.programs import Models, performed, program_text
from tests.support.scripts import WAIT
from tests.support.shelf import Shelf
from understudy import (
    ActorRef,
    ActorSystem,
    Agent,
    Budget,
    BudgetExceeded,
    Complete,
    FunctionModel,
    LoadedSpec,
    ModelRequest,
    ModelTurn,
    SessionState,
    Tool,
)
from understudy.actors.system import runtime
from understudy.testing import ScriptedModel, calls, says

PROGRAMS = Path(__file__).parent / "programs"
FILES = {int(path.name[1:3]): path for path in sorted(PROGRAMS.glob("p*.py"))}


def the_document() -> Path | None:
    """Return the API programs document, which stands beside the folder of recorded exchanges."""
    wire = wire_folder()
    document = None if wire is None else wire.parent / "API.md"
    return document if document is not None and document.is_file() else None


def shown(number: int, document: Path) -> str:
    """Return the code of a program in the document."""
    section = re.split(r"(?m)^## ", document.read_text())
    (text,) = [part for part in section if part.startswith(f"{number}. ")]
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return textwrap.dedent(code[0]).strip("\n")


def test_every_program_has_a_file() -> None:
    assert FILES.keys() == set(range(1, 20))


@pytest.mark.parametrize("number", FILES)
def test_a_program_is_what_users_are_shown(number: int) -> None:
    document = the_document()
    if document is None:
        pytest.skip("the API programs document is not there")

    expected, text = shown(number, document), program_text(FILES[number])

    assert text == expected


@pytest.mark.parametrize("number", FILES)
def test_a_program_needs_no_help_to_pass_type_checkers(number: int) -> None:
    text = FILES[number].read_text()

    assert re.findall(r"\bcast\(|type: ignore|pyright:|noqa|\bAny\b", text) == []


def test_a_page_shows_how_a_run_is_driven_by_hand() -> None:
    page = (ROOT / "docs" / "by-hand.md").read_text()

    assert f"```python\n{program_text(FILES[12])}\n```" in page


def test_a_page_shows_how_a_run_goes_turn_by_turn() -> None:
    page = (ROOT / "docs" / "turns.md").read_text()

    assert f"```python\n{program_text(FILES[17])}\n```" in page


def test_an_agent_with_a_tool(capsys: pytest.CaptureFixture[str]) -> None:
    with performed(FILES[1]):
        pass

    assert capsys.readouterr().out == "Yes: seven. 1 the model answered None\n"


def test_a_question_to_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    with performed(FILES[2]) as names:
        outcome = names["outcome"]

    assert isinstance(outcome, Complete)
    assert outcome.text == "Three days in Paris: ..."
    assert capsys.readouterr().out == "How many days?\n"


def test_an_approval(capsys: pytest.CaptureFixture[str]) -> None:
    with performed(FILES[3]) as names:
        outcome = names["outcome"]

    assert isinstance(outcome, Complete)
    assert outcome.text == "Done."
    assert outcome.messages[2].tool_results[0].content == "refunded 1200 cents of order 7"
    assert capsys.readouterr().out == "refund {'order': '7', 'cents': 1200}\n"


def test_watching_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    with performed(FILES[4]) as names:
        outcome = names["outcome"]

    assert isinstance(outcome, Complete)
    assert capsys.readouterr().out == f"Let me look. [on_shelf]\n7\nYes: seven. {outcome.usage}\n"


def test_several_agents(capsys: pytest.CaptureFixture[str]) -> None:
    with performed(FILES[5]) as names:
        outcome = names["outcome"]

    assert isinstance(outcome, Complete)
    assert {name: task.status for name, task in outcome.tasks.items()} == {
        "fetch": "done",
        "check": "done",
        "write": "done",
    }
    assert capsys.readouterr().out.splitlines() == [
        'Readers are glad. ["Glad.", "It adds tides."]',
        "Tides, at last. The moon does it. done",
    ]


def test_delegation() -> None:
    with performed(FILES[6]) as names:
        assert isinstance(names["lead"], Agent)
        lead = cast("Agent[str]", names["lead"])
        outcome = lead.run("Publish something about tides.")

    assert isinstance(outcome, Complete)
    assert outcome.text == "Published."
    assert [result.content for result in outcome.messages[2].tool_results] == ["The moon does.", "Tides rise."]
    assert lead.run_spec.tools[1].description == "Writes drafts"


def test_typed_answers() -> None:
    with performed(FILES[7]) as names:
        verdict = names["verdict"]

    assert type(verdict) is names["Verdict"]
    assert vars(verdict) == {"label": "spam", "score": 0.9}


def test_what_a_tool_can_see() -> None:
    model = ScriptedModel([calls("stock", sku="A-113"), says("Seven.")])
    session = SessionState({"customer": "ada"})

    with performed(FILES[8]) as names:
        stock, deps = names["stock"], SimpleNamespace(db=names["db"])
        assert callable(stock)
        keeper = Agent("keeper", model=model, tools=[stock])
        keeper.run("How many?", session=session, deps=deps)

    assert dict(session) == {"customer": "ada", "last_sku": "A-113"}
    assert model.requests[1].tool_results[0].content == "7"


def test_callbacks_criteria_and_budgets() -> None:
    with performed(FILES[9]) as names:
        assert isinstance(names["careful"], Agent)
        careful = cast("Agent[str]", names["careful"])
        with pytest.raises(BudgetExceeded) as caught:
            careful.run("Refund order 7.")
        outcome = careful.resume(caught.value.token, budget=Budget(total_tokens=80_000))

    assert names["refunded"] == []
    assert (caught.value.what, caught.value.limit) == ("total_tokens", 50_000)
    assert isinstance(outcome, Complete)
    assert outcome.text == "All is refunded. DONE"
    assert outcome.messages[2].tool_results[0].content == "Blocked: not on Sundays"


def test_what_was_said_in_a_conversation_before() -> None:
    with performed(FILES[8]) as names:
        models = names["MODELS"]

    assert isinstance(models, Models)
    chat = models["chat"]
    assert isinstance(chat, ScriptedModel)
    assert [message.text for message in chat.requests[1].messages] == [
        "My name is Ada",
        "Nice to meet you, Ada.",
        "What is my name?",
    ]


def test_driving_a_run_by_hand() -> None:
    with performed(FILES[12]) as names:
        outcome = names["outcome"]

    assert isinstance(outcome, Complete)
    assert outcome.text == "Yes: seven."
    assert outcome.messages[2].tool_results[0].content == "7"


def test_a_system_that_goes_on_with_the_run_of_a_process_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    deadly = Path("deadly")
    deadly.touch()
    assert killed(lambda: performed(FILES[10]).__enter__())
    deadly.unlink()

    with performed(FILES[10]):
        pass

    told = capsys.readouterr().out
    assert re.findall(r"(?m)^shop-\w+-\d+ Complete\(.*text='Yes: seven\.'", told)


def test_an_actor_of_ones_own() -> None:
    with performed(FILES[11]) as names:
        system, feed, price = names["system"], names["feed"], names["price"]

    assert isinstance(system, ActorSystem)
    assert isinstance(feed, ActorRef)
    assert price == 12.5
    assert feed.address == "market/prices"
    assert system.stop(10.0) == ()


def test_a_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = FILES[13].read_text()
    monkeypatch.chdir(tmp_path)
    Path("newsroom.yaml").write_text(re.findall(r'NEWSROOM = """\\\n(.*?)"""', text, re.DOTALL)[0])

    with performed(FILES[13]) as names:
        company = names["company"]

    assert isinstance(company, LoadedSpec)
    assert list(company.runners) == ["summarizer", "any-id", "pipeline", "panel", "dag"]
    audit = names["Audit"]
    assert isinstance(audit, type)
    assert isinstance(company.agent("summarizer").callbacks[0], audit)
    assert company.sequential("pipeline").run("Write about tides").text


def test_testing_an_application() -> None:
    with performed(FILES[14]) as names:
        test = names["test_clerk_looks_before_it_answers"]

        assert callable(test)
        test()


def test_many_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    with performed(FILES[15]):
        pass

    assert sorted(capsys.readouterr().out.splitlines()) == ["0 label='spam'", "1 slow down", "2 label='ham'"]


def test_turn_by_turn(capsys: pytest.CaptureFixture[str]) -> None:
    with performed(FILES[17]):
        pass

    assert capsys.readouterr().out == "Yes: seven.\n"


def test_a_tool_that_is_never_run_twice_by_mistake(tmp_path: Path) -> None:
    shelf = Shelf(f"sqlite:///{tmp_path}/shop.db")
    with performed(FILES[18]) as names:
        tools = [cast("Tool[..., object]", names[name]) for name in ("charge", "book")]
    here = os.getpid()

    def next_turn(request: ModelRequest) -> ModelTurn:
        if request.turn == 2 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        turns = [calls("charge", order="7", cents=250), calls("book", sku="bell", units=2)]
        return turns[request.turn - 1] if request.turn <= 2 else says("Booked.")

    agent = Agent("seller", model=FunctionModel(next_turn), tools=tools)
    assert killed(lambda: agent.run("two bells", system=shelf.system()))

    (handle,) = shelf.system().recover(runners=[agent])

    outcome = handle.result(timeout=WAIT)
    assert [result.content for message in outcome.messages for result in message.tool_results] == ["R-7-250", "booked"]
    assert shelf.units == 5


def test_a_stream_to_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_default", None)
    with performed(FILES[19]) as names:
        browser = cast("Flask", names["app"]).test_client()
        asked = browser.post("/ask", json={"text": "How many?", "conversation": "c-1"})
        first, *_, last = [json.loads(line[6:]) for line in asked.text.splitlines() if line.startswith("data: ")]
        back = browser.get(f"/runs/{first['run_id']}/events", headers={"Last-Event-ID": first["id"]})

    assert last["outcome"]["text"] == "We have seven."
    assert "We have seven." in back.text and first["id"] != "" and '"turn_started"' not in back.text


def test_from_pykka(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        with performed(FILES[16]):
            pass
    finally:
        stopped = pykka.ActorRegistry.stop_all(timeout=10)

    first, second = capsys.readouterr().out.splitlines()
    assert first == "Yes: seven."
    assert second.count("Complete(") == 2
    assert second.index("'Yes: seven.'") < second.index("'No.'")  # in the order of the questions
    assert stopped == [True]  # the bare actor alone: the others were stopped with their system
