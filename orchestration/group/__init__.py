"""Runs of several children: sequences, parallel groups, and the inputs of a `map`.

The runtime makes a `SequenceRun` or `ParallelRun` of a `GroupSpec` and an input, and asks for the `next_step`. The step
names children to run, or says that the group waits for a person, or is done. The runtime runs the children and reports
each one: done, failed, paused, or at a limit. The machine then decides which children run next, and whether the
others still count; of a parallel group, a `MergeRule` decides that, which merges of futures share. The outcome is made of
the children's results.

`ChildRuns` and `ChildQueue` hold what all such machines share; workflows in `orchestration.graph` build on them.
`MapRun` is separate: it decides when a `map` takes one more input and which answer it hands out next.
"""
