"""Secrets in what tools are called with, in worker processes, groups and stores: none comes out of what runs.

What a `ToolError` says is what the model would have read, so it may quote a call; nothing else does.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support import canary_tools
from tests.support.canaries import KEYS, SAID, Seen, Vault, watching
from tests.support.scripts import WAIT, eventually
from understudy.testing import FunctionModel, says

WORD = SAID["argument"]
ALL = {**SAID, **KEYS}


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_OFFLINE", raising=False)


@pytest.fixture
def seen() -> Generator[Seen]:
    with watching() as found, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield found
    assert found.leaks_of(ALL, [str(each.message) for each in warned]) == set()


def calling(name: str, **broken: Any) -> us.Model:
    """Return a model that calls a tool with a secret, and then answers with one."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.messages[-1].tool_results:
            return says(SAID["reply"])
        return us.ModelTurn((us.ToolCall("call_1", name, {} if broken else {"word": WORD}, **broken),))

    return FunctionModel(answer)


def clerk(id: str, model: us.Model, *tools: us.ToolLike, **options: Any) -> us.Agent:
    return us.Agent(
        id,
        model=model,
        system_prompt=SAID["system"],
        tools=tools or canary_tools.ALL,
        callbacks=[us.LoggingCallback(level=logging.DEBUG)],
        **options,
    )


def show_all(seen: Seen, system: us.ActorSystem, *things: object) -> None:
    """Note what a system tells of itself, and what the threads are called."""
    seen.show(system, system.health(), system.tree(), system.dead_letters(), *threading.enumerate(), *things)


