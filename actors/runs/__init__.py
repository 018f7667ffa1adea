"""Runs in flight: the actor of each run decides how it goes on, and its works do what may block.

`factory` makes the actor of a new or saved run: an `AgentRunActor` (`run_actor`) for an agent, a `GroupRunActor`
(`group_actor`) for a group or a workflow. `call_run` has that of a single call by `agent.execute`. `turns` has the mailbox,
the turn and the end that actors share.

The actor hears what came of its `works`, applies the events that they return, and begins the works that are due. A work
blocks and runs user code, on a lent thread; the actor does neither. No thread waits for a run inside: the one that ends it
brings the run around it back (`sub_calls`, `child_ends`). Works ask user code outside of the lock: callbacks, rules about a
turn, validators of answers.

The actor is the record of its run too, an `AgentRunRecord` or a `GroupRunRecord`, which other threads see: it has the
machine, the session and the log. By its `Ownership`, a work holds it at an epoch. A run whose work crashes or hangs is taken
over: the epoch is raised, the actor goes on in a new stay, and the old work is refused with `Stale`. The record keeps what
user code answered, so that nobody is asked again. The watchdog looks after a record in flight.

A record and its works know the system by the protocol `RunHost`, whose `RunEndings` end the run. The same host prepares,
loads and launches the runs inside of it: `child_runs` and `sub_agents` say how they are tied to the run around them.

`saving` turns a paused run into text. `answers` feeds a person's answer to the record with which the run goes on.

The run goes out with `RunRecord.end`, which happens once and completes the promise behind the caller's handle. Work
that hangs is left behind, and counted in `AbandonedWork`.
"""
