"""`map`: a run of each of many inputs, several at once, and their answers as the runs end.

`Answers` takes inputs on the thread that iterates, begins their runs, and hands answers out as the machine of a map says.
`NamedAnswers` does this for a map with a name. It asks `NamedMap` for each input: its result may be in the store, its run
may have been left by a process that died, wait for a person, or be under way elsewhere; otherwise a run begins. The
result is stored at the end of the run, in the same transaction.
"""
