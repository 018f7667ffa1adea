"""Guardrails on what goes in and what comes out, and the callback that logs."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import understudy as us
from tests.support.scripts import finished
from understudy.testing import ScriptedModel, calls, says


def no_secrets(ctx: us.RunContext, text: str) -> str | None:
    return "it has a secret in it" if "secret" in text else None


def look(sku: str) -> str:
    return f"found {sku}"


def guarded(*turns: us.ModelTurn | Exception, by: us.AgentCallback) -> us.Agent:
    return us.Agent("clerk", model=ScriptedModel(turns), tools=[look], callbacks=[by])


def model_of(agent: us.Agent) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def test_an_input_that_is_rejected_never_reaches_the_model() -> None:
    agent = guarded(says("ok"), by=us.InputGuardrail("secrets", no_secrets))

    with pytest.raises(us.CallbackAbort, match="it has a secret in it") as caught:
        agent.run("My secret is 7.")

    assert caught.value.callback == "secrets"
    assert model_of(agent).requests == []


def test_the_parts_of_an_input_are_looked_at_too() -> None:
    agent = guarded(says("ok"), by=us.InputGuardrail("secrets", no_secrets))

    with pytest.raises(us.CallbackAbort):
        agent.run([us.TextPart("Look:"), us.TextPart(" a secret")])


def test_an_input_is_looked_at_once_and_not_what_tools_say_later() -> None:
    texts: list[str] = []

    def note(ctx: us.RunContext, text: str) -> None:
        texts.append(text)

    agent = guarded(calls("look", sku="secret"), says("ok"), by=us.InputGuardrail("notes", note))

    finished(agent.run("go"))

    assert texts == ["go"]


def test_an_answer_that_is_rejected_ends_the_run() -> None:
    with pytest.raises(us.CallbackAbort, match="it has a secret in it") as caught:
        guarded(says("The secret is 7."), by=us.OutputGuardrail("secrets", no_secrets)).run("go")

    assert caught.value.callback == "secrets"


def test_an_answer_that_is_rejected_can_be_tried_again() -> None:
    agent = guarded(
        says("The secret is 7."), says("No comment."), by=us.OutputGuardrail("secrets", no_secrets, retry=True)
    )

    outcome = finished(agent.run("go"))

    assert outcome.text == "No comment."
    assert [m.text for m in outcome.messages] == ["go", "it has a secret in it", "No comment."]


def test_a_question_to_a_person_and_a_refusal_are_looked_at_and_text_beside_calls_is_not() -> None:
    guard = us.OutputGuardrail("secrets", no_secrets)
    refusal = us.ModelTurn((), refusal="It is a secret.")

    for turn in (says("__ask_user__: Your secret?"), refusal):
        with pytest.raises(us.CallbackAbort):
            guarded(turn, by=guard).run("go")
    agent = guarded(says("On to the secret. ") + calls("look", sku="A"), says("ok"), by=guard)
    assert finished(agent.run("go")).text == "ok"


def test_a_guardrail_that_answers_neither_none_nor_why_lets_nothing_through() -> None:
    def odd(ctx: us.RunContext, text: str) -> Any:
        return True

    agent = guarded(says("ok"), by=us.InputGuardrail("odd", odd))

    with pytest.raises(us.CallbackAbort, match="guardrail 'odd' must return why .* or None; got a value of type bool"):
        agent.run("go")

    assert model_of(agent).requests == []


# --- logging


EVENTS = [
    "model_call_started",
    "model_call_finished",
    "tool_call_started",
    "tool_call_finished",
    "model_call_started",
    "model_call_finished",
    "run_finished",
]


def logged(caplog: pytest.LogCaptureFixture, callback: us.AgentCallback) -> list[dict[str, Any]]:
    with caplog.at_level(logging.INFO, logger="understudy"):
        guarded(calls("look", sku="A-113"), says("Seven."), by=callback).run("How many?")
    return [vars(record) for record in caplog.records if record.name == "understudy.runs"]


def test_each_moment_is_one_line_with_fields(caplog: pytest.LogCaptureFixture) -> None:
    lines = logged(caplog, us.LoggingCallback())

    assert [line["event"] for line in lines] == EVENTS
    assert all(line["agent_id"] == "clerk" and line["run_id"] for line in lines)
    assert (lines[0]["turn"], lines[1]["tool_calls"], lines[2]["tool"]) == (1, 1, "look")
    assert (lines[3]["is_error"], lines[3]["error_kind"]) == (False, "")
    assert lines[2]["call_id"] == lines[3]["call_id"] != ""
    assert (lines[6]["status"], lines[6]["turns"], lines[6]["iterations"]) == ("complete", 2, 1)
    assert lines[2]["message"].startswith("tool_call_started agent_id='clerk' run_id=")


def test_what_was_said_stays_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    logged(caplog, us.LoggingCallback())

    for secret in ("How many", "A-113", "found", "Seven"):
        assert secret not in caplog.text
        assert secret not in repr([vars(record) for record in caplog.records])


def test_what_was_said_is_in_the_log_if_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    lines = logged(caplog, us.LoggingCallback(contents=True))

    assert lines[0]["prompt"] == "How many?"
    assert lines[2]["arguments"] == {"sku": "A-113"}
    assert lines[3]["result"] == "found A-113"
    assert (lines[5]["reply"], lines[6]["reply"]) == ("Seven.", "Seven.")


def test_an_error_is_a_warning_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="understudy"), pytest.raises(us.RateLimited):
        guarded(us.RateLimited("key sk-123 is used up"), by=us.LoggingCallback()).run("go")

    (record,) = [record for record in caplog.records if record.name == "understudy.runs" and record.levelno >= 30]
    assert (vars(record)["event"], vars(record)["error_type"]) == ("run_failed", "RateLimited")
    assert "sk-123" not in caplog.text


def test_until_the_host_configures_logging_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        with pytest.raises(us.RateLimited):
            guarded(us.RateLimited("slow down"), by=us.LoggingCallback(level=logging.ERROR)).run("go")
    finally:
        root.handlers = handlers

    assert capsys.readouterr() == ("", "")
