"""Conversations in the memory of a process, for systems without a store."""

from __future__ import annotations

import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from understudy.actors.threads.forked import Stage, at_fork
from understudy.vocabulary.messages import Message
from understudy.vocabulary.runs.conversations import ConversationTurn, Erased, Window
from understudy.vocabulary.runs.memory import DEFAULT_CONVERSATIONS, ConversationKey
from understudy.vocabulary.runs.token_estimates import messages_tokens

from .conversations import Fence, LoadedConversation

LOOKS = 100  # Searches for old turns in the time for which turns are kept.


@dataclass(slots=True)
class _Conversation:
    """All entries of a conversation, oldest first."""

    last_number: int = 0
    entries: list[ConversationTurn] = field(default_factory=list["ConversationTurn"])
    stored_by: set[tuple[str, str]] = field(default_factory=set["tuple[str, str]"])
    """Kind and run of each entry that a run has stored."""


class ConversationsInMemory:
    """`Conversations` without a database. Nothing blocks; a forked child begins with a copy.

    Args:
        most: how many conversations are kept; beyond that the least recently used ones are forgotten.
        clock: seconds since 1970.
    """

    def __init__(self, most: int = DEFAULT_CONVERSATIONS, *, clock: Callable[[], float] = time.time) -> None:
        self._most = most
        self._clock = clock
        self._conversations: OrderedDict[ConversationKey, _Conversation] = OrderedDict()
        self._next_look: dict[str, float] = {}
        """App -> when turns that are too old are looked for again."""
        self.begin_anew()
        _all.add(self)

    def begin_anew(self) -> None:
        """Make the lock anew in a forked child, where the thread that held the old one may not exist."""
        self._lock = threading.Lock()
        """Guards the conversations."""

    def load(self, key: ConversationKey, window: Window) -> LoadedConversation:
        with self._lock:
            conversation = self._conversations.get(key)
            if conversation is None:
                return LoadedConversation((), 0, [])
            self._conversations.move_to_end(key)
            return _loaded(conversation.entries, window)

    def append(
        self,
        key: ConversationKey,
        messages: Sequence[Message],
        run_id: str,
        *,
        fence: Fence | None = None,
        keep: float | None = None,
    ) -> None:
        self._add(key, "turn", messages, run_id, 0)
        if keep is not None:
            self._forget(key.app, keep)

    def summarize(
        self,
        key: ConversationKey,
        upto: int,
        messages: Sequence[Message],
        run_id: str,
        *,
        fence: Fence | None = None,
    ) -> None:
        self._add(key, "summary", messages, run_id, upto)

    def _add(
        self,
        key: ConversationKey,
        kind: Literal["turn", "summary"],
        messages: Sequence[Message],
        run_id: str,
        upto: int,
    ) -> None:
        with self._lock:
            conversation = self._conversations.setdefault(key, _Conversation())
            self._conversations.move_to_end(key)
            if run_id and (kind, run_id) in conversation.stored_by:
                return
            conversation.stored_by.add((kind, run_id))
            conversation.last_number += 1
            entry = ConversationTurn(
                number=conversation.last_number,
                kind=kind,
                run_id=run_id,
                messages=tuple(messages),
                tokens=messages_tokens(messages),
                upto=upto or None,
                added_at=self._clock(),
            )
            conversation.entries.append(entry)
            if len(self._conversations) > self._most:
                self._conversations.popitem(last=False)

    def _forget(self, app: str, keep: float) -> None:
        now = self._clock()
        with self._lock:
            if now < self._next_look.get(app, 0.0):
                return
            self._next_look[app] = now + keep / LOOKS
            for key, conversation in list(self._conversations.items()):
                if key.app == app:
                    conversation.entries = [each for each in conversation.entries if each.added_at >= now - keep]
                    if not conversation.entries:
                        del self._conversations[key]

    def has_added(self, key: ConversationKey, run_id: str) -> bool:
        with self._lock:
            conversation = self._conversations.get(key)
            return conversation is not None and any(each == run_id for _, each in conversation.stored_by)

    def read(self, key: ConversationKey, after: int, limit: int) -> list[ConversationTurn]:
        with self._lock:
            conversation = self._conversations.get(key)
            found = [] if conversation is None else [each for each in conversation.entries if each.number > after]
        return found[:limit]

    def clear(self, key: ConversationKey) -> None:
        with self._lock:
            self._conversations.pop(key, None)

    def count(self, user: str, app: str | None) -> Erased:
        with self._lock:
            return sum([_count(self._conversations[key]) for key in self._of(user, app)], Erased())

    def erase(self, user: str, app: str | None) -> Erased:
        with self._lock:
            return sum([_count(self._conversations.pop(key)) for key in self._of(user, app)], Erased())

    def _of(self, user: str, app: str | None) -> list[ConversationKey]:
        return [key for key in self._conversations if key.user == user and app in (None, key.app)]


def _loaded(entries: Sequence[ConversationTurn], window: Window) -> LoadedConversation:
    summary = next((each for each in reversed(entries) if each.kind == "summary"), None)
    upto, spent, first = (0, 0, ()) if summary is None else (summary.upto or 0, summary.tokens, summary.messages)
    turns: list[tuple[int, tuple[Message, ...]]] = []
    for each in reversed(entries):
        if each.number <= upto or len(turns) == window.turns:
            break
        if each.kind == "summary":
            continue
        spent += each.tokens
        if turns and window.tokens is not None and spent > window.tokens:
            break
        turns.append((each.number, each.messages))
    turns.reverse()
    return LoadedConversation(first, upto, turns)


def _count(conversation: _Conversation) -> Erased:
    summaries = len([each for each in conversation.entries if each.kind == "summary"])
    return Erased(conversations=1, turns=len(conversation.entries) - summaries, summaries=summaries)


_all: weakref.WeakSet[ConversationsInMemory] = weakref.WeakSet()


def _begin_anew_in_child() -> None:
    for each in list(_all):
        each.begin_anew()


at_fork(Stage.STORES, _begin_anew_in_child)
