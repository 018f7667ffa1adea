"""Runs that pause into a store, and go on from it in any system that has the store."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, cast

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT, eventually, finished, needs_approval, needs_input, results_of
from tests.support.stores import DictStore
from tests.support.together import all_at_once
from tests.support.tools import refund
from understudy import PausedRun
from understudy.actors.pauses import error_tokens
from understudy.actors.pauses.stored_pauses import KEPT_LIMITS
from understudy.actors.system.actor_system import runs_of
from understudy.orchestration.definitions.port import ResumeOptions
from understudy.testing import FunctionModel, ScriptedModel, calls, says


def look(order: str) -> str:
    return f"order {order}"


def note(ctx: us.ToolContext, word: str) -> str:
    ctx.session["word"] = word
    return str(ctx.deps)


TOOLS: tuple[us.ToolLike, ...] = (refund, look, note)


def clerk(*turns: us.ModelTurn | Exception, max_iterations: int = 10, prompt: str = "Be brief.") -> us.Agent:
    """Make an agent as a process does: of the same definition, and with what its model says from now on."""
    model = ScriptedModel(turns)
    return us.Agent("clerk", model=model, system_prompt=prompt, tools=TOOLS, max_iterations=max_iterations)


ASKS = calls("refund", order="7", cents=1200)


@pytest.fixture
def store() -> DictStore:
    return DictStore()


@pytest.fixture
def system(store: DictStore) -> Generator[us.ActorSystem]:
    with us.ActorSystem("first", store=store) as made:
        yield made


@pytest.fixture
def other(store: DictStore) -> Generator[us.ActorSystem]:
    """A system as another process may have it, with the same store."""
    with us.ActorSystem("second", store=store) as made:
        yield made


# --- from one system to another


def test_a_run_goes_on_in_another_system_with_the_agent_that_is_there(
    system: us.ActorSystem, other: us.ActorSystem
) -> None:
    waiting = needs_approval(clerk(calls("look", order="7"), ASKS).run("Refund order 7", system=system))

    outcome = finished(clerk(says("Done.")).resume(waiting.token, us.Approve(), system=other))

    assert (outcome.text, outcome.run_id, outcome.iterations) == ("Done.", waiting.run_id, 2)
    assert [result.content for result in results_of(outcome)] == ["order 7", "paid 1200 for 7"]


def test_a_database_is_a_store(url: str) -> None:
    with us.ActorSystem("first", store=url) as first:
        waiting = needs_approval(clerk(ASKS).run("Refund", system=first))

    with us.ActorSystem("second", store=url) as second:
        outcome = clerk(says("Done.")).resume(waiting.token, us.Approve(), system=second)

    assert finished(outcome).text == "Done."


def test_each_pause_of_a_run_has_a_token_and_only_the_last_one_works(
    system: us.ActorSystem, other: us.ActorSystem
) -> None:
    first = needs_input(clerk(says("__ask_user__: Which?")).run("Refund", system=system))
    second = needs_input(clerk(says("__ask_user__: Sure?")).resume(first.token, "7", system=other))

    with pytest.raises(us.TokenUsed):
        clerk().resume(first.token, "8", system=system)
    assert clerk(says("Done.")).resume(second.token, "yes", system=system).text == "Done."
    for token in (first.token, second.token):
        with pytest.raises(us.TokenUsed):
            clerk().resume(token, "8", system=other)


def test_a_hundred_runs_wait_at_once_and_each_goes_on_once(system: us.ActorSystem, other: us.ActorSystem) -> None:
    waiting = [
        needs_approval(clerk(calls("refund", order=str(n), cents=n)).run("Refund", system=system)) for n in range(100)
    ]

    outcomes = [clerk(says("ok")).resume(one.token, us.Approve(), system=other) for one in reversed(waiting)]

    assert [results_of(one)[0].content for one in reversed(outcomes)] == [f"paid {n} for {n}" for n in range(100)]


def test_of_two_who_bring_one_token_one_goes_on(
    store: DictStore, system: us.ActorSystem, other: us.ActorSystem
) -> None:
    token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
    both_have_read, ended = threading.Barrier(2), list[object]()
    store.on_call = lambda method: both_have_read.wait(WAIT) if method == "take" else None

    def resume(where: us.ActorSystem) -> None:
        try:
            ended.append(clerk(says("Done.")).resume(token, us.Approve(), system=where).text)
        except us.TokenUsed as error:
            ended.append(type(error))

    all_at_once(resume, [system, other])

    assert sorted(ended, key=str) == [us.TokenUsed, "Done."]


# --- what is carried over


def test_session_user_and_conversation_are_carried_over_and_deps_are_given_again(
    system: us.ActorSystem, other: us.ActorSystem
) -> None:
    session = us.SessionState({"customer": "ada"})
    turns = (calls("note", word="a"), says("__ask_user__: Go on?"))
    waiting = needs_input(clerk(*turns).run("Note", session=session, user_id="u-1", deps="first", system=system))
    assert dict(session) == {"customer": "ada", "word": "a"}

    outcome = clerk(calls("note", word="b"), says("ok")).resume(waiting.token, "yes", deps="second", system=other)

    assert [result.content for result in results_of(outcome)] == ["first", "second"]
    assert outcome.session == {"customer": "ada", "word": "b"}
    assert dict(session) == {"customer": "ada", "word": "a"}  # whoever goes on may have no such object


def test_status_and_events_of_a_run_that_paused_into_a_store(system: us.ActorSystem) -> None:
    handle = clerk(ASKS).submit("Refund", system=system)

    token = needs_approval(handle.result(WAIT)).token

    last = list(handle.events())[-1]
    assert isinstance(last, us.RunFinished)
    assert isinstance(last.outcome, us.NeedsApproval)
    assert last.outcome.token == token
    assert (handle.status().phase, handle.status().iterations) == ("needs_approval", 1)


@pytest.mark.parametrize("order", ["path-\udc80", "caf\u00e9 \ud83d", "nul \0"])
def test_a_tool_gets_the_arguments_that_a_person_approved_and_the_session_as_it_was(order: str, url: str) -> None:
    got = list[object]()

    def pay(order: object) -> None:
        """Pay money back."""
        got.append(order)

    agent = us.Agent(
        "clerk",
        model=ScriptedModel([calls("pay", order=order), says("Done.")]),
        tools=[us.Tool(pay, approval=True)],
    )
    with us.ActorSystem("first", store=url) as system:
        waiting = needs_approval(agent.run("Refund", session={"path": order}, system=system))
        outcome = agent.resume(waiting.token, us.Approve(), system=system)

    assert waiting.calls[0].arguments == {"order": order}
    assert got == [order]
    assert outcome.session["path"] == order


def test_arguments_that_would_come_back_changed_are_not_kept(store: DictStore) -> None:
    agent = clerk(calls("refund", order="\ud83d\ude00", cents=1))
    with (
        us.ActorSystem("first", store=store) as system,
        pytest.raises(us.StoreError, match="two halves of a surrogate"),
    ):
        agent.run("Refund", system=system)


# --- what is refused, and leaves the token as it is


def test_what_does_not_fit_leaves_the_token(system: us.ActorSystem, other: us.ActorSystem) -> None:
    token = needs_approval(clerk(ASKS).run("Refund", system=system)).token

    with pytest.raises(us.AnswerRefused, match=r"pass Approve\(\)"):
        clerk().resume(token, "yes", system=other)
    with pytest.raises(us.ProtocolViolation, match="nobody"):
        clerk().resume(token, {"nobody": us.Approve()}, system=other)
    with pytest.raises(ValueError, match="can only be raised"):
        clerk().resume(token, us.Approve(), max_iterations=1, system=other)

    with pytest.raises(ValueError, match="belongs to 'clerk', not to 'auditor'"):
        clerk().replace(id="auditor").resume(token, us.Approve(), system=other)

    assert other.spawn(clerk(says("Done."))).resume(token, us.Approve()).text == "Done."


def test_another_definition_is_refused_unless_it_is_to_be_adopted(
    system: us.ActorSystem, other: us.ActorSystem
) -> None:
    token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
    changed = clerk(says("Done."), prompt="Be kind.")

    with pytest.raises(us.SpecChanged, match="adopt=True"):
        changed.resume(token, us.Approve(), system=other)

    assert changed.resume(token, us.Approve(), system=other, adopt=True).text == "Done."


@pytest.mark.parametrize("change", ["nonce", "revision", "run", "form", "surrogate"])
def test_a_token_that_is_not_quite_right_is_unknown(change: str, system: us.ActorSystem) -> None:
    token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
    run_id, revision, nonce = token.rsplit(".", 2)
    wrong = {
        "nonce": f"{run_id}.{revision}.{nonce[::-1]}x",
        "revision": f"{run_id}.2.{nonce}",
        "run": f"{run_id}0.{revision}.{nonce}",
        "form": f"{run_id}.{'9' * 5000}.{nonce}",
        "surrogate": f"\ud800{token}",
    }[change]

    with pytest.raises(us.UnknownToken, match="no paused run with this token in DictStore"):
        clerk().resume(wrong, us.Approve(), system=system)
    assert clerk(says("Done.")).resume(token, us.Approve(), system=system).text == "Done."


def test_a_system_without_a_store_says_that_one_makes_tokens_last(system: us.ActorSystem) -> None:
    token = needs_approval(clerk(ASKS).run("Refund", system=system)).token

    with us.ActorSystem("memory") as memory, pytest.raises(us.UnknownToken, match="without a store"):
        clerk().resume(token, us.Approve(), system=memory)


# --- stores that say something else than they should


class OddStore(DictStore):
    """Answers as it is told to, by the method's name, without doing what was asked."""

    def __init__(self, **says: object) -> None:
        super().__init__()
        self.says = says

    def put(self, paused: PausedRun, *, keep: float | None) -> bool:
        return cast(bool, self.says["put"]) if "put" in self.says else super().put(paused, keep=keep)

    def get(self, run_id: str) -> PausedRun | None:
        return cast("PausedRun | None", self.says["get"]) if "get" in self.says else super().get(run_id)

    def take(self, run_id: str, revision: int) -> bool:
        return cast(bool, self.says["take"]) if "take" in self.says else super().take(run_id, revision)


