"""Runs in flight: the record of each, the driver that carries it out, and what ends it.

`RunManager` comes in with a runner and an input, and `factory` makes the record: an `AgentRunRecord` or a
`GroupRunRecord`. The watchdog looks after it, and `Admission` starts it as soon as the system has a place for it.

A driver then holds the record at an epoch. `AgentDriver` is straight-line code on one lent thread: it asks the
machine for the next step, calls the model or the tools, and feeds the result. `GroupDriver` holds no thread: messages
wake it, it begins the child runs that are due and feeds what came of them.

User code that a step needs is asked here, outside of the lock: callbacks, rules about a turn, validators of answers.
The record keeps each answer until it is fed, so that the next driver does not ask again.

A driver that fails or hangs loses the run: the epoch is raised, a new driver goes on from the record, and whatever
the old one still feeds is refused with `Stale`. The work that hangs is counted in `AbandonedWork`.

The run goes out with `RunRecord.end`, which happens once and completes the promise behind the caller's handle. What
the drivers need of the system they ask of its `RunHost`.
"""
