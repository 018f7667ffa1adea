"""Every option that users pass: what it cannot be is refused at once, by an error that names it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from understudy.testing import FunctionModel, ScriptedModel, says


class Thing:
    """Nothing that any option takes; its class is taken where a function is."""

    def __repr__(self) -> str:
        return "Thing()"


WRONG: dict[str, object] = {
    "None": None,
    "True": True,
    "7": 7,
    "0": 0,
    "-1": -1,
    "1.5": 1.5,
    "nan": math.nan,
    "inf": math.inf,
    "empty": "",
    "blank": " ",
    "word": "x",
    "bytes": b"x",
    "list": [],
    "words": ["x"],
    "numbers": [7],
    "map": {},
    "thing": Thing(),
    "class": Thing,
}
FUNCTION = "class"
COUNT = "7"
SECONDS = "7 1.5"
TEXT = "empty blank word"


@dataclass
class Options:
    """What takes options.

    Attributes:
        make: takes the options by name.
        fits: option -> the keys of `WRONG` that it does take.
        given: what else `make` is given.
        called: option -> how errors speak of it, if not by its name.
        left_out: options that take anything.
    """

    make: Callable[..., object]
    fits: dict[str, str]
    given: dict[str, Any] = field(default_factory=dict[str, Any])
    called: dict[str, str] = field(default_factory=dict[str, str])
    left_out: tuple[str, ...] = ()


def clerk() -> us.Agent:
    return us.Agent("clerk", model=FunctionModel(lambda request: says("ok")))


def look() -> str:
    return "seen"


def never(*_: object) -> None:
    return None


def decorated(**options: Any) -> us.Tool[..., object]:
    return us.tool(**options)(look)


TOOL = {
    "name": "None word",
    "description": f"None {TEXT}",
    "timeout": f"None {SECONDS}",
    "retries": "7 0",
    "idempotent": "True",
    "reconcile": f"None {FUNCTION}",
    "transactional": "",
    "transaction_timeout": "",
    "approval": f"True {FUNCTION}",
    "isolation": "",
    "memory_limit": "None",
    "max_parallel": f"None {COUNT}",
    "on_error": "None",
    "max_result": f"None {COUNT}",
}
CLIENT = {
    "model": "word",
    "preset": "None",
    "api_key": f"None word {FUNCTION}",
    "base_url": "None",
    "timeout": f"None {SECONDS}",
    "model_timeout": f"None {SECONDS}",
    "attempts": COUNT,
    "extra_headers": f"None map {FUNCTION}",
    "transport": "None",
    "timing": "None",
    "max_reply_bytes": COUNT,
    "idle_timeout": f"None {SECONDS}",
    "max_in_flight": COUNT,
}
RUN = {
    "input": TEXT,
    "session": "None map",
    "conversation_id": "None blank word",
    "user_id": "None blank word",
    "timeout": f"None {SECONDS}",
    "system": "None",
    "history": "None list",
    "budget": "None",
}
EVERYTHING: dict[str, Options] = {
    "Agent": Options(
        us.Agent,
        {
            "id": "word",
            "model": "",
            "system_prompt": f"{TEXT} {FUNCTION}",
            "description": TEXT,
            "tools": "list map",
            "sub_agents": "list map",
            "settings": "None",
            "max_iterations": "7 0",
            "max_turns": COUNT,
            "max_parallel_calls": f"None {COUNT}",
            "model_timeout": f"None {SECONDS}",
            "restart_on": "list map",
            "on_tool_error": "",
            "callbacks": "list map",
            "criteria": "list map",
            "continue_message": "word",
            "max_continues": "7 0",
            "on_invalid_call": FUNCTION,
            "max_invalid_retries": "7 0",
            "compaction": "None",
            "budget": "None",
            "output_type": "None class",
            "output_mode": "",
            "max_output_retries": "7 0",
            "memory": "None",
        },
        {"id": "clerk", "model": ScriptedModel([])},
        {"model": "PROVIDER:MODEL"},
    ),
    "Tool": Options(us.Tool, {"function": FUNCTION, **TOOL}, {"function": look}, {"function": "a tool is made from"}),
    "tool": Options(decorated, TOOL),
    "SubAgent": Options(
        us.SubAgent,
        {
            "runner": "",
            "name": "None word",
            "description": f"None {TEXT}",
            "allow": "None list words map",
            "deny": "list words map",
            "timeout": f"None {SECONDS}",
        },
        {"runner": clerk()},
        {"runner": "a sub-agent is made from an agent"},
    ),
    "Settings": Options(
        us.Settings,
        {
            "temperature": "None 7 0 1.5",
            "max_tokens": f"None {COUNT}",
            "top_p": "None 0",
            "stop": "list words",
            "seed": "None 7 0 -1",
            "tool_choice": "blank word",
            "parallel_tool_calls": "None True",
            "thinking_tokens": "None 7 0",
            "reasoning": "None 7 0",
            "verbosity": "None",
            "service_tier": "None word",
            "cache": "None True",
            "strict_tools": "None True",
            "extra": "map",
        },
    ),
    "Budget": Options(
        us.Budget,
        {
            "total_tokens": f"None {COUNT}",
            "input_tokens": f"None {COUNT}",
            "output_tokens": f"None {COUNT}",
            "cost_usd": f"None {SECONDS}",
            "turns": f"None {COUNT}",
            "tool_calls": "None 7 0",
            "seconds": f"None {SECONDS}",
            "prices": "map",
        },
    ),
    "Price": Options(
        us.Price,
        {
            "input": "7 0 1.5",
            "output": "7 0 1.5",
            "cached_input": "None 7 0 1.5",
            "cache_write": "None 7 0 1.5",
            "cache_write_1h": "None 7 0 1.5",
        },
        {"input": 1, "output": 1},
    ),
    "InMemoryMemory": Options(us.InMemoryMemory, {"max_conversations": f"None {COUNT}"}),
    "WindowedMemory": Options(
        us.WindowedMemory,
        {
            "turns": f"None {COUNT}",
            "tokens": f"None {COUNT}",
            "memory": "None",
            "max_conversations": f"None {COUNT}",
        },
    ),
    "PersistentMemory": Options(
        us.PersistentMemory,
        {"store": "None", "turns": f"None {COUNT}", "tokens": f"None {COUNT}", "keep": f"None {SECONDS}"},
    ),
    "KeywordCriteria": Options(us.KeywordCriteria, {"keyword": "blank word"}),
    "MaxIterationsCriteria": Options(us.MaxIterationsCriteria, {"limit": COUNT}, called={"limit": "takes a"}),
    "StructuredOutputCriteria": Options(
        us.StructuredOutputCriteria, {"schema": "None map"}, called={"schema": "Schema"}
    ),
    "LoggingCallback": Options(us.LoggingCallback, {"contents": "True", "level": "7 0", "logger": "None"}),
    "InputGuardrail": Options(
        us.InputGuardrail,
        {"name": "blank word", "check": FUNCTION},
        {"name": "polite", "check": never},
        {"check": "guardrail 'polite'"},
    ),
    "OutputGuardrail": Options(
        us.OutputGuardrail,
        {"name": "blank word", "check": FUNCTION, "retry": "True", "hold": "None"},
        {"name": "polite", "check": never},
        {"check": "guardrail 'polite'"},
    ),
    "OverrideResponse": Options(us.OverrideResponse, {"text": TEXT}),
    "RetryWithFeedback": Options(us.RetryWithFeedback, {"feedback": "word"}, called={"feedback": "RetryWithFeedback"}),
    "RewriteArguments": Options(us.RewriteArguments, {"arguments": "map"}),
    "RewriteResult": Options(us.RewriteResult, {"content": TEXT}),
    "Skip": Options(us.Skip, {"result": TEXT}),
    "Block": Options(us.Block, {"reason": TEXT}),
    "RequireApproval": Options(us.RequireApproval, {"reason": TEXT}),
    "Abort": Options(us.Abort, {"message": TEXT}),
    "Approve": Options(us.Approve, {"arguments": "None map"}, left_out=("kind",)),
    "Reject": Options(us.Reject, {"reason": TEXT}, left_out=("kind",)),
    "SessionState": Options(us.SessionState, {"values": "None map"}, called={"values": "session"}),
    "Mailbox": Options(us.Mailbox, {"capacity": COUNT, "when_full": ""}),
    "OneForOne": Options(
        us.OneForOne, {"max_restarts": "7 0", "within": SECONDS, "backoff": "None", "decider": f"None {FUNCTION}"}
    ),
    "Child": Options(
        us.Child,
        {"actor": FUNCTION, "name": TEXT, "restart": "", "mailbox": "", "turn_timeout": f"None {SECONDS}"},
        {"actor": us.Actor},
    ),
    "Supervisor": Options(
        us.Supervisor,
        {"id": "blank word", "children": "", "strategy": "None"},
        {"id": "desk", "children": [us.Actor]},
    ),
    "ActorSystem": Options(
        us.ActorSystem,
        {
            "name": "word",
            "store": "None",
            "max_runs": f"None {COUNT}",
            "max_hops": COUNT,
            "require_user": "True",
            "journal": "True",
            "registry": "True",
            "lease": SECONDS,
            "store_patience": f"{SECONDS} 0",
            "recover": "None",
            "deps": "None",
            "runners": "list",
            "adopt": "",
            "migrate": "None",
        },
        {"name": "shop"},
    ),
    "configure": Options(
        us.configure, {"store": "", "max_hops": f"None {COUNT}", "require_user": "None True"}, {"store": "memory:"}
    ),
    "OpenAI": Options(us.OpenAI, CLIENT, {"model": "gpt-4o"}),
    "ScriptedModel": Options(
        us.ScriptedModel,
        {"turns": "list map", "context_window": f"None {COUNT}"},
        {"turns": []},
        called={"turns": "script"},
    ),
    "FunctionModel": Options(
        us.FunctionModel, {"function": FUNCTION, "context_window": f"None {COUNT}"}, {"function": never}
    ),
    "run": Options(clerk().run, RUN, {"input": "go"}, left_out=("deps",)),
    "submit": Options(clerk().submit, RUN, {"input": "go"}, left_out=("deps",)),
    "map": Options(
        clerk().map,
        {
            "inputs": "list words numbers",
            "max_parallel": COUNT,
            "budget": "None",
            "keep_errors": "True",
            "ordered": "True",
            "session": "None map",
            "user_id": "None blank word",
            "timeout": f"None {SECONDS}",
            "system": "None",
            "name": "None",
        },
        {"inputs": []},
        left_out=("deps",),
    ),
}


@pytest.mark.parametrize(
    ("what", "name"), [(what, name) for what, options in EVERYTHING.items() for name in options.fits]
)
def test_no_option_takes_what_it_cannot_be(what: str, name: str) -> None:
    options = EVERYTHING[what]
    fits = set(options.fits[name].split())
    assert fits < WRONG.keys()

    for key in WRONG.keys() - fits:
        with pytest.raises((TypeError, ValueError)) as caught:
            options.make(**{**options.given, name: WRONG[key]})

        assert options.called.get(name, name) in str(caught.value), key


@pytest.mark.parametrize("what", EVERYTHING)
def test_no_option_is_left_untried(what: str) -> None:
    options = EVERYTHING[what]
    made = us.tool if what == "tool" else options.make

    taken = inspect.signature(made).parameters.keys() - set(options.left_out) - {"self"}

    assert options.fits.keys() == taken - ({"function"} if what == "tool" else set())


@pytest.mark.parametrize("what", sorted(EVERYTHING.keys() - {"ActorSystem", "configure", "run", "submit"}))
def test_what_fits_is_not_refused(what: str) -> None:
    options = EVERYTHING[what]

    refused = [
        (name, key)
        for name, fits in options.fits.items()
        for key in fits.split()
        if refuses(options.make, **{**options.given, name: WRONG[key]})
    ]

    assert refused == []


def refuses(make: Callable[..., object], **options: object) -> bool:
    """Whether the options are refused as a mistake of the caller."""
    try:
        make(**options)
    except (TypeError, ValueError):
        return True
    return False


@pytest.mark.parametrize("path", [None, True, 7, 1.5, "", b"x", [], {}, Thing(), Thing], ids=repr)
@pytest.mark.parametrize("kind", [us.Recorder, us.Replay])
def test_no_tape_is_made_where_there_is_no_path(kind: Callable[[object], object], path: object) -> None:
    with pytest.raises((TypeError, ValueError), match="path"):
        kind(path)


@pytest.mark.parametrize("given", [True, 7, 0, 1.5, [7], [""], "", b"x", [None], Thing()], ids=repr)
def test_no_recorder_hides_what_is_no_rule(given: Any, tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError), match="redact"):
        us.Recorder(tmp_path / "tape.jsonl", redact=given)


@pytest.mark.parametrize("given", [None, 7, 0, "no", [], Thing()], ids=repr)
def test_a_replay_is_not_strict_by_a_slip(given: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Replay: strict must be True or False"):
        us.Replay(tmp_path / "tape.jsonl", strict=given)


RESUME: dict[str, str] = {
    "timeout": f"None {SECONDS}",
    "system": "None",
    "max_iterations": "None 7 0",
    "max_turns": f"None {COUNT}",
    "max_continues": "None 7 0",
    "max_output_retries": "None 7 0",
    "adopt": "True",
    "budget": "None",
    "session": "None map",
}


@pytest.mark.parametrize("how", ["resume", "submit_resume"])
def test_a_bad_option_does_not_use_up_a_token(how: str) -> None:
    agent = us.Agent("clerk", model=ScriptedModel([says("__ask_user__: Who?"), says("Hello, Ada.")]))
    paused = agent.run("go")
    assert isinstance(paused, us.NeedsInput)
    resume: Callable[..., object] = getattr(agent, how)
    assert inspect.signature(resume).parameters.keys() - {"deps", "token", "answer"} == RESUME.keys()

    for name, fits in RESUME.items():
        for key in WRONG.keys() - set(fits.split()):
            with pytest.raises((TypeError, ValueError), match=name):
                resume(paused.token, "Ada", **{name: WRONG[key]})
    for key in WRONG.keys() - set(TEXT.split()):
        with pytest.raises(TypeError, match="token"):
            resume(WRONG[key], "Ada")

    assert agent.resume(paused.token, "Ada").text == "Hello, Ada."
