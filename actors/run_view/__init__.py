"""What the rooms below `runs` may see of a run: a protocol, its log, its events and its errors.

A record of the room `runs` comes in as a `RunView` or one of its narrower relatives. Tools and memories therefore
know a run by what they need of it, and import no record.

Each run has one `RunLog`. The run, the tools and the executors add small entries to it, from any thread; an entry
costs a list append. The log ends with the outcome or the error of the run.

Listeners come when they like. `RunHandle.events` calls `event_reader`, whose `LogReader` turns the entries into the
public events of `understudy.vocabulary.runs.events`, from the first entry on. Without a listener no event is built, but for
the journal of a streamed run. `event_position` says what a listener gets that goes on at a place among the events.
`Reporter` thins out what `ctx.progress` reports, before it reaches the log.

`errors` makes the errors that end a run, `tracebacks` the text that says where user code failed, and `safely` carries
out a step whose failure must not keep a run from ending.
"""
