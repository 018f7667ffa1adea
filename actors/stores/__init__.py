"""Stores: what the runtime keeps beyond a run, in memory, in an SQLite file or in PostgreSQL.

A user names a store by a URL or gives an object of their own. `open_store` makes a `Store` of it, which has the parts:
`pauses` for runs that wait for a person, `conversations` for the turns that `PersistentMemory` keeps, `grants` for the line of each
conversation, and `sessions` for the values that runs share. Each part is one file here: its tables as a `Part`, and a class with
its statements. A part for memory is a class of its own, with the same methods.

Statements are written once. A `Database` runs them in transactions: `SQLiteDatabase` for a file, which all systems of
the process share. `prepare` makes the tables of a part when the part is opened, and refuses a store of another version.

A call of a part blocks until the database has answered, so never make one under a lock. A failure is a `StoreError`, which
says what happened, to which store, and what was expected.
"""