class Disguised:
    """Fails whoever asks for its class, as a proxy whose object is gone does."""

    @property
    def __class__(self) -> type:  # not its type: that is the mistake
        raise RuntimeError("gone")

    @__class__.setter
    def __class__(self, _: object) -> None: ...


NOT_YES_OR_NO: tuple[object, ...] = (None, 1, 0, -1, "no", "", [True], object(), bool)


@pytest.mark.parametrize("answer", NOT_YES_OR_NO, ids=lambda answer: type(answer).__name__)
def test_a_store_that_does_not_say_whether_it_took_or_kept_a_run_runs_nothing_and_the_token_stands(
    answer: object,
) -> None:
    store = OddStore(take=answer)
    with us.ActorSystem("odd", store=store) as system:
        token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
        for _ in range(2):
            with pytest.raises(us.StoreError, match=r"take\(\) must return True or False, got"):
                clerk(says("Done.")).submit_resume(token, us.Approve(), system=system)
        store.says.clear()
        assert clerk(says("Done.")).resume(token, us.Approve(), system=system).text == "Done."
        store.says["put"] = answer
        with pytest.raises(
            us.StoreError, match=r"cannot be kept in DictStore: .*put\(\) must return True or False, got"
        ):
            clerk(ASKS).run("Refund", system=system)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (7, "must return a PausedRun or None, got a value of type int"),
        ({}, "must return a PausedRun or None, got a value of type dict"),
        (PausedRun, "got the class PausedRun"),
        (
            PausedRun(run_id="r", revision=cast(int, "1"), nonce="n", payload="{}"),
            "whose revision is a value of type str",
        ),
        (
            PausedRun(run_id="r", revision=1, nonce=cast(str, b"n"), payload="{}"),
            "whose nonce is a value of type bytes",
        ),
        (PausedRun(run_id="r", revision=1, nonce="n", payload=cast(str, None)), "whose payload is None"),
    ],
)
def test_a_store_that_returns_no_entry_is_a_store_error(found: object, fault: str) -> None:
    store = OddStore()
    with us.ActorSystem("odd", store=store) as system:
        token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
        store.says["get"] = found
        with pytest.raises(us.StoreError, match=fault):
            clerk().resume(token, us.Approve(), system=system)
        store.says.clear()

        assert clerk(says("Done.")).resume(token, us.Approve(), system=system).text == "Done."


