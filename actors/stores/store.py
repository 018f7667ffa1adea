"""`Store`: the parts in which a system keeps what outlives a run."""

from __future__ import annotations

from understudy.vocabulary.runs.conversations import Erased
from understudy.vocabulary.runs.pause_store import PauseStore

from .conversation_table import ConversationTable
from .conversations import Conversations
from .conversations_in_memory import ConversationsInMemory
from .database import Database, HasFigures, Rests, StoreFigures
from .grants import grants_of
from .maps.map_table import MapTable
from .pauses import PauseTable
from .process_locks import HasLocks
from .runs import RunTable
from .sessions import Sessions, SessionTable
from .sessions_in_memory import SessionsInMemory


class Store:
    """The parts of one store. Made when the system is: a part that cannot be opened is an error then.

    Args:
        database: where the parts are; None for the memory of this process.
        pauses: the user's own store of paused runs, in place of the database's.

    Attributes:
        pauses: where paused runs are kept; None for the memory of this process, where nothing is written down.
        conversations: the turns of conversations, for `PersistentMemory`.
        sessions: where the values of sessions are kept, always.
        grants: which run of all processes has a conversation; None for the memory of this process.
        runs: the journals of runs under way; None where no other process could go on with one.
        maps: the results of maps with a name; None where there are no journals.
        locks: which processes that have the database live; None if that is not known.
    """

    def __init__(self, database: Database | None = None, pauses: PauseStore | None = None) -> None:
        self.database = database
        self.pauses = pauses
        if database is not None and pauses is None:
            self.pauses = PauseTable(database)
        self.locks = database.locks if isinstance(database, HasLocks) else None
        self.runs: RunTable | None = None
        self.maps: MapTable | None = None
        if database is not None and self.locks is not None and pauses is None:
            self.runs = RunTable(database)
            self.maps = MapTable(database)
        self.grants = None if database is None else grants_of(database)
        self.conversations: Conversations = ConversationsInMemory() if database is None else ConversationTable(database)
        self.sessions: Sessions = SessionsInMemory() if database is None else SessionTable(database)

    def figures(self) -> StoreFigures | None:
        """Return the figures of the database, if it counts."""
        return self.database.figures() if isinstance(self.database, HasFigures) else None

    def rest(self) -> None:
        """Let go of the connections that nobody uses, for a system that has stopped; a later call opens others."""
        if isinstance(self.database, Rests):
            self.database.rest()

    def count(self, user: str, app: str | None) -> Erased:
        """Return what `erase` would remove. Raises `StoreError`."""
        pauses = self.pauses.count(user, app) if isinstance(self.pauses, PauseTable) else 0
        runs = 0 if self.runs is None else self.runs.count(user, app)
        rest = Erased(values=self.sessions.count(user, app), pauses=pauses, runs=runs)
        return self.conversations.count(user, app) + rest

    def erase(self, user: str, app: str | None) -> Erased:
        """Remove all that is kept of a user, in one app or in all. A user's own store of paused runs is left alone.

        Runs under way lose their conversations first: what they would add afterwards is refused.

        Raises:
            StoreError: the store failed; what was removed until then is gone, and another call goes on.
        """
        if self.grants is not None:
            self.grants.drop_of_user(user, app)
        runs = 0 if self.runs is None else self.runs.erase(user, app)
        if self.maps is not None:
            self.maps.erase(user, app)
        erased = self.conversations.erase(user, app) + Erased(values=self.sessions.erase(user, app), runs=runs)
        if isinstance(self.pauses, PauseTable):
            erased += Erased(pauses=self.pauses.erase(user, app))
        if self.database is not None:
            self.database.drop_remains()
        return erased

    def __repr__(self) -> str:
        if self.pauses is not None:
            return repr(self.pauses)
        return "memory:" if self.database is None else repr(self.database)
