"""The journal of runs: what a run has in the store while it is under way, so that another process can go on with it.

A run that begins outside of other runs has a `RunJournal`, and each run inside of it a `JournalPart`, which is known by its
path. A run writes before a tool call begins and when one is over. `unwritten_line` has the events that are written next, and
`run_rows` says what a record writes beside its line. `kept_events` has the rows of the events of a streamed run.
"""
