"""Sends model requests over HTTP, and reads the answers, for all API clients.

A `ModelRequest` comes in to `HttpModel.complete`, on the thread of a run. The client's subclass writes the body; then
`retries` starts one `Attempt` after another until the error is not worth a retry. For each attempt the call waits for a slot
of `in_flight`, looks up the key (`credentials`, `environment`), and leases a connection. `network` gives every read and
write the time that is left, and ends a blocked one when the run is cancelled.
`decompression` unpacks a body in small pieces, so that the limit of its size holds.

A `ModelTurn` goes out, or one of understudy's errors: `errors` makes it from an HTTP error, `attempt` from a failed
connection or a late answer. No key goes out: not in an error, a log, a repr or a pickle.

`HttpModel.stream` goes the same way with a `StreamedCall`: each `StreamedAttempt` gives the body as it comes, and a
`StreamReader` makes pieces of it.

Clients are shared by threads, and `forks` renews their locks and sockets in forked children. `options` checks the
arguments of a new client.
"""