@pytest.mark.parametrize("method", ["take", "get"])
def test_what_a_store_returns_may_fail_to_say_what_it_is(method: str) -> None:
    store = OddStore()
    with us.ActorSystem("odd", store=store) as system:
        token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
        store.says[method] = Disguised()
        with pytest.raises(us.StoreError, match=rf"{method}\(\) must return .* got a value of type Disguised"):
            clerk().resume(token, us.Approve(), system=system)


class UnnamedStore(DictStore):
    def __repr__(self) -> str:
        raise SystemExit("no name")


def test_a_store_without_a_repr_keeps_runs_and_is_named_by_its_type_in_errors() -> None:
    store = UnnamedStore()
    with us.ActorSystem("odd", store=store) as system:
        token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
        with pytest.raises(us.UnknownToken, match="in a UnnamedStore"):
            clerk().resume(f"{token}x", us.Approve(), system=system)
        assert clerk(says("Done.")).resume(token, us.Approve(), system=system).text == "Done."

        store.on_call = lambda _: 1 / 0
        with pytest.raises(us.StoreError, match="cannot be kept in a UnnamedStore: ZeroDivisionError"):
            clerk(ASKS).run("Refund", system=system)


# --- limits


def test_a_limit_has_a_token_that_works_elsewhere(
    store: DictStore, system: us.ActorSystem, other: us.ActorSystem
) -> None:
    with pytest.raises(us.MaxIterationsExceeded) as caught:
        clerk(*[calls("look", order="7")] * 2, max_iterations=1).run("Look", system=system)

    assert store.keeps[caught.value.run_id] == KEPT_LIMITS
    with pytest.raises(us.MaxIterationsExceeded) as again:
        clerk().resume(caught.value.token, system=other)
    outcome = finished(clerk(says("Seen.")).resume(again.value.token, max_iterations=2, system=other))
    assert (outcome.text, outcome.iterations) == ("Seen.", 2)


