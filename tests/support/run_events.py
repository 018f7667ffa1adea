"""Events of runs for property tests, and a reader of `text/event-stream` that is independent of the package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from hypothesis import strategies as st

import understudy as us
from understudy.vocabulary.runs.events import Event

HALF = "\ud83d"
"""Half of a surrogate pair, as models that are cut off write it; UTF-8 has no form for it."""
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ARGUMENTS = st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers() | TEXTS, max_size=2)
ODD = st.dictionaries(TEXTS | st.just(HALF), TEXTS | st.just({HALF: 1}), max_size=2)
"""Arguments and outputs with halves too."""
CALLS = st.builds(
    us.ToolCall, st.sampled_from(["c1", "c2", "call-1-0"]), st.sampled_from(["look", "pay"]), ARGUMENTS | ODD
)
RESULTS = st.builds(us.ToolResult, st.just("c1"), TEXTS, st.booleans())
ERRORS: st.SearchStrategy[BaseException] = st.sampled_from(
    [ValueError("wrong"), us.RateLimited("slow down", status=429), us.RunCancelled("stopped", token="r.1.x")]
)
TURNS = st.builds(us.ModelTurn, st.tuples(st.builds(us.ReasoningPart, TEXTS), st.builds(us.TextPart, TEXTS), CALLS))
OUTCOMES: st.SearchStrategy[us.Outcome[object]] = st.one_of(
    st.builds(us.Complete, text=TEXTS, output=TEXTS | ODD),
    st.builds(us.NeedsInput, question=TEXTS, token=st.just("r.1.x")),
    st.builds(us.NeedsApproval, calls=st.tuples(CALLS), token=st.just("r.1.x")),
    st.builds(us.Incomplete, last_text=TEXTS),
)
"""Values for the fields of events that hypothesis cannot make of their types."""

NUMBERS = ("turn", "attempt", "offset", "index", "seq", "position", "attempts", "messages")
WORDS = ("text", "by", "name", "call_id", "task", "runner_id", "child_run_id", "other_run_id")
"""Fields that are numbers, and those that are texts."""


def event_values(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Return events of one type."""
    given: dict[str, st.SearchStrategy[object]] = {
        "run_id": TEXTS,
        "path": st.just(("desk",)) | st.just(("desk", "clerk")),
        "parent_run_id": st.none() | TEXTS,
        "call": CALLS,
        "result": RESULTS,
        "response": TURNS,
        "usage": st.just(us.Usage(3, 4)),
        "outcome": OUTCOMES,
        "error": ERRORS,
        "output": ARGUMENTS | ODD,
        "keys": st.tuples(TEXTS, TEXTS),
    }
    given["time"] = st.floats(0, 4e9)
    given |= dict.fromkeys(NUMBERS, st.integers(0, 99))
    given |= dict.fromkeys(WORDS, TEXTS)
    return st.builds(kind, **{name: each for name, each in given.items() if name in kind.__dataclass_fields__})


def events() -> st.SearchStrategy[Event]:
    """Return events of all types, with no order."""
    return st.one_of([event_values(kind) for kind in get_args(Event)])


@dataclass(frozen=True)
class Sent:
    """One event that a browser dispatches."""

    event: str
    data: str
    last_id: str


def read_sse(body: bytes) -> list[Sent]:
    """Read a stream by the rules of the HTML standard."""
    lines = body.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found: list[Sent] = []
    event, data, last_id = "", list[str](), ""
    for line in lines[:-1]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                found.append(Sent(event or "message", "\n".join(data), last_id))
            event, data = "", []
        elif name == "data":
            data.append(value)
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            last_id = value
    return found
