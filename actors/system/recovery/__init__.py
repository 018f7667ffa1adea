"""Runs that processes which died have left, and how a system goes on with them.

`Recovery` takes up one run after another: it puts the run together from its journal, claims it, and launches it. A call of
`system.recover()` makes one for all runs that are left. With `recover="always"`, the thread of `Takeovers` looks for
processes that are gone, and makes one for their runs. `ParkedRuns` has the runs that cannot go on, each with the reason:
`health()` lists them, and the thread tries them again after growing pauses.
"""
