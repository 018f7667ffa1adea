"""Ids with a NUL character, which PostgreSQL cannot keep: every store in a database refuses them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import understudy as us
from understudy.actors.stores.conversations import Conversations
from understudy.actors.stores.grants import Grants
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.store import Store
from understudy.testing import ScriptedModel, calls, says
from understudy.vocabulary.messages import user_message
from understudy.vocabulary.runs.conversations import Window

SAYS = "an id has a NUL character, which not every store can keep; expected a text without"
KEY = us.ConversationKey("shop", "ada\0", "c-42")
RUN = us.PausedRun(run_id="shop\0-1", revision=1, nonce="secret", payload="{}")


@pytest.fixture
def store(url: str) -> Store:
    return open_store(url)


@pytest.fixture
def system(url: str) -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", store=url) as made:
        yield made


def refused(store: Store, do: Callable[[], object]) -> None:
    with pytest.raises(us.StoreError) as caught:
        do()
    assert str(caught.value) == f"store {store!r}: {SAYS}"


@pytest.mark.parametrize("key", [KEY, KEY._replace(user="ada", conversation="c\0"), KEY._replace(app="\0", user="ada")])
def test_every_call_about_a_conversation_refuses_them(key: us.ConversationKey, store: Store) -> None:
    table: Conversations = store.conversations

    refused(store, lambda: table.append(key, [user_message("a")], "run-1"))
    refused(store, lambda: table.summarize(key, 1, [user_message("a")], "run-1"))
    refused(store, lambda: table.load(key, Window(turns=1, tokens=None)))
    refused(store, lambda: table.read(key, 0, 1))
    refused(store, lambda: table.clear(key))
    assert isinstance(store.grants, Grants)
    grants = store.grants
    refused(store, lambda: grants.take(key, "run-1"))


def test_erasing_refuses_them(store: Store) -> None:
    refused(store, lambda: store.count("ada\0", None))
    refused(store, lambda: store.erase("ada\0", "shop"))


def test_paused_runs_refuse_them(store: Store) -> None:
    pauses = store.pauses
    assert pauses is not None

    refused(store, lambda: pauses.put(RUN, keep=None))
    refused(store, lambda: pauses.get(RUN.run_id))


def test_a_run_of_such_a_user_ends_before_its_model_is_called(system: us.ActorSystem) -> None:
    clerk = us.Agent("clerk", model=ScriptedModel([says("hi")]), memory=us.PersistentMemory())

    with pytest.raises(us.StoreError, match=SAYS):
        clerk.run("hello", system=system, user_id="ada\0", conversation_id="c-42")
    assert clerk.run("hello", system=system, user_id="ada", conversation_id="c-42").text == "hi"


def test_values_of_a_session_may_have_them_in_their_users_and_keys(system: us.ActorSystem) -> None:
    @us.tool
    def note(ctx: us.ToolContext) -> str:
        ctx.session["user:a\0b"] = "c\0d"
        return "noted"

    model = ScriptedModel([calls("note"), says("done"), says("again")])
    clerk = us.Agent("clerk", model=model, tools=[note])
    clerk.run("hello", system=system, user_id="ada\0")

    assert dict(clerk.run("hello", system=system, user_id="ada\0").session) == {"user:a\0b": "c\0d"}