def told_of_processes() -> list[str]:
    """Return the command lines and environments of this process's children, as `ps` shows them."""
    told: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                told += [(process / what).read_bytes().decode("latin-1") for what in ("cmdline", "environ")]
        except OSError:  # it has ended meanwhile
            continue
    return told


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are not files here")
@pytest.mark.parametrize("tool", canary_tools.ALL, ids=lambda tool: tool.name)
def test_what_a_process_is_called_with_comes_out_of_no_log_repr_event_or_list_of_processes(
    tool: us.Tool[..., object], address: str, seen: Seen, capfd: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    with us.ActorSystem("shop") as system, system.subscribe(seen.show):
        agent = clerk("clerk", calling(tool.name), tool)
        handle = agent.submit(SAID["input"], session={"s": SAID["session"]}, deps=Vault(), system=system)
        if tool.name == "hangs":
            eventually(lambda: "worker_main" in "".join(told_of_processes()), "the worker has begun")
            shown += told_of_processes()
        show_all(seen, system, handle, handle.status())
        assert handle.result(WAIT).text == SAID["reply"]
        shown += told_of_processes()
        show_all(seen, system, handle, handle.status())
    out, err = capfd.readouterr()

    assert any("tool_call_finished" in line for line in seen.logged)
    assert seen.leaks_of(ALL, seen.logged, seen.shown, shown, [out, err]) == set()


@pytest.mark.parametrize("name", ["quotes", "counts", "dies", "segfaults", "notes_an_object"])
def test_a_process_that_ends_its_run_is_logged_without_what_it_was_called_with(name: str, seen: Seen) -> None:
    with us.ActorSystem("shop") as system, system.subscribe(seen.show):
        with pytest.raises(us.ToolError) as caught:
            clerk("clerk", calling(name), on_tool_error="raise").run(SAID["input"], system=system)
        show_all(seen, system)
    if name in ("dies", "segfaults", "notes_an_object"):  # their words are ours, and not the tool's
        seen.add(caught.value)

    assert any("run_failed" in line for line in seen.logged)
    assert seen.leaks_of(ALL, seen.logged, seen.shown, seen.raised) == set()


@pytest.mark.parametrize("rule", ["result", "fail", "retry"])
@pytest.mark.parametrize(
    "model",
    [
        lambda: calling(WORD),
        lambda: calling("keep", bad_arguments=f'{{"word": "{WORD}'),
        lambda: calling("counts"),
    ],
    ids=["unknown tool", "no JSON", "wrong type"],
)
def test_a_call_that_cannot_be_made_is_not_quoted_in_a_log(
    model: Callable[[], us.Model], rule: Any, seen: Seen
) -> None:
    with us.ActorSystem("shop") as system, system.subscribe(seen.show):
        agent = clerk("clerk", model(), on_invalid_call=rule, max_invalid_retries=0)
        handle = agent.submit(SAID["input"], system=system)
        error = handle.exception(WAIT)
        assert error is None or isinstance(error, us.ToolError)
        show_all(seen, system, handle, handle.status())

    assert any("run_f" in line for line in seen.logged)
    assert seen.leaks_of(ALL, seen.logged, seen.shown) == set()


def test_what_a_caller_s_own_tool_is_called_with_comes_out_nowhere(seen: Seen) -> None:
    @us.tool(isolation="caller")
    def book(word: str) -> str:
        show_all(seen, system)
        if not booked:
            booked.append(word)
            raise ValueError(f"{SAID['failure']} {word}")
        return f"{SAID['result']} {word}"

    booked: list[str] = []
    with us.ActorSystem("shop") as system, system.subscribe(seen.show):
        for _ in range(2):
            assert clerk("clerk", calling("book"), book).run(SAID["input"], system=system).text == SAID["reply"]

    assert len(booked) == 1
    assert seen.leaks_of(ALL, seen.logged, seen.shown) == set()


class Watcher(us.AgentCallback):
    """Shows the context of each moment."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> us.CallbackAction:
        self._seen.show(ctx)
        return us.Continue()

    def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> us.CallbackAction:
        self._seen.show(ctx)
        return us.Continue()

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> us.CallbackAction:
        self._seen.show(ctx)
        return us.Continue()


def test_no_context_or_definition_shows_what_goes_through_it(seen: Seen) -> None:
    def look(word: str, ctx: us.ToolContext) -> str:
        ctx.session["looked"] = word
        seen.show(ctx, ctx.session, ctx.artifacts, ctx.scope)
        return f"{SAID['result']} {word}"

    def prompt(ctx: us.RunContext) -> str:
        seen.show(ctx)
        return SAID["system"]

    memory = us.InMemoryMemory()
    agent = us.Agent(
        "clerk",
        model=calling("look"),
        system_prompt=prompt,
        tools=[look],
        callbacks=[Watcher(seen)],
        memory=memory,
    )
    agent.run(
        SAID["input"],
        session={"s": SAID["session"]},
        deps=Vault(),
        user_id=SAID["user"],
        conversation_id=SAID["answer"],
    )
    task = us.Task("task", agent, prompt=SAID["system"])
    machine = us.AgentRun(agent.run_spec, SAID["input"], system=SAID["system"])
    seen.show(agent, memory, task, us.SubAgent(agent), us.Workflow("graph", [task]), machine)

    assert len(seen.shown) > 20
    assert seen.leaks_of(ALL, seen.shown) == set()


# --- groups


def look(word: str) -> str:
    return f"{SAID['result']} {word}"


def fail(word: str) -> str:
    raise ValueError(f"{SAID['failure']} {word}")


@us.tool(approval=True)
def refund(word: str) -> str:
    """Refund."""
    return f"{SAID['result']} {word}"


def groups_of(address: str) -> list[us.Runner[object]]:
    """Return groups of agents that look, fail at a tool, and are refused by the server."""

    def looks(id: str) -> us.Agent:
        return clerk(id, calling("look"), look)

    def fails(id: str) -> us.Agent:
        return clerk(id, calling("fail"), fail)

    def refused(id: str) -> us.Agent:
        model = us.OpenAI("gpt-4o", api_key=KEYS["string"], base_url=f"{address}/v1", attempts=1, timeout=WAIT)
        return us.Agent(
            id, model=model, system_prompt="status 401", callbacks=[us.LoggingCallback(level=logging.DEBUG)]
        )

    lead = us.Agent("lead", model=FunctionModel(_delegate), sub_agents=[refused("under")], on_tool_error="raise")
    tasks = [
        us.Task("a", looks("first"), prompt="${customer} ${input}"),
        us.Task("b", refused("second"), prompt="${a}", dependencies=["a"]),
        us.Task("c", looks("third"), prompt="${b}", dependencies=["b"]),
    ]
    return [
        us.SequentialAgent("line", [looks("one"), fails("two"), refused("three")]),
        us.ParallelAgent("crowd", [looks("one"), fails("two"), refused("three")]),
        us.ParallelAgent("losers", [refused("one"), refused("two")], merge="first"),
        us.Workflow("graph", tasks),
        lead,
    ]


def _delegate(request: us.ModelRequest) -> us.ModelTurn:
    return us.ModelTurn((us.ToolCall("call_1", "under", {"input": WORD}),))


@pytest.mark.parametrize("position", range(5), ids=["sequence", "parallel", "first", "workflow", "sub-agent"])
def test_nothing_comes_out_of_groups_that_fail(position: int, address: str, seen: Seen) -> None:
    group = groups_of(address)[position]
    options: dict[str, Any] = {"parameters": {"customer": SAID["user"]}} if position == 3 else {}
    with us.ActorSystem("shop") as system, system.subscribe(seen.show):
        handle = group.submit(SAID["input"], session={"s": SAID["session"]}, deps=Vault(), system=system, **options)
        error = handle.exception(WAIT)
        if error is None:
            assert isinstance(handle.result(WAIT), us.Incomplete)  # a workflow of which a task failed
        else:
            seen.add(error)
        show_all(seen, system, group, handle, handle.status())

    assert any("run_failed" in line for line in seen.logged)
    assert seen.leaks_of(ALL, seen.logged, seen.shown, seen.raised) == set()


# --- stores


def _halve(text: str) -> str:
    return text[: len(text) // 2]


def _rename(text: str) -> str:
    return text.replace("messages", "massages")


def _change(text: str) -> str:
    return text.replace("assistant", WORD)


def test_a_store_that_fails_or_holds_rubbish_does_not_tell_what_it_holds(seen: Seen, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with us.ActorSystem("shop", store=f"sqlite:///{path}") as system:
        agent = clerk("clerk", calling("refund"), refund)
        group = us.SequentialAgent("line", [clerk("step", calling("refund"), refund)])
        for runner in (agent, group):
            for spoil in (_halve, _rename, _change):
                paused = runner.run(SAID["input"], session={"s": SAID["session"]}, system=system)
                assert isinstance(paused, us.NeedsApproval)
                with sqlite3.connect(path) as database:
                    (held,) = database.execute(
                        "SELECT payload FROM understudy_pauses WHERE state = 'waiting'"
                    ).fetchone()
                    assert WORD in held
                    database.execute("UPDATE understudy_pauses SET payload = ? WHERE state = 'waiting'", (spoil(held),))
                database.close()
                with us.ActorSystem("other", store=f"sqlite:///{path}") as other:
                    with seen.expecting(us.UnderstudyError, ValueError):
                        runner.resume(paused.token, us.Approve(), system=other)
                    show_all(seen, other)
                with sqlite3.connect(path) as database:
                    database.execute("DELETE FROM understudy_pauses")
                database.close()
        show_all(seen, system)

    assert seen.leaks_of(ALL, seen.logged, seen.shown, seen.raised) == set()
