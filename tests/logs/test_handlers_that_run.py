"""Log handlers that run an agent: the run goes on, although the handler holds its lock until the run is over."""

from __future__ import annotations

import logging

import pytest

import understudy as us
from tests.support.scripts import WAIT
from understudy.testing import FunctionModel, ScriptedModel, calls, says


class Asking(logging.Handler):
    """Asks an agent about each line that comes while it asks about none."""

    def __init__(self, agent: us.Agent[str]) -> None:
        super().__init__()
        self._agent = agent
        self.answers: list[str] = []
        self._busy = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._busy:
            self._busy = True
            try:
                self.answers.append(self._agent.run("What is this?", timeout=WAIT).text)
            finally:
                self._busy = False


def failing() -> us.Agent[str]:
    """Return an agent whose run has a line at each level: its tool fails with a warning."""

    def look() -> str:
        raise KeyError("shelf")

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says("Nothing.") if request.tool_results else calls("look")

    return us.Agent("triage", model=FunctionModel(answer), tools=[look])


@pytest.mark.parametrize("name", ["understudy", "", "shop"])
def test_a_handler_may_wait_for_a_run_which_writes_no_lines_then(name: str) -> None:
    handler = Asking(failing())
    package, own = logging.getLogger("understudy"), logging.getLogger(name)
    package.setLevel(logging.DEBUG)
    own.addHandler(handler)
    try:
        logging.getLogger(name or "shop").warning("The shelf is broken.")
    finally:
        own.removeHandler(handler)

    assert handler.answers == ["Nothing."]


def test_a_handler_of_the_run_s_own_lines_may_run_an_agent(caplog: pytest.LogCaptureFixture) -> None:
    handler = Asking(failing())
    clerk = us.Agent("clerk", model=ScriptedModel([says("Seven.")]))
    package = logging.getLogger("understudy")
    package.setLevel(logging.INFO)
    package.addHandler(handler)

    assert clerk.run("How many?", timeout=WAIT).text == "Seven."

    assert handler.answers[0] == "Nothing."
    written = {getattr(record, "agent", "") for record in caplog.records}
    assert "clerk" in written
    assert "triage" not in written
