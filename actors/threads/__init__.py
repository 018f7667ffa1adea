"""Threads, and what the rooms above build on them: nothing here knows of actors or runs.

A piece of work comes to `pool.submit`: the cell of an actor, the turn or a work of a run, an alarm, a call. An idle thread of the
pool takes it, or a new one is started, and calls its `run_turns` until that returns. Then the thread takes its next work,
if `run_next_here` gave it some, or queued work, or parks; a parked thread ends after ten seconds. If no thread can be
started, the work is told so by `refused`.

A thread that needs a result waits for a `Promise`. The thread with the result sets it once, and calls the callbacks
there. A function that must be called at some later moment goes to `alarms`, where one clock thread waits for all of them
and submits each when it is due. Runs of which only so many may be under way take one of the `slots`, and are queued without a
thread while none is free. `cancel_hooks` calls what users gave to `Scope.on_cancel`. No thread can be killed: work that
hangs is given up, and keeps its thread until it returns. `forked` has the list of what a forked child must make
anew.
"""
