"""Waits inside of runs and actors, and futures made of several others.

A thread of a run or an actor that is about to wait tells the `graph` first: who waits, and for which run, reply, seat or
merged future (`awaited`). If that wait could never end, because it would close a cycle, the graph raises `CircularAgentCall`
and nothing waits. Otherwise the wait is entered, the thread waits, and the wait is taken out again, however it ended. A wait
may also come to close a cycle later, when other ways out are lost: then the graph wakes its thread with that error. Threads
outside of runs and actors are not entered, for no run waits for them. The waits of an orchestrator for its `children` block
no thread: each child enters when it begins, and leaves when it is over.

`combine` makes one future of several: `collect` of all values, `first` of the first success. The `endings` note how each
member ended, and a merge rule of `orchestration` says when the result is certain. The `merged_future` is told by callbacks,
so no thread waits for its members; once it is done, it cancels those that are not. A future of Pykka's own has no callback:
as a `foreign_future` it has a lent thread that waits for it. All futures of the runtime are Pykka's by `base_future`, which
also derives one from others (`map`, `join`), and coroutines wait for them there.
"""
