"""Drivers: each carries out a run, from one epoch of its record to the next.

The host asks `factory` for the record of a new or saved run, and for a driver whenever nobody drives the record.

`AgentDriver` is straight-line code on one lent thread: it asks the machine for the next step, calls the model or the
tools, and feeds the result. `GroupDriver` holds no thread: messages wake it, it begins the child runs that are due
and feeds what came of them.

User code that a step needs is asked here, outside of the lock: callbacks, rules about a turn, validators of answers.
The record keeps each answer until it is fed, so that the next driver does not ask again.

Drivers carry out runs with a store. A run without a store goes by an actor of its own (`run_actor`, `group_actor`). The actor of a run hears what came of its `works`, applies the events that they return, and begins the works that are due. A
work may block and may run user code; the actor does neither. `turns` has the mailbox, the turn and the end that actors share.
No thread waits for the run of a sub-agent: the one that ends it brings the run around it back (`sub_calls`).

A driver that fails or hangs loses the run: the epoch is raised, a new driver goes on from the record, and whatever
the old one still feeds is refused with `Stale`. A driver that comes to the end tells the host of its record.
"""
