"""Tool calls: where each one runs, until when, and which result the model gets.

Each tool and each toolset has an `Executor`, an actor with seats; a call is its message. The actor of a run comes in with
the calls of one turn. A lone call has its turn on the thread of a work, by `execute`. Each of several is a `Call` with a
`LentTurn` on a lent thread; nobody waits for it, and the run hears of its end. Calls of a tool with `isolation="caller"` go
to the thread that waits in `run`; calls of a tool with `isolation="process"` go to a worker process of the pool.

The executor of a tool with `max_parallel` has so many seats, that of a toolset one. A call without a seat waits in line,
without a thread, and its time has not begun.

Every call is a `ToolCallTask` with a deadline. A call that is late is made again if its tool is idempotent and has
retries left. Otherwise it is warned, and given up after a short grace: the thread stays with it, and the run goes on.

One result goes out for each call, whatever the tool does: its value as text and files, cut if it is too long, or an
error that the model reads. A call of a sub-agent goes out with the pauses of the run inside, in place of a result.
"""
