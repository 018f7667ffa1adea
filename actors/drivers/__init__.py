"""How runs go: the actor of a run decides, and its works do.

`factory` makes the actor of a new or saved run: an `AgentRunActor` (`run_actor`) for an agent, a `GroupRunActor`
(`group_actor`) for a group or a workflow. `call_run` has that of a single call by `agent.execute`. `turns` has the mailbox,
the turn and the end that actors share.

The actor hears what came of its `works`, applies the events that they return, and begins the works that are due. A work
blocks and runs user code, on a lent thread; the actor does neither. No thread waits for a run inside: the one that ends it
brings the run around it back (`sub_calls`, `child_ends`).

Works ask user code outside of the lock: callbacks, rules about a turn, validators of answers. The record keeps each answer
until it is fed, so that nobody is asked again after a crash.

A run whose work crashes or hangs is taken over: the epoch is raised, the actor goes on from its record in a new stay, and
the old work is refused with `Stale`. The work that comes to the end tells the host of the run.
"""
