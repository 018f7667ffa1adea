"""A look at the runs of a store, by people: where each run of every process stands, and the ways to end one from outside.

The command line opens a store with `look_at`, which makes no file and no table. `RunList` reads what the tables of runs and of
pauses have, `standing` says where a run stands, and `StoredRuns` does both and removes or cancels runs. A system uses the
same class on its own database, for `handle`.

What was looked at may have changed since, so each change compares in its own transaction.
"""
