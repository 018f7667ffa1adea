"""Recording: what goes onto a tape, what does not, and what happens when it cannot be written."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.hosts.forking import in_child
from tests.support.http import HELLO, OPENAI_REPLY, Answers
from tests.support.scripts import WAIT
from tests.support.tapes import answer_of, asking, lines_of, taped
from tests.support.together import all_at_once
from understudy import Agent, tool
from understudy.errors import AuthenticationError, ProviderError, RateLimited, RunCancelled, RunTimedOut
from understudy.providers import FunctionModel, OpenAI, Recorder, Replay, ScriptedModel, Secret
from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    JsonValue,
    ModelRequest,
    ModelTurn,
    Settings,
    TextPart,
    ToolSpec,
    calls,
    says,
    user_message,
)
from understudy.vocabulary.models import Model, ModelLike, ModelName, Renewable

CANARY = "sk-canary-0123456789"


# --- what is written


def test_turns_and_errors_go_through_as_they_are(path: Path) -> None:
    turn, error = says("Seven."), RateLimited("slow down")
    with Recorder(path) as recorder:
        model = recorder.record(ScriptedModel([turn, error]))

        assert model.complete(HELLO) is turn
        with pytest.raises(RateLimited) as caught:
            model.complete(HELLO)

    assert caught.value is error
    assert recorder.calls == 2


def test_a_line_says_who_was_asked_what_and_answered_what(path: Path) -> None:
    look = ToolSpec("look", "Looks.", {"type": "object"})
    request = ModelRequest([user_message("How many?")], "Be brief.", (look,), Settings(temperature=0))

    taped(path, (request, calls("look", sku="A-113")))

    (line,) = lines_of(path)
    request_line = cast("dict[str, list[list[str]]]", line["request"])
    assert [(name, shows) for name, _, shows in request_line["pieces"]] == [
        ("system prompt", "Be brief."),
        ("message 1", "user: How many?"),
        ("tool look", '{"name": "look", "description": "Looks.", "schema": {"type": "object"}}'),
        ("settings", '{"temperature": 0.0}'),
    ]
    assert line["model"] == "ScriptedModel"
    assert line["turn"] == {
        "parts": [{"kind": "tool_call", "id": "", "name": "look", "arguments": {"sku": "A-113"}}],
        "finish_reason": "tool_calls",
        "raw_finish_reason": "tool_calls",
    }


def test_a_long_piece_is_shown_by_its_beginning(path: Path) -> None:
    taped(path, (ModelRequest([user_message("x" * 5000)], "y" * 5000), says("z")))

    assert path.stat().st_size < 1500


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (ModelName("rehearsal", ""), "rehearsal"),
        ("rehearsal", "rehearsal"),
        ("anthropic:claude-haiku-4-5", "anthropic:claude-haiku-4-5"),
        (OpenAI("gpt-4o", api_key="k"), "openai:gpt-4o"),
        (f"openai:{CANARY}", "openai:[redacted]"),
        (FunctionModel(lambda _: says("x")), "FunctionModel"),
    ],
)
def test_a_line_names_the_model(
    model: Model | ModelName | str, name: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_OFFLINE", "1")
    with Recorder(path) as recorder:
        answer_of(recorder.record(model), HELLO)

    assert [line["model"] for line in lines_of(path)] == [name]


def test_only_the_owner_may_read_a_tape(path: Path) -> None:
    taped(path, (HELLO, says("Hi.")))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_there_is_left_alone(path: Path) -> None:
    path.write_text("precious")

    with pytest.raises(FileExistsError):
        Recorder(path)

    assert path.read_text() == "precious"


def test_a_line_is_on_the_disk_when_the_call_is_over(path: Path) -> None:
    script = f"""
import os, signal
import understudy as us
model = us.Recorder({str(path)!r}).record(us.ScriptedModel([us.says("one"), us.says("two")]))
model.complete(us.ModelRequest([]))
model.complete(us.ModelRequest([]))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=60, check=False)

    assert done.returncode == -9
    replay = Replay(path)
    assert [replay.complete(ModelRequest([])).text for _ in range(2)] == ["one", "two"]


def test_many_threads_and_models_share_a_tape(path: Path) -> None:
    def answer(request: ModelRequest) -> ModelTurn:
        barrier.wait(WAIT)
        return says(request.text.upper() * 100)

    barrier = threading.Barrier(8)
    with Recorder(path) as recorder:
        models = [recorder.record(FunctionModel(answer)) for _ in range(8)]

        def ask(number: int) -> None:
            for n in range(20):
                models[number].complete(asking(f"call {number} {n}"))

        all_at_once(ask, range(8))

    assert recorder.calls == 160
    replay = Replay(path)
    for i in range(8):
        for n in range(20):
            assert replay.complete(asking(f"call {i} {n}")).text == f"CALL {i} {n}" * 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_writes_to_the_same_tape_though_a_lock_was_held(path: Path) -> None:
    with Recorder(path) as recorder:
        model = recorder.record(FunctionModel(lambda request: says(request.text.upper())))
        with recorder._lock:  # pyright: ignore[reportPrivateUsage]  # as a thread that writes at that moment
            in_child(lambda: all_at_once(lambda who: model.complete(asking(who)), ["child"]))
        model.complete(asking("parent"))

    replay = Replay(path)
    assert [replay.complete(asking(who)).text for who in ("parent", "child")] == ["PARENT", "CHILD"]


