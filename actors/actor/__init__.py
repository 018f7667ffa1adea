"""Actors of users: their objects, their references, their supervisors, and the cells that join these.

An `Actor` comes in by `spawn`: the system makes an `ActorCell` for it, as a member of a `SupervisorCell`, and has it begin.
Its `Lifecycle` has the `Incarnation` make an object and call `on_start`; from then on messages of users, which came by an
`ActorRef`, are handled one at a time. Orders from other threads (begin, halt, stop, fail) come as commands in the system
queue, so everything happens on the actor's own thread, between two messages.

When a message raises, the lifecycle asks the supervisor what to do. A lone actor gets a new object at once or after a delay;
a group is halted from last to first and begun from first to last. The machine of the group in `orchestration/supervision`
decides that; the `SupervisorCell` feeds events to it, and carries out its commands to the `members`. After too many failures
all members are given up, and the parent is told. Messages to an actor that is down or stopped are dead letters. An ask that is
late is answered at its deadline (`ask_future`), and `time_limited_cell` gives up messages that hang.

An actor goes out when it is stopped, ends itself, or fails without a restart: `on_stop` is called, its watchers get a `Down`,
its timers end, and its mailbox is closed. `endpoint` has the protocols by which these files know a cell.
"""
