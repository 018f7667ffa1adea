"""A run as a line of events.

A line begins with `Accepted`. Each later event says one thing that happened in the run: the model's turn, a result, the end of
a run inside, a person's answer. `events` has them all, `lines` writes each as one line of JSON and reads it back.
`definitions` does the same with the rules that a line was written under. `words` says what readers and the log are told of each.

An event holds what user code said and what a clock, a budget or a limit decided. Replay asks none of them again.
"""