@pytest.mark.parametrize("ended", [RunCancelled("stop"), RunTimedOut("late")])
def test_a_call_that_its_run_ended_is_not_recorded(ended: Exception, path: Path) -> None:
    with Recorder(path) as recorder, pytest.raises(type(ended)):
        model = recorder.record(ScriptedModel([says("Hi."), ended]))
        model.complete(HELLO)
        model.complete(HELLO)

    assert len(lines_of(path)) == 1


def test_no_tape_is_left_of_a_recording_that_recorded_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LookupError), Recorder(path):
        assert path.exists()  # so that nobody else takes the name
        raise LookupError("the run did not begin")

    assert not path.exists()
    assert not caplog.records  # the error tells why


def test_a_recorder_that_is_closed_with_nothing_recorded_warns_and_says_why(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        pytest.warns(UserWarning, match=r"no model was given to it, as in agent\.override\(") as warned,
        Recorder(path),
    ):
        ScriptedModel([says("Hi.")]).complete(HELLO)
    assert [warning.filename for warning in warned] == [__file__]
    assert not caplog.records
    with Recorder(path) as recorder:
        recorder.record(ScriptedModel([]))
    with Recorder(path) as recorder:
        recorder.record(ScriptedModel([says("Hi.")])).complete(HELLO)

    nothing = f"nothing was recorded to {path}, and the file is removed: "
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"{nothing}no recorded model was asked")
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_an_empty_tape_is_not_taken_away_from_who_was_forked_and_may_still_write(path: Path) -> None:
    recorder = Recorder(path)
    model = recorder.record(ScriptedModel([says("Hi.")]))
    in_child(recorder.close)

    assert path.exists()
    model.complete(HELLO)
    recorder.close()
    assert len(lines_of(path)) == 1


# --- models


@pytest.mark.parametrize(
    ("model", "kind", "says"),
    [
        ("antropic:x", ValueError, "did you mean"),
        (7, TypeError, "what has a complete"),
        (ScriptedModel, TypeError, "what has a complete"),
    ],
)
def test_what_is_no_model_is_refused(model: object, kind: type[Exception], says: str, path: Path) -> None:
    with Recorder(path) as recorder, pytest.raises(kind, match=says):
        recorder.record(cast(ModelLike, model))


def test_renewing_reaches_the_model(path: Path) -> None:
    class Renewed(FunctionModel):
        times = 0

        def renew(self) -> None:
            self.times += 1

    inner = Renewed(lambda _: says("Hi."))
    with Recorder(path) as recorder:
        recorded, without = recorder.record(inner), recorder.record(ScriptedModel([]))
        assert isinstance(recorded, Renewable)
        assert isinstance(without, Renewable)
        recorded.renew()
        without.renew()

    assert inner.times == 1


def test_a_closed_recorder_lets_calls_through_and_keeps_none(path: Path) -> None:
    recorder = Recorder(path)
    model = recorder.record(ScriptedModel([says("Hi."), says("Ho.")]))
    recorder.close()
    recorder.close()

    assert model.complete(HELLO).text == "Hi."
    assert not path.exists()
    assert recorder.calls == 0


# --- what cannot be written


