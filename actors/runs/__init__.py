"""Runs in flight: the record of each, what holds it, and what ends it.

A record is an `AgentRunRecord` or a `GroupRunRecord`. It has the machine, the session and the log of one run. The
actor of the run, in the room `drivers`, is made of it. By its `Ownership`, a work holds it at an epoch; a work of another
epoch is refused with `Stale`. The watchdog looks after a record in flight, and `Admission` starts it as soon as the system
has a place for it.

A record and its works know the system by the protocol `RunHost`, whose `RunEndings` end the run. The same host prepares,
loads and launches the runs inside of it: `child_runs` and `sub_agents` say how they are tied to the run around them.

`saving` turns a paused run into text. `answers` feeds a person's answer to the record with which the run goes on.

The run goes out with `RunRecord.end`, which happens once and completes the promise behind the caller's handle. Work
that hangs is left behind, and counted in `AbandonedWork`.
"""
