"""Paused runs: the token of each, and the store that keeps it.

A run gets a token when it stops and can go on: it needs a person, it reached a limit that can be raised, or an
error ended it that may pass. `RunManager` asks `issue` or `issue_for_limit` for a token, and the outcome or the error
carries this token to the caller. `ErrorTokens` does so for errors, and never waits long for a store.

There are two tables of tokens with the same methods. `Tokens` keeps the record itself, in the memory of this process.
`StoredPauses` writes the run as text into a `PauseStore`, such as that of the room `stores`, so that another process can
go on with it.

A caller resumes the run with the token. `claimed` gives the record to exactly one caller and uses the token up; if
the answer does not fit, the token stays valid. The caller then makes the record with which the run goes on.

`revoke` removes a token that no caller has. `over` marks the entry in a store when the run has ended for good.
Calls to a store may block, and none is made under the lock of a run.
"""
