"""Conversations in stores: what each store does with turns, windows, summaries, erasures and ages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import understudy as us
from tests.support.together import all_at_once
from understudy.actors.stores.conversation_table import ConversationTable
from understudy.actors.stores.conversations import Conversations
from understudy.actors.stores.conversations_in_memory import ConversationsInMemory
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.postgres.database import PostgresDatabase
from understudy.actors.stores.saved_messages import messages_as_text, messages_of_text
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.vocabulary.messages import user_message
from understudy.vocabulary.runs.conversations import Window

KEY = us.ConversationKey("shop", "ada", "c-42")
ALL = Window(None, None)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def conversations(request: pytest.FixtureRequest, tmp_path: Path) -> Conversations:
    if request.param == "memory":
        return ConversationsInMemory()
    if request.param == "sqlite":
        return ConversationTable(SQLiteDatabase(str(tmp_path / "shop.db")))
    return open_store(request.getfixturevalue("postgres_url")).conversations


def turn(*texts: str) -> list[us.Message]:
    return [user_message(text) for text in texts]


def fill(conversations: Conversations, turns: int, key: us.ConversationKey = KEY) -> None:
    for number in range(1, turns + 1):
        conversations.append(key, turn(f"{number}a", f"{number}b"), f"run-{number}")


def texts(conversations: Conversations, window: Window = ALL, key: us.ConversationKey = KEY) -> list[str]:
    return [message.text for message in conversations.load(key, window).messages]


# --- turns and windows


def test_a_conversation_nobody_had_is_empty(conversations: Conversations) -> None:
    assert texts(conversations) == []
    assert conversations.read(KEY, 0, 10) == []


@pytest.mark.parametrize("turns", [1, 2, 49, 50, 51, 130, None])
def test_a_window_of_turns_has_the_last_ones_whole(conversations: Conversations, turns: int | None) -> None:
    fill(conversations, 120)

    first = 121 - min(turns or 120, 120)
    assert texts(conversations, Window(turns, None)) == [f"{n}{part}" for n in range(first, 121) for part in "ab"]


def test_a_window_of_tokens_has_the_last_turns_that_fit_and_always_the_last(conversations: Conversations) -> None:
    fill(conversations, 5)  # each turn is two messages of 4 + 1 tokens
    conversations.append(KEY, turn("x" * 4000), "long")

    assert len(texts(conversations, Window(None, 1))) == 1
    assert len(texts(conversations, Window(None, 1004 + 20))) == 5
    assert len(texts(conversations, Window(2, 1004 + 20))) == 3
    assert len(texts(conversations, Window(None, 10_000))) == 11


@pytest.mark.parametrize(
    "other", [KEY._replace(app="bank"), KEY._replace(user="bob"), KEY._replace(conversation="c-1")]
)
def test_app_user_and_conversation_tell_conversations_apart(
    conversations: Conversations, other: us.ConversationKey
) -> None:
    fill(conversations, 1)

    assert texts(conversations, key=other) == []


def test_a_turn_that_a_run_has_stored_is_not_stored_again(conversations: Conversations) -> None:
    fill(conversations, 2)
    fill(conversations, 3)
    conversations.append(KEY._replace(conversation="other"), turn("same run"), "run-1")

    assert [each.number for each in conversations.read(KEY, 0, 10)] == [1, 2, 3]
    assert texts(conversations, key=KEY._replace(conversation="other")) == ["same run"]


def test_turns_without_a_run_are_all_kept(conversations: Conversations) -> None:
    for _ in range(2):
        conversations.append(KEY, turn("by hand"), "")

    assert texts(conversations) == ["by hand", "by hand"]


def test_threads_that_append_at_once_lose_nothing_and_keep_turns_whole(conversations: Conversations) -> None:
    def append(number: int) -> None:
        for place in range(5):
            conversations.append(KEY, turn(f"{number}.{place}", f"{number}.{place}"), f"run-{number}-{place}")

    all_at_once(append, range(8))

    kept = texts(conversations)
    assert kept[::2] == kept[1::2]
    assert sorted(kept[::2]) == sorted(f"{number}.{place}" for number in range(8) for place in range(5))


def test_a_store_knows_whether_a_run_has_added_a_turn_or_a_summary(conversations: Conversations) -> None:
    conversations.append(KEY, turn("1"), "run-1")
    conversations.summarize(KEY, 1, turn("one"), "run-2")

    assert [conversations.has_added(KEY, run_id) for run_id in ("run-1", "run-2", "run-3")] == [True, True, False]
    assert not conversations.has_added(KEY._replace(conversation="another"), "run-1")


# --- summaries


def test_a_run_begins_with_the_last_summary_and_the_turns_after_it(conversations: Conversations) -> None:
    fill(conversations, 3)
    conversations.summarize(KEY, 2, turn("first two"), "run-3")
    conversations.append(KEY, turn("4"), "run-4")

    known = conversations.load(KEY, ALL)
    assert texts(conversations) == ["first two", "3a", "3b", "4"]
    assert (known.upto, [number for number, _ in known.turns]) == (2, [3, 5])
    assert texts(conversations, Window(1, None)) == ["first two", "4"]


def test_a_later_summary_replaces_an_earlier_one(conversations: Conversations) -> None:
    fill(conversations, 3)
    conversations.summarize(KEY, 1, turn("one"), "run-2")
    conversations.summarize(KEY, 3, turn("three"), "run-3")
    conversations.summarize(KEY, 2, turn("again"), "run-3")

    assert texts(conversations) == ["three"]


def test_all_that_was_stored_can_be_read_in_order_and_in_pages(conversations: Conversations) -> None:
    fill(conversations, 3)
    conversations.summarize(KEY, 2, turn("first two"), "run-3")
    fill(conversations, 4)

    pages = [conversations.read(KEY, after, 2) for after in (0, 2, 4)]
    assert [[(each.number, each.kind, each.upto) for each in page] for page in pages] == [
        [(1, "turn", None), (2, "turn", None)],
        [(3, "turn", None), (4, "summary", 2)],
        [(5, "turn", None)],
    ]
    assert [message.text for message in pages[1][1].messages] == ["first two"]


# --- clearing, erasing, ages


def test_a_cleared_conversation_begins_anew(conversations: Conversations) -> None:
    fill(conversations, 3)
    conversations.clear(KEY)
    conversations.clear(KEY)
    fill(conversations, 1)

    assert texts(conversations) == ["1a", "1b"]


def test_to_erase_a_user_removes_all_conversations_of_that_user_and_counts_them(conversations: Conversations) -> None:
    for conversation in ("c-1", "c-2"):
        fill(conversations, 3, KEY._replace(conversation=conversation))
    conversations.summarize(KEY._replace(conversation="c-1"), 2, turn("two"), "run-3")
    fill(conversations, 1, KEY._replace(user="bob"))
    fill(conversations, 1, KEY._replace(app="bank"))

    expected = us.Erased(conversations=2, turns=6, summaries=1)
    assert conversations.count("ada", "shop") == expected
    assert conversations.erase("ada", "shop") == expected
    assert conversations.erase("ada", "shop") == us.Erased()
    assert texts(conversations, key=KEY._replace(user="bob")) == ["1a", "1b"]
    assert conversations.erase("ada", None) == us.Erased(conversations=1, turns=1)


Clocked = Callable[[Callable[[], float]], Conversations]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def clocked(request: pytest.FixtureRequest, tmp_path: Path) -> Clocked:
    if request.param == "memory":
        return lambda clock: ConversationsInMemory(clock=clock)
    if request.param == "sqlite":
        return lambda clock: ConversationTable(SQLiteDatabase(str(tmp_path / "shop.db")), clock=clock)
    url = str(request.getfixturevalue("postgres_url"))
    return lambda clock: ConversationTable(PostgresDatabase(url), clock=clock)


def test_turns_that_are_too_old_are_forgotten_when_a_turn_is_added_to_any_conversation(clocked: Clocked) -> None:
    now = [1000.0]
    conversations = clocked(lambda: now[0])
    idle, busy, bank = [KEY._replace(conversation=name) for name in ("idle", "busy", "bank")]
    bank = bank._replace(app="bank")
    for at, key in ((1000.0, idle), (1000.0, busy), (1000.0, bank), (1090.0, busy), (1101.0, KEY)):
        now[0] = at
        conversations.append(key, turn(str(at)), "", keep=100.0)

    assert texts(conversations, key=idle) == []
    assert texts(conversations, key=busy) == ["1090.0"]
    assert texts(conversations, key=bank) == ["1000.0"]  # another app's, which nobody has added to
    assert conversations.count("ada", "shop") == us.Erased(conversations=2, turns=2)


def test_a_store_forgets_many_old_turns_in_small_steps(tmp_path: Path) -> None:
    now = [0.0]
    conversations = ConversationTable(SQLiteDatabase(str(tmp_path / "shop.db")), clock=lambda: now[0])
    fill(conversations, 120)
    now[0] = 1000.0

    left: list[int] = []
    for _ in range(3):
        conversations.append(KEY._replace(conversation="new"), turn("new"), "", keep=100.0)
        left.append(len(conversations.read(KEY, 0, 1000)))

    assert left == [70, 20, 0]


# --- the text of turns


def test_messages_of_every_kind_survive_the_store(conversations: Conversations) -> None:
    parts: tuple[us.Part, ...] = (
        us.TextPart("é \ud83d \x00"),
        us.ReasoningPart("hm", signature="s"),
        us.ToolCall("c1", "add", {"a": None, "b": [1.5, {"c": True}]}),
        us.ToolResult("c1", "3"),
        us.ImagePart(data="aGk="),
        us.OpaquePart({"x": 1}),
        us.TextPart("Seven.", citations=(us.Citation("facts", raw={"type": "char_location"}),)),
        us.MetadataPart({"logprobs": {"content": []}}),
    )
    message = us.Message("assistant", parts, "openai")
    conversations.append(KEY, [message], "run-1")

    assert list(conversations.load(KEY, ALL).messages) == [message]


def test_a_turn_of_a_later_format_is_refused_and_not_quoted() -> None:
    text = messages_as_text(turn("secret"), "shop").replace('"format":1', '"format":2')

    with pytest.raises(us.StoreError, match="a stored turn of format 2; this version reads format 1"):
        messages_of_text(text, "shop")
    with pytest.raises(us.StoreError) as caught:
        messages_of_text('{"format":1,"messages":[{"role":"secret"}]}', "shop")
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in str(error)
        error = error.__context__


# --- PersistentMemory by hand


def test_a_memory_with_a_url_is_used_by_hand_and_another_one_of_the_url_knows_the_turns(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    memory = us.PersistentMemory(url, turns=2)
    for number in range(3):
        memory.append(KEY, turn(str(number)), f"run-{number}")

    again = us.PersistentMemory(url)
    assert [message.text for message in memory.load(KEY)] == ["1", "2"]
    assert [message.text for message in again.load(KEY)] == ["0", "1", "2"]
    assert [each.run_id for each in again.read(KEY, after=1)] == ["run-1", "run-2"]
    again.clear(KEY)
    assert list(memory.load(KEY)) == []


def test_a_window_of_another_memory_leaves_all_turns_there(tmp_path: Path) -> None:
    inner = us.PersistentMemory(f"sqlite:///{tmp_path}/shop.db")
    memory = us.WindowedMemory(turns=1, memory=inner)
    for number in range(3):
        memory.append(KEY, turn(str(number)), f"run-{number}")

    assert [message.text for message in memory.load(KEY)] == ["2"]
    assert len(inner.load(KEY)) == 3
    memory.clear(KEY)
    assert list(inner.load(KEY)) == []


def test_a_memory_without_a_store_says_by_hand_that_it_needs_one() -> None:
    with pytest.raises(RuntimeError, match="give it one: us.PersistentMemory"):
        us.PersistentMemory().load(KEY)


def test_a_store_is_opened_at_the_first_use_by_one_of_many_threads(tmp_path: Path) -> None:
    memory = us.PersistentMemory(f"sqlite:///{tmp_path}/shop.db", keep=timedelta(days=1))
    assert not (tmp_path / "shop.db").exists()
    kept, lock = list[object](), threading.Lock()

    def use(number: int) -> None:
        memory.append(KEY, turn(str(number)), str(number))
        with lock:
            kept.append(memory.in_system(None))

    all_at_once(use, range(8))

    assert len(set(map(id, kept))) == 1
    assert len(memory.load(KEY)) == 8


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: us.PersistentMemory(turns=0), "turns must be at least 1"),
        (lambda: us.PersistentMemory(tokens=0), "tokens must be at least 1"),
        (lambda: us.PersistentMemory(keep=0), "keep must be above 0 seconds"),
        (lambda: us.PersistentMemory(7), "store must be a URL"),  # type: ignore[arg-type]  # the mistake under test
    ],
)
def test_arguments_are_checked_when_the_memory_is_made(make: Callable[[], object], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make()


def test_a_wrong_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a conversation is named by ConversationKey"):
        us.PersistentMemory(f"sqlite:///{tmp_path}/shop.db").load("c-42")  # type: ignore[arg-type]  # the mistake under test