def test_a_rule_that_fails_stops_the_recording_and_not_the_run(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failures = [LookupError(f"no rule for {CANARY}")]

    def fail_once(text: str) -> str:
        if failures:
            raise failures.pop()
        return text

    recorder = Recorder(path, redact=fail_once)
    model = recorder.record(ScriptedModel([says(CANARY), says("Ho.")]))
    with caplog.at_level(logging.DEBUG):
        assert [model.complete(HELLO).text, model.complete(HELLO).text] == [CANARY, "Ho."]

    assert isinstance(recorder.problem, LookupError)
    with pytest.raises(LookupError):
        recorder.close()
    assert lines_of(path) == []
    assert [record.getMessage() for record in caplog.records] == [f"recording to {path} stopped: LookupError"]


def test_what_ended_the_block_is_worth_more_than_a_tape_that_broke_off(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Recorder(path, redact=cast(Callable[[str], str], len)) as recorder:
        recorder.record(ScriptedModel([says("Hi.")])).complete(HELLO)
        raise ZeroDivisionError

    assert isinstance(recorder.problem, TypeError)


def test_a_turn_that_is_no_json_stops_the_recording(path: Path) -> None:
    strange = calls("look", when=cast(JsonValue, object()))

    with pytest.raises(TypeError, match="object is not JSON"), Recorder(path) as recorder:
        recorder.record(ScriptedModel([strange])).complete(HELLO)


@pytest.mark.skipif(sys.platform == "win32", reason="sets a limit on the size of files")
def test_a_full_disk_stops_the_recording_and_what_was_written_can_be_replayed(path: Path) -> None:
    script = f"""
import resource
import understudy as us
resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
recorder = us.Recorder({str(path)!r})
model = recorder.record(us.ScriptedModel([us.says(str(n)) for n in range(9)]))
print([model.complete(us.ModelRequest([])).text for n in range(9)], recorder.calls)
try:
    recorder.close()
except OSError as error:
    print(error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    answers, problem = done.stdout.splitlines()
    assert answers.startswith("['0', '1', '2', '3', '4', '5', '6', '7', '8'] ")
    assert problem == "File too large"
    recorded = int(answers.split()[-1])
    replay = Replay(path)
    assert 0 < recorded < 9
    assert (replay.calls, replay.torn) == (recorded, True)
    assert [replay.complete(ModelRequest([])).text for _ in range(recorded)] == [str(n) for n in range(recorded)]


# --- secrets


def test_no_secret_reaches_the_tape_a_log_or_a_repr(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries = {
        "key": "plain-canary-of-the-client",
        "environment": "plain-canary-of-the-environment",
        "named": "plain-canary-named",
        "shape": "ghp_canary0123456789canary",
        "extra": "plain-canary-in-extra",
        "unused": "plain-canary-of-another-client",
    }
    monkeypatch.delenv("UNDERSTUDY_OFFLINE", raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", canaries["environment"])
    everything = " ".join(value for name, value in canaries.items() if name not in ("extra", "unused"))

    @tool
    def look(word: str, password: str) -> str:
        """Look."""
        assert canaries["key"] in word
        return f"{word} {everything}"

    asks: JsonValue = {
        "choices": [
            {
                "message": {
                    "content": everything,
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {
                                "name": "look",
                                "arguments": json.dumps({"word": everything, "password": canaries["extra"]}),
                            },
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ]
    }
    refuses: JsonValue = {"error": {"message": f"no: {everything}", "type": everything}}
    transport = Answers(
        *[httpx.Response(status, json=body) for status, body in ((200, asks), (200, OPENAI_REPLY), (401, refuses))]
    )
    client = OpenAI("gpt-4o", api_key=canaries["key"], attempts=1, transport=transport)
    unused = OpenAI("gpt-4o", api_key=canaries["unused"], transport=transport)
    with Recorder(path, redact=Secret(canaries["named"])) as recorder, caplog.at_level(logging.DEBUG):
        model = recorder.record(client)
        agent = Agent(
            "clerk",
            model=model,
            system_prompt=f"{everything} and more",
            tools=[look],
            settings=Settings(extra={"headers": {"x-api-key": canaries["extra"]}, "user": everything}),
        )
        agent.run([TextPart(everything), ImagePart(url=f"https://files.test/{everything}")])
        with pytest.raises(AuthenticationError):
            agent.run(everything)
        with pytest.raises(ProviderError, match="as a URL"):
            agent.replace(model=recorder.record(unused)).run([FilePart(url=f"https://files.test/{canaries['unused']}")])
        shown = f"{recorder!r} {model!r} {recorder._redactor!r}"  # pyright: ignore[reportPrivateUsage]

    assert recorder.calls == 4
    monkeypatch.delenv("GEMINI_API_KEY")
    with pytest.raises(ProviderError) as missed:
        Replay(path, redact=list(canaries.values())).complete(asking(everything))
    seen = path.read_text() + shown + caplog.text + str(missed.value)
    assert {name: value in seen for name, value in canaries.items()} == dict.fromkeys(canaries, False)
    assert "[redacted] and more" in seen


def test_a_key_that_a_function_returned_is_hidden_where_the_server_quotes_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNDERSTUDY_OFFLINE", raising=False)
    quotes: JsonValue = {"choices": [{"message": {"content": "You are plain-canary-words."}, "finish_reason": "stop"}]}
    transport = Answers(httpx.Response(200, json=quotes))
    client = OpenAI("gpt-4o", api_key=lambda: "plain-canary-words", attempts=1, transport=transport)
    with Recorder(path) as recorder:
        assert recorder.record(client).complete(HELLO).text == "You are plain-canary-words."

    assert "canary" not in path.read_text()
    assert Replay(path).complete(HELLO).text == "You are [redacted]."


def test_a_run_with_hidden_secrets_replays_to_the_same_history(path: Path) -> None:
    @tool
    def look(word: str) -> str:
        """Look."""
        return f"{word} is in line 7"

    def ends(model: Model) -> list[str]:
        agent = Agent("clerk", model=model, tools=[look])
        return [agent.run(f"Find {CANARY}").text, agent.run(f"Find {CANARY}").text]

    lines = [calls("look", word=CANARY), says(f"{CANARY}, line 7"), calls("look", word="tide"), says("Line 7.")]
    with Recorder(path) as recorder:
        assert ends(recorder.record(ScriptedModel(lines))) == [f"{CANARY}, line 7", "Line 7."]

    assert CANARY not in path.read_text()
    assert ends(Replay(path)) == ["[redacted], line 7", "Line 7."]
