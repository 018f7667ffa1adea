"""Runs that processes which died have left, and how a system goes on with them.

`Recoveries` is the part of a system that goes on with them. Each time it makes a `Recovery`, which takes up one run after
another: it puts the run together from its journal, claims it, and launches it. A call of `system.recover()` takes up all
runs that are left. With `recover="always"`, the thread of `Takeovers` looks for processes that are gone, and claims many of
their runs before it takes them up. `ParkedRuns` has the runs that cannot go on, each with the reason: `health()` lists
them, and the thread tries them again after growing pauses.
"""
