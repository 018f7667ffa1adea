"""Conversations: which run may use one, and how a run reads and writes the memory of its agent.

`RunManager.prepare` asks `Conversations` for a lease for each new run. A run without a `conversation_id`, or without
a memory in its agent or below its group, gets none and passes this room at once.

`Conversations.enter` starts the run when its root run has the conversation. One root run has it at a time; the others
wait in a queue, without a thread, and the wait is an edge of the wait graph, so that a cycle is refused. For a memory in
a store, a `PersistentMemory`, the first of the queue then asks the store by a `Claim`, for other processes may have the
conversation.

The first work of the run then calls `recall`, which loads the history. The last one calls `remember`, which appends the
new messages. Both are messages to the `MemoryActor`, which handles one at a time, on the thread of the work. The memories
of this package never block and need no line, and the append happens under the lock of the run's record, in the moment in
which the run ends.

When the run ends or pauses, `Conversations.leave` takes it out. The last run of a root gives the conversation to the
next root in the queue.
"""
