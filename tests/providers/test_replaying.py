"""Replaying: which answer a request gets, what is said when there is none, and tapes that are broken."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.http import HELLO
from tests.support.scripts import WAIT
from tests.support.tapes import answer_of, asking, lines_of, taped, texts_of
from tests.support.together import all_at_once, restless_threads
from understudy import Agent, tool
from understudy.errors import (
    AuthenticationError,
    BadReply,
    ContentBlocked,
    MaxIterationsExceeded,
    ProviderError,
    ProviderTimeout,
    RateLimited,
    ToolError,
)
from understudy.providers import FunctionModel, Recorder, Replay
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    JsonValue,
    Message,
    MetadataPart,
    ModelRequest,
    ModelTurn,
    OpaquePart,
    ReasoningPart,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    calls,
    says,
    user_message,
)
from understudy.vocabulary.models import Model

LOOK = ToolSpec("look", "Looks.", {"type": "object"})
FIND = ToolSpec("find", "Finds.", {"type": "object"})
ASKED = ModelRequest([user_message("How many?")], "Be brief.", (LOOK, FIND), Settings(temperature=0.5))
RESULT = Message("user", (ToolResult("1", "7", name="look"),))
LINE = says("Seven.")
CALL = Message("assistant", (ToolCall("1", "look", {"sku": "A-113"}),), "openai")


# --- which answer


def test_each_request_gets_its_own_answer_in_any_order(path: Path) -> None:
    replay = Replay(taped(path, (asking("a"), says("A")), (asking("b"), says("B"))))

    assert [replay.complete(asking("b")).text, replay.complete(asking("a")).text] == ["B", "A"]
    assert (replay.given, replay.calls) == (2, 2)


def test_the_same_request_gets_its_answers_in_their_order_and_then_none(path: Path) -> None:
    replay = Replay(taped(path, (HELLO, says("one")), (HELLO, RateLimited("two")), (HELLO, says("three"))))

    assert texts_of([answer_of(replay, HELLO) for _ in range(3)]) == ["one", "two", "three"]
    with pytest.raises(ProviderError) as caught:
        replay.complete(HELLO)
    assert str(caught.value) == (
        f"{path} holds no answer to this request: "
        f"it is asked once more than it was recorded ({path}:2, {path}:3, {path}:4)"
    )
    assert (caught.value.provider, caught.value.code, caught.value.retryable) == ("replay", "not_on_tape", False)
    assert replay.given == 3


def test_threads_that_ask_the_same_get_each_answer_once(path: Path) -> None:
    replay = Replay(taped(path, *[(HELLO, says(str(n))) for n in range(64)]))
    got: list[str] = []

    with restless_threads():
        all_at_once(lambda _: got.extend([replay.complete(HELLO).text for _ in range(8)]), range(8))

    assert sorted(got, key=int) == [str(n) for n in range(64)]


@pytest.mark.parametrize(
    "same",
    [
        replace(ASKED, turn=7),
        replace(ASKED, tools=(FIND, LOOK)),
        replace(ASKED, messages=(user_message("How many?"),)),
        replace(ASKED, settings=Settings(temperature=0.5, extra={})),
    ],
    ids=["another turn of the run", "tools in another order", "another sequence", "a default that was named"],
)
def test_what_the_model_is_not_told_makes_no_difference(same: ModelRequest, path: Path) -> None:
    assert Replay(taped(path, (ASKED, says("Seven.")))).complete(same).text == "Seven."


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (
            replace(ASKED, system="Be long."),
            "differs: system prompt; system prompt was 'Be brief.', and is 'Be long.'",
        ),
        (
            replace(ASKED, messages=[user_message("How much?")]),
            "differs: message 1; message 1 was 'user: How many?', and is 'user: How much?'",
        ),
        (
            replace(ASKED, messages=[*ASKED.messages, CALL, RESULT]),
            "differs: message 2, message 3; message 2 was not there when it was recorded",
        ),
        (replace(ASKED, tools=(LOOK,)), "differs: tool find; tool find was there when it was recorded"),
        (replace(ASKED, tools=(replace(LOOK, description="Peeks."), FIND)), "differs: tool look; tool look was "),
        (replace(ASKED, settings=Settings()), "differs: settings; settings was '{\"temperature\": 0.5}', and is '{}'"),
        (
            replace(ASKED, system="Be long.", tools=(LOOK,), settings=Settings()),
            "differs: system prompt, settings, tool find; ",
        ),
    ],
)
def test_what_differs_from_the_nearest_request_is_told(other: ModelRequest, difference: str, path: Path) -> None:
    far = ModelRequest([user_message("Sing!"), CALL, RESULT, CALL, RESULT], "Sing.")
    replay = Replay(taped(path, (far, says("La.")), (ASKED, says("Seven.")), (far, says("La."))))

    with pytest.raises(ProviderError) as caught:
        replay.complete(other)

    assert f"the tape's request number 2 ({path}:3) {difference}" in str(caught.value)
    assert replay.given == 0


def test_a_difference_is_shown_where_it_is_and_many_are_counted(path: Path) -> None:
    long = "x" * 150
    replay = Replay(taped(path, (asking(f"{long}a{long}"), says("A"))))

    with pytest.raises(ProviderError) as caught:
        replay.complete(asking(f"{long}b{long}"))
    assert f"was '…{'x' * 20}a{'x' * 39}…', and is '…{'x' * 20}b{'x' * 39}…'" in str(caught.value)

    with pytest.raises(ProviderError, match="differs in what the tape does not show"):
        replay.complete(asking(f"{long}a{long}!"))
    with pytest.raises(ProviderError, match="message 1, message 2, message 3, message 4, message 5 and 4 more; "):
        replay.complete(ModelRequest([user_message("b")] * 9))


def test_an_empty_tape_says_so(path: Path) -> None:
    path.write_text('{"tape":"understudy","format":1}\n')  # as a killed process leaves it

    with pytest.raises(ProviderError, match="the tape is empty"):
        Replay(path).complete(HELLO)


def test_what_redact_names_is_told_to_both_sides(path: Path) -> None:
    taped(path, (asking("I am Ada"), says("Hi Ada")), redact="Ada")

    assert Replay(path, redact="Ada").complete(asking("I am Ada")).text == "Hi [redacted]"
    with pytest.raises(ProviderError, match=r"was 'user: I am \[redacted\]', and is 'user: I am Ada'"):
        Replay(path).complete(asking("I am Ada"))


def test_offline_a_tape_answers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_OFFLINE", "1")

    assert Replay(taped(path, (HELLO, says("Hi.")))).complete(HELLO).text == "Hi."


# --- requests that nearly fit


def after(result: str) -> ModelRequest:
    return replace(ASKED, messages=[*ASKED.messages, CALL, Message("user", (ToolResult("1", result, name="look"),))])


def test_without_strict_a_message_may_differ(path: Path) -> None:
    taped(path, (after("at noon"), says("one")), (after("at one"), says("two")))

    loose = Replay(path, strict=False)
    assert [loose.complete(after(when)).text for when in ("at one", "at three")] == ["two", "one"]
    with pytest.raises(ProviderError):
        loose.complete(after("at four"))  # every answer was given
    with pytest.raises(ProviderError):
        Replay(path).complete(after("at three"))


@pytest.mark.parametrize(
    "other",
    [
        replace(after("at noon"), system="Be long."),
        replace(after("at noon"), tools=(LOOK,)),
        replace(after("at noon"), settings=Settings()),
        ASKED,
    ],
    ids=["prompt", "tools", "settings", "fewer messages"],
)
def test_without_strict_nothing_else_may_differ(other: ModelRequest, path: Path) -> None:
    taped(path, (after("at noon"), says("one")))

    with pytest.raises(ProviderError, match="differs"):
        Replay(path, strict=False).complete(other)


# --- runs


def test_runs_of_several_agents_at_once_replay_from_one_tape(path: Path) -> None:
    @tool
    def look(word: str) -> str:
        """Look."""
        return f"{word}: line {len(word)}"

    def answer(request: ModelRequest) -> ModelTurn:
        if request.tool_results:
            return says(f"{request.system} {request.tool_results[0].content}")
        return calls("look", word=request.text)

    agents = [Agent(f"agent-{n}", model="rehearsal", system_prompt=f"You are {n}.", tools=[look]) for n in range(4)]
    words = ["tide", "moon", "sea", "tide"]

    def all_runs() -> list[str]:
        handles = [agent.submit(word) for agent in agents for word in words]
        return [handle.result(WAIT).text for handle in handles]

    with Recorder(path) as recorder:
        model = recorder.record(FunctionModel(answer))
        recorded = all_runs_with(agents, model, all_runs)
    replayed = all_runs_with(agents, Replay(path), all_runs)

    assert recorder.calls == 32
    assert recorded == replayed
    assert recorded[:2] == ["You are 0. tide: line 4", "You are 0. moon: line 4"]


def all_runs_with(agents: list[Agent], model: Model, runs: Callable[[], list[str]]) -> list[str]:
    with contextlib.ExitStack() as stack:
        for agent in agents:
            stack.enter_context(agent.override(model=model))
        return runs()


# --- errors

USED_UP = RateLimited("slow down")
USED_UP.retries_used_up = True
ERRORS: list[Exception] = [
    USED_UP,
    ProviderError("gone", provider="openai", status=500, code="server_error", retryable=True),
    RateLimited("slow down", provider="anthropic", status=429, retry_after=7.5, retryable=True),
    AuthenticationError("no key for openai", provider="openai"),
    ProviderTimeout("too late", provider="gemini", retryable=True),
    BadReply("not JSON", provider="vertex", status=200, request_id="req-1"),
    ContentBlocked("no", reason="content_filter", categories=("hate", "violence"), provider="openai", status=400),
    ToolError("no", tool="look", call_id="1"),
    ValueError("openai has no top_k"),
    KeyError("sku"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_replayed_as_the_same_class_with_the_same_attributes(error: Exception, path: Path) -> None:
    replayed = answer_of(Replay(taped(path, (HELLO, error))), HELLO)

    assert type(replayed) is type(error)
    assert str(replayed) == str(error)
    assert vars(replayed) == vars(error)


def test_an_error_of_another_class_is_replayed_as_the_nearest_that_is_known(path: Path) -> None:
    class Broken(LookupError): ...

    class Strange(RateLimited): ...

    broken, strange, undecodable = (
        Broken("here"),
        Strange("there", retry_after=1.0),
        UnicodeDecodeError("a", b"", 0, 1, "b"),
    )
    replay = Replay(taped(path, (HELLO, broken), (HELLO, strange), (HELLO, undecodable)))

    first, second, third = [answer_of(replay, HELLO) for _ in range(3)]
    assert type(first) is LookupError
    assert str(first.args[0]).endswith("Broken: here")
    assert type(second) is RateLimited
    assert second.retry_after == 1.0
    assert str(second).endswith("Strange: there")
    assert isinstance(third, ValueError)


def test_a_token_in_an_error_means_nothing_elsewhere_and_is_not_recorded(path: Path) -> None:
    taped(path, (HELLO, MaxIterationsExceeded("enough", limit=3, run_id="r-1", token="t-1")))

    replayed = answer_of(Replay(path), HELLO)
    assert isinstance(replayed, MaxIterationsExceeded)
    assert (replayed.limit, replayed.token, replayed.run_id) == (3, "", "")
    assert "t-1" not in path.read_text()


# --- tapes as files


def test_a_torn_last_line_is_left_out_and_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    taped(path, (asking("a"), says("A")), (asking("b"), says("B")))
    path.write_bytes(path.read_bytes()[:-30])

    with caplog.at_level(logging.WARNING):
        replay = Replay(path)

    assert (replay.calls, replay.torn) == (1, True)
    assert replay.complete(asking("a")).text == "A"
    with pytest.raises(ProviderError, match="its last line is cut off and was left out"):
        replay.complete(asking("b"))
    assert [r.getMessage() for r in caplog.records] == [f"{path} ends in the middle of a line, which is left out"]


def test_a_last_line_that_only_lost_its_end_is_whole(path: Path) -> None:
    taped(path, (HELLO, says("Hi.")))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))

    replay = Replay(path)

    assert (replay.calls, replay.torn) == (1, False)


def edited(changes: dict[str, JsonValue]) -> Callable[[bytes], bytes]:
    """Return an edit that lays fields over those of a line of JSON."""
    return lambda line: json.dumps(json.loads(line) | changes).encode()


EDITS: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda line: line[:50], r"not JSON \("),
    (lambda line: b"", r"not JSON \("),
    (lambda line: b"7", "the line must be an object, got 7"),
    (lambda line: b"[" * 100_000, "nested too deeply"),
    (lambda line: b'{"a": "\xff"}', "utf-8"),
    (edited({"turn": None}), "neither a turn nor an error"),
    (edited({"request": None}), "request must be an object"),
    (edited({"model": None}), "model must be a string"),
    (edited({"request": {"digest": "7", "pieces": []}}), "not that of its pieces"),
    (edited({"request": {"pieces": [["a", "b"]]}}), "a name, a digest and a text"),
    (edited({"request": {"pieces": 7}}), "request.pieces must be an array"),
]


@pytest.mark.parametrize(("edit", "says"), EDITS, ids=[says for _, says in EDITS])
def test_a_broken_line_is_told_with_file_and_line(edit: Callable[[bytes], bytes], says: str, path: Path) -> None:
    taped(path, (HELLO, LINE), (HELLO, LINE), (HELLO, LINE))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], edit(lines[2].rstrip()) + b"\n", lines[3]]))

    with pytest.raises(ValueError, match=says) as caught:
        Replay(path)

    assert str(caught.value).startswith(f"{path}:3: a broken line: ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", ": the file is empty"),
        (b"agents: []\n", ":1: not a tape"),
        (b"{}", ":1: not a tape"),
        (b"\xff\n", ":1: not a tape"),
        (b'{"tape": "another"}\n', ":1: not a tape"),
        (
            b'{"tape": "understudy", "format": 2}\n',
            ":1: a tape of format 2; this version reads format 1; a newer version",
        ),
        (b'{"tape": "understudy", "format": "x"}\n', ":1: a tape of format 'x'; this version reads format 1"),
    ],
)
def test_what_is_no_tape_of_this_version_is_told(text: bytes, says: str, path: Path) -> None:
    path.write_bytes(text)

    with pytest.raises(ValueError, match="tape") as caught:
        Replay(path)

    assert str(caught.value).startswith(f"{path}{says}")


def test_a_tape_that_is_not_there_is_told_at_once(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Replay(path)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"turn": {"parts": [{"kind": "song"}]}}, "a broken answer: parts.0"),
        ({"turn": {"parts": [], "usage": {"input_tokens": "many"}}}, "a broken answer: usage.input_tokens"),
        ({"error": {"class": "SystemExit", "message": "bye"}}, "a class that this version does not know: 'SystemExit'"),
        ({"error": {"class": "Unheard", "message": ""}}, "'Unheard'"),
        ({"error": {}}, "a class that this version does not know: None"),
    ],
)
def test_a_broken_answer_is_told_with_file_and_line(answer: dict[str, JsonValue], says: str, path: Path) -> None:
    taped(path, (HELLO, LINE))
    header, line = path.read_bytes().splitlines()
    tree = json.loads(line)
    del tree["turn"]
    path.write_bytes(header + b"\n" + json.dumps(tree | answer).encode() + b"\n")

    with pytest.raises(BadReply) as caught:
        Replay(path).complete(HELLO)

    assert str(caught.value).startswith(f"{path}:2: ")
    assert says in str(caught.value)


def test_a_field_that_a_later_version_adds_is_no_harm(path: Path) -> None:
    taped(path, (HELLO, says("Hi.")))
    (line,) = lines_of(path)
    line["took"] = 0.5
    cast("dict[str, JsonValue]", line["turn"])["mood"] = "merry"
    path.write_text('{"tape": "understudy", "format": 1, "by": "hand"}\n' + json.dumps(line) + "\n")

    assert Replay(path).complete(HELLO) == says("Hi.")


# --- any turn

words = st.text(st.characters(codec=None) | st.sampled_from('\ud800\udfff\u2028\n"\\'), max_size=8)
numbers = st.integers() | st.floats()
json_values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(words, json_values, max_size=3)
maybe = st.none() | words
places = st.none() | st.integers(0)
citations = st.builds(Citation, words, words, words, places, places, objects)
parts = st.one_of(
    st.builds(TextPart, words, maybe, citations=st.lists(citations, max_size=2).map(tuple)),
    st.builds(MetadataPart, objects),
    st.builds(ImagePart, words, words, words),
    st.builds(FilePart, words, words, words, words),
    st.builds(ReasoningPart, words, maybe, maybe),
    st.builds(ToolCall, words, words, objects, maybe, st.booleans(), maybe),
    st.builds(ToolResult, words, words, st.booleans(), st.sampled_from(["", "raised", "timed_out"]), words),
    st.builds(OpaquePart, objects),
)
counts = st.none() | st.integers(0)
turns = st.builds(
    ModelTurn,
    st.lists(parts, max_size=4).map(tuple),
    st.builds(Usage, counts, counts, counts, counts, counts, objects),
    st.sampled_from(["stop", "tool_calls", "length", "blocked", "other"]),
    maybe,
    *[words] * 5,
)


@given(turns)
@settings(max_examples=200, deadline=None)
def test_any_turn_survives_a_tape(tmp_path_factory: pytest.TempPathFactory, turn: ModelTurn) -> None:
    path = tmp_path_factory.mktemp("tapes") / "tape.jsonl"
    history = ModelRequest([user_message("Hi"), Message("assistant", turn.parts, turn.dialect), RESULT])
    replay = Replay(taped(path, (history, turn), (HELLO, says("Hi."))))

    replayed = replay.complete(history)

    assert repr(replayed) == repr(turn)  # NaN is not equal to itself, and not every field is compared
    assert replay.complete(HELLO).text == "Hi."


def test_the_strategy_leaves_out_no_field_of_a_turn() -> None:
    assert [f.name for f in fields(ModelTurn)] == [
        *("parts", "usage", "finish_reason", "raw_finish_reason", "refusal", "dialect", "model", "response_id"),
        "request_id",
    ]