def test_a_run_that_waits_for_a_person_is_never_forgotten(store: DictStore, system: us.ActorSystem) -> None:
    waiting = needs_approval(clerk(ASKS).run("Refund", system=system))

    assert store.keeps == {waiting.run_id: None}


# --- what the store is left with


def test_a_run_that_is_over_leaves_no_text_behind(store: DictStore, system: us.ActorSystem) -> None:
    token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
    clerk(says("Done.")).resume(token, us.Approve(), system=system)
    failing = needs_input(clerk(says("__ask_user__: Which?")).run("Refund", system=system)).token
    with pytest.raises(us.BadReply):
        clerk(us.BadReply("half a turn")).resume(failing, "7", system=system)

    assert [(run.state, run.payload) for run in store.runs.values()] == [("over", "")] * 2


def test_a_run_under_way_has_its_text_in_the_store_and_waits_there_when_its_system_stops(
    store: DictStore, system: us.ActorSystem
) -> None:
    gate = Gate()
    waiting = needs_approval(clerk(ASKS).run("Refund", system=system))
    slow = clerk()
    with slow.override(model=FunctionModel(gate.then(says("late")))):
        handle = slow.submit_resume(waiting.token, us.Approve(), system=system)
        assert gate.entered.wait(WAIT)
        under_way = store.runs[waiting.run_id]
        system.stop(0.0)
        gate.open()

    assert (under_way.state, under_way.payload != "") == ("taken", True)
    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)
    assert (store.runs[waiting.run_id].state, store.runs[waiting.run_id].revision) == ("waiting", 2)
    assert error.token.startswith(f"{waiting.run_id}.2.")


def test_a_run_that_ends_while_it_is_stored_leaves_no_run_that_waits(
    store: DictStore, system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_tokens, "PATIENCE", 0.05)
    gate = Gate()
    store.on_call = lambda method: gate() if method == "put" else None
    handle = clerk(ASKS).submit("Refund", system=system)
    assert gate.entered.wait(WAIT)
    assert handle.status().doing == "keeping what it needs to go on"
    handle.cancel()  # waits for the store no longer than its patience
    gate.open()

    with pytest.raises(us.RunCancelled):
        handle.result(WAIT)
    eventually(lambda: [run.state for run in store.runs.values()] == ["over"], "the entry is closed")


@pytest.mark.parametrize("ending", ["outcome", "error"])
def test_a_work_that_has_the_run_no_more_leaves_its_text_in_the_store(
    store: DictStore, system: us.ActorSystem, ending: str
) -> None:
    gate = Gate()
    waiting = needs_approval(clerk(ASKS).run("Refund", system=system))
    slow = clerk()
    with slow.override(model=FunctionModel(gate.then(says("Done.")))):
        record = runs_of(system).paused.go_on(slow, waiting.token, us.Approve(), ResumeOptions())
        runs_of(system).launch(record)
        assert gate.entered.wait(WAIT)
        stale = record.epoch - 1
        if ending == "outcome":
            outcome: us.Complete[object] = us.Complete(
                agent_id="clerk", completion_reason="late", text="late", output="late"
            )
            record.host.endings.complete(record, outcome, stale)
        else:
            record.host.endings.fail(record, us.RunError("late"), stale)
        kept = store.runs[waiting.run_id]
        gate.open()

        assert (kept.state, kept.payload != "") == ("taken", True)
        assert record.promise.wait(WAIT)
        assert record.promise.get().text == "Done."
    assert store.runs[waiting.run_id].state == "over"


# --- what cannot be stored


def break_down(_: str) -> None:
    raise ConnectionError("the disk is away")


def test_a_pause_that_cannot_be_stored_ends_the_run_with_what_the_store_said(
    store: DictStore, system: us.ActorSystem
) -> None:
    store.on_call = break_down

    with pytest.raises(
        us.StoreError, match=r"run first-\w+-1 pauses.* in DictStore: ConnectionError: the disk is away"
    ):
        clerk(ASKS).run("Refund", system=system)


