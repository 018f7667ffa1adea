"""Decisions about failures and time limits.

When a child actor fails, its supervisor asks here with the child's restart type, the error's directive and the current
time. The answer is a directive: resume, restart some children after a backoff, stop, or escalate because the restarts
of the period are used up. Strategies say which of the siblings restart too.

A group of actors has a machine. Its supervisor feeds events to `group_machine.handle`: a member failed, has begun, is halted;
the parent begins, halts or gives up the group. Commands come back: halt this member, begin that one after some seconds, give
up, escalate. The `TABLE` has a transition for each phase of the group and each event. `group_state` is the state, and
`group_events` has the events and commands.

When a tool call is under way, its run asks here what is due: wait, make the call again, warn it, or give it up.

The modules hold values and functions: no lock, thread or clock. The actors floor starts, stops and waits.
"""
