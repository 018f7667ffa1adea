"""A web application with its own logging: each line of its tools says which run and agent it belongs to."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Generator
from typing import cast

import flask
import pytest
import structlog

import understudy as us
from tests.support.scripts import WAIT
from understudy.testing import FunctionModel, says

SKUS = ("A", "B", "C")


def asks_for_all(request: us.ModelRequest) -> us.ModelTurn:
    if request.tool_results:
        return says("Three.")
    return us.ModelTurn(tuple([us.ToolCall(f"call-{sku}", "look", {"sku": sku}) for sku in SKUS]))


@us.tool(name="look")
def look_and_tell_structlog(sku: str) -> str:
    structlog.get_logger("shop").info("looked", sku=sku)
    return f"found {sku}"


@us.tool(name="look")
def look_and_tell_logging(sku: str) -> str:
    logging.getLogger("shop").info("looked %s", sku)
    return f"found {sku}"


def application(agent: us.Agent) -> flask.Flask:
    def ask() -> dict[str, str]:
        structlog.contextvars.bind_contextvars(request_id="q-1")
        outcome = agent.run("How many?", conversation_id="c-7", timeout=WAIT)
        return {"run_id": outcome.run_id, "text": outcome.text}

    app = flask.Flask("shop")
    app.add_url_rule("/ask", view_func=ask)
    return app


def asked(agent: us.Agent) -> dict[str, str]:
    response = application(agent).test_client().get("/ask")
    assert response.status_code == 200
    return cast("dict[str, str]", response.get_json())


@pytest.fixture
def structured() -> Generator[io.StringIO]:
    """Configure structlog as an application does, without the standard library's logging."""
    written = io.StringIO()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            us.add_run_context,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(written),
    )
    yield written
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def test_an_application_with_structlog(structured: io.StringIO) -> None:
    answer = asked(us.Agent("clerk", model=FunctionModel(asks_for_all), tools=[look_and_tell_structlog]))

    lines = [json.loads(line) for line in structured.getvalue().splitlines()]
    assert answer["text"] == "Three."
    assert sorted(lines, key=lambda line: str(line["sku"])) == [
        {
            "event": "looked",
            "sku": sku,
            "request_id": "q-1",
            "run_id": answer["run_id"],
            "agent": "clerk",
            "conversation_id": "c-7",
            "tool": "look",
            "call_id": f"call-{sku}",
        }
        for sku in SKUS
    ]


@pytest.fixture
def plain() -> Generator[io.StringIO]:
    """Configure the standard library's logging as an application does: one handler at the root."""
    root, written = logging.getLogger(), io.StringIO()
    handler, level = logging.StreamHandler(written), root.level
    handler.addFilter(us.RunContextFilter())
    handler.setFormatter(logging.Formatter("%(message)s|%(run_id)s|%(agent)s|%(tool)s|%(call_id)s"))
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield written
    root.removeHandler(handler)
    root.setLevel(level)


def test_an_application_with_the_standard_library(plain: io.StringIO) -> None:
    answer = asked(us.Agent("clerk", model=FunctionModel(asks_for_all), tools=[look_and_tell_logging]))
    logging.getLogger("shop").info("outside")

    lines = [line for line in plain.getvalue().splitlines() if line.startswith(("looked", "outside"))]
    assert lines.pop() == "outside||||"
    assert sorted(lines) == [f"looked {sku}|{answer['run_id']}|clerk|look|call-{sku}" for sku in SKUS]
