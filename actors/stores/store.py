"""`Store`: the parts in which a system keeps what outlives a run."""

from __future__ import annotations

from understudy.vocabulary.runs.pause_store import PauseStore

from .conversation_table import ConversationTable
from .conversations import Conversations
from .conversations_in_memory import ConversationsInMemory
from .database import Database
from .figures import HasFigures, StoreFigures
from .grants import grants_of
from .memory_sessions import MemorySessions
from .pauses import PauseTable
from .sessions import Sessions, SessionTable


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
    """

    def __init__(self, database: Database | None = None, pauses: PauseStore | None = None) -> None:
        self.database = database
        self.pauses = pauses
        if database is not None and pauses is None:
            self.pauses = PauseTable(database)
        self.grants = None if database is None else grants_of(database)
        self.conversations: Conversations = ConversationsInMemory() if database is None else ConversationTable(database)
        self.sessions: Sessions = MemorySessions() if database is None else SessionTable(database)

    def figures(self) -> StoreFigures | None:
        """Return the figures of the database, if it counts."""
        return self.database.figures() if isinstance(self.database, HasFigures) else None

    def __repr__(self) -> str:
        if self.pauses is not None:
            return repr(self.pauses)
        return "memory:" if self.database is None else repr(self.database)
