"""Actor systems: the entrance of every run and the owner of every actor.

`Agent.run` and its relatives come in through `runtime`, which checks the arguments, refuses cycles and finds the
system: the one that was passed, the one that the calling code runs in, or the default one of the process.

`ActorSystem` has one `Directory`, with the cell of every actor, and one `RunManager`, which is the host of all runs.
The manager prepares a record, and launches it by a message to the actor of its agent, `AgentActor`. That actor has
the run begin and is free again. From then on the works of the run and the watchdog report to parts of the manager:
`SystemRunEndings` completes, parks, fails or cancels the run, and `RunCrashes` has it go on after a crash. A token
comes to `PausedRuns`, which makes the record with which the run goes on.

`spawn` adds actors of the user, agents and groups; `ActorRef`, `AgentRef` and `SupervisorRef` go out. `map` gives out
a generator that keeps several runs under way. `health`, `tree` and `subscribe` show what happens inside.

`stop` closes the directory, waits for the runs, cancels the others and stops the actors. In a forked child, each
system starts again without the runs and actors of its parent.
"""
