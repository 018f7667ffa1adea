"""Secrets that were planted everywhere: none comes out in a log, an error, a repr, a recording, a store or on standard error.

Keys come out nowhere at all. What users say and tools are called with stays out of logs, of reprs of what runs, and of errors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support.canaries import KEYS, SAID, Seen, Vault
from tests.support.scripts import WAIT
from understudy.cli import main


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.delenv("UNDERSTUDY_OFFLINE", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEYS["environment"])
    monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")


def tools_of(seen: Seen) -> list[us.ToolLike]:
    @us.tool
    def look(word: str, ctx: us.ToolContext[Vault]) -> str:
        """Look."""
        ctx.session["seen"] = f"{SAID['session']} {word}"
        seen.show(ctx, ctx.session, ctx.scope)
        return f"{SAID['result']} of {word}"

    @us.tool
    def fail(word: str) -> str:
        """Fail."""
        raise ValueError(f"{SAID['failure']} {word}")

    @us.tool(approval=True)
    def refund(word: str) -> str:
        """Refund."""
        return f"{SAID['result']} of {word}"

    return [look, fail, refund]


def clerk(seen: Seen, model: us.Model, **options: Any) -> us.Agent:
    return us.Agent(
        "clerk",
        model=model,
        system_prompt=f"You know {SAID['system']}.",
        tools=tools_of(seen),
        callbacks=[us.LoggingCallback(level=logging.DEBUG)],
        settings=us.Settings(extra={"metadata": {"authorization": KEYS["extra"]}}),
        **options,
    )


def openai(address: str, key: Any, **options: Any) -> us.OpenAI:
    return us.OpenAI("gpt-4o", api_key=key, base_url=f"{address}/v1", attempts=1, timeout=WAIT, **options)


def run_everything(seen: Seen, agent: us.Agent, system: us.ActorSystem) -> None:
    """Have runs end in every way, and look at what goes on meanwhile."""

    def run(word: str, **options: Any) -> us.Outcome:
        session = us.SessionState({"who": SAID["session"]})
        return agent.run(
            f"{word} {SAID['input']}", session=session, deps=Vault(), system=system, user_id=SAID["user"], **options
        )

    assert run("look").text == SAID["reply"]
    assert run("fail").text == SAID["reply"]
    paused = run("refund")
    assert isinstance(paused, us.NeedsApproval)
    seen.show(system, system.health(), system.tree(), system.ref("clerk"))
    assert agent.resume(paused.token, us.Approve(), deps=Vault(), system=system).text == SAID["reply"]
    with seen.expecting(us.AuthenticationError):
        run("status 401")
    with seen.expecting(us.RateLimited):
        run("status 429")
    for word in ("status 500", "status 400", "broken", "shapeless", "cut"):
        with seen.expecting(us.ProviderError):
            run(word)
    with seen.expecting(us.BudgetExceeded):
        run("look", budget=us.Budget(turns=1))
    with seen.expecting(us.MaxIterationsExceeded):
        agent.replace(id="other", max_iterations=0).run(SAID["input"], system=system, deps=Vault())
    with seen.expecting(us.RunTimedOut):
        run("hang", timeout=0.2)
    with seen.expecting(us.CallbackAbort):
        guard = us.InputGuardrail("polite", lambda ctx, text: "not today")
        agent.replace(id="guarded", callbacks=[us.LoggingCallback(), guard]).run(SAID["input"], system=system)
    hung = agent.submit(f"hang {SAID['input']}", session={"who": SAID["session"]}, deps=Vault(), system=system)
    seen.show(hung, hung.status(), system, system.health(), system.tree(), system.ref("clerk"))
    hung.cancel()
    with seen.expecting(us.RunCancelled):
        hung.result(WAIT)
    with seen.expecting(us.UnknownToken, us.TokenUsed):
        agent.resume(paused.token, us.Approve(), deps=Vault(), system=system)


@pytest.mark.parametrize("kind", ["string", "wrapped", "function"])
def test_no_canary_comes_out_of_runs_that_end_in_every_way(
    kind: str, address: str, seen: Seen, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    key: Any = {"string": KEYS[kind], "wrapped": us.Secret(KEYS[kind]), "function": lambda: KEYS[kind]}[kind]
    client = openai(address, key)
    recorder = us.Recorder(tmp_path / "tape.jsonl")
    system = us.ActorSystem("shop", store=f"sqlite:///{tmp_path / 'shop.db'}")
    told: list[us.SystemEvent] = []
    agent = clerk(seen, recorder.record(client))
    seen.show(
        key if kind == "wrapped" else client,
        client,
        recorder,
        agent,
        agent.settings,
        agent.tools[0],
        agent.run_spec.settings,
    )
    with recorder, system, system.subscribe(told.append):
        system.spawn(agent)
        run_everything(seen, agent, system)
    seen.show(system.health(), *told)

    stored = "".join([file.read_bytes().decode("latin-1") for file in tmp_path.glob("shop.db*") if file.is_file()])
    taped = (tmp_path / "tape.jsonl").read_text()
    out, err = capfd.readouterr()
    assert any("run_finished" in line for line in seen.logged)
    assert SAID["argument"] in taped
    assert seen.leaks_of(KEYS, seen.logged, seen.shown, seen.raised, [stored, taped, out, err]) == set()
    assert seen.leaks_of(SAID, seen.logged, seen.shown, seen.raised, [out, err]) == set()
    assert SAID["deps"] not in stored + taped
    if kind != "function":
        with seen.expecting(us.ProviderError):
            us.Replay(tmp_path / "tape.jsonl").complete(us.ModelRequest([us.Message("user", (us.TextPart("?"),))]))
        assert seen.leaks_of(KEYS, seen.raised) == set()


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "vertex"])
def test_no_key_of_any_provider_comes_out_where_the_server_quotes_it(provider: str, address: str, seen: Seen) -> None:
    key = KEYS[provider]
    options: dict[str, Any] = {"base_url": address, "attempts": 1, "timeout": WAIT}
    makers: dict[str, Callable[[], us.Model]] = {
        "anthropic": lambda: us.Anthropic("claude", api_key=key, **options),
        "gemini": lambda: us.Gemini("gemini-2.5-flash", api_key=key, **options),
        "vertex": lambda: us.Vertex("gemini-2.5-flash", access_token=key, project="p", **options),
    }
    client = makers[provider]()
    agent = us.Agent("clerk", model=client, callbacks=[us.LoggingCallback(level=logging.DEBUG)])

    for word in ("status 401", "status 429", "status 500", "status 400", "broken", "shapeless", "cut"):
        with seen.expecting(us.ProviderError):
            agent.run(word)
    seen.show(client, agent)

    assert len(seen.raised) > 20
    assert seen.leaks_of(KEYS, seen.logged, seen.shown, seen.raised) == set()


def test_no_key_comes_out_of_the_command_line(
    seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.yaml").write_text("agents:\n  - {id: clerk, model: 'openai:gpt-4o'}\n")
    monkeypatch.chdir(tmp_path)

    assert main(["run", "shop.yaml", "clerk", "hello", "--json", "--record", "tape.jsonl"]) == 0
    for word in ("status 401", "broken", "shapeless"):
        assert main(["run", "shop.yaml", "clerk", word, "--json"]) != 0
        assert main(["run", "shop.yaml", "clerk", word]) != 0
    out, err = capfd.readouterr()

    assert SAID["reply"] in out
    assert "refused" in out + err
    assert seen.leaks_of(KEYS, seen.logged, [out, err, (tmp_path / "tape.jsonl").read_text()]) == set()