def test_a_limit_that_cannot_be_stored_is_raised_all_the_same_without_a_token(
    store: DictStore, system: us.ActorSystem
) -> None:
    store.on_call = break_down

    with pytest.raises(us.MaxIterationsExceeded) as caught:
        clerk(calls("look", order="7"), max_iterations=0).run("Look", system=system)

    assert caught.value.token == ""
    assert "It has no token" in caught.value.__notes__[0]
    assert "the disk is away" in caught.value.__notes__[0]


@pytest.mark.parametrize("broken", ["get", "take"])
def test_a_store_that_fails_on_resume_leaves_the_token(broken: str, store: DictStore, system: us.ActorSystem) -> None:
    token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
    store.on_call = lambda method: break_down(method) if method == broken else None

    with pytest.raises(us.StoreError, match="the disk is away"):
        clerk().resume(token, us.Approve(), system=system)

    store.on_call = lambda _: None
    assert clerk(says("Done.")).resume(token, us.Approve(), system=system).text == "Done."


def test_a_store_that_cannot_close_an_entry_does_not_spoil_the_outcome(
    store: DictStore, system: us.ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
    store.on_call = lambda method: break_down(method) if method == "close" else None

    assert clerk(says("Done.")).resume(token, us.Approve(), system=system).text == "Done."

    assert "could not be closed in DictStore" in caplog.text


def test_a_session_that_json_cannot_carry_ends_the_run_at_its_pause(system: us.ActorSystem) -> None:
    agent = us.Agent("clerk", model=ScriptedModel([says("__ask_user__: Go on?")]))

    with pytest.raises(us.StoreError, match=r"session\['db'\] is of type object, which JSON cannot carry"):
        agent.run("Connect", session={"db": object()}, system=system)  # type: ignore[dict-item]  # the mistake under test


def test_what_a_store_has_and_nobody_can_read_is_told(store: DictStore, system: us.ActorSystem) -> None:
    waiting = needs_approval(clerk(ASKS).run("Refund", system=system))
    broken = us.PausedRun(run_id=waiting.run_id, revision=1, nonce=waiting.token.rsplit(".", 1)[1], payload="{}")
    store.runs[waiting.run_id] = broken

    with pytest.raises(us.StoreError, match=f"has of run {waiting.run_id} cannot be read: not a saved run"):
        clerk().resume(waiting.token, us.Approve(), system=system)


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        ("phase", "z", "state.phase"),
        ("messages", 5, "state.messages"),
        ("round", None, "without a round of tool calls"),
    ],
)
def test_a_machine_that_nobody_can_read_is_told(
    place: str, value: object, fault: str, store: DictStore, system: us.ActorSystem
) -> None:
    token = damaged(store, system, lambda state: state.update({place: value}))

    with pytest.raises(us.StoreError, match=f"cannot be read: not a saved run: .*{fault}"):
        clerk().resume(token, us.Approve(), system=system)


def test_a_pause_that_waits_for_nothing_is_told(store: DictStore, system: us.ActorSystem) -> None:
    token = damaged(store, system, lambda state: state["round"].update(waiting=[]))

    for answer in (us.Approve(), None):
        with pytest.raises(us.StoreError, match="cannot be read: it paused in the midst of a turn"):
            clerk().resume(token, answer, system=system)


def damaged(store: DictStore, system: us.ActorSystem, damage: Callable[[dict[str, Any]], object]) -> str:
    """Return the token of a run that waits, whose state in the store is damaged."""
    waiting = needs_approval(clerk(ASKS).run("Refund", system=system))
    kept = store.runs[waiting.run_id]
    saved = json.loads(kept.payload)
    machine = json.loads(saved["machine"])
    damage(machine["state"])
    saved["machine"] = json.dumps(machine)
    store.runs[waiting.run_id] = replace(kept, payload=json.dumps(saved))
    return waiting.token


def test_a_store_that_has_another_run_under_this_id_keeps_it(store: DictStore, system: us.ActorSystem) -> None:
    def put_first(method: str) -> None:
        store.on_call = lambda _: None
        (run_id,) = [run.run_id for run in system.health().runs]
        store.put(us.PausedRun(run_id=run_id, revision=1, nonce="n", payload="theirs"), keep=None)

    store.on_call = put_first

    with pytest.raises(us.StoreError, match="it has this run already"):
        clerk(ASKS).run("Refund", system=system)

    assert [run.payload for run in store.runs.values()] == ["theirs"]
