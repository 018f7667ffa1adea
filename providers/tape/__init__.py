"""Records model calls on a tape, and replays them without a key or a network.

A model comes in to `Recorder.record`, and a `RecordedModel` that answers the same goes out, also in pieces: `cuts` keeps their
lengths and times. At the end of each call `requests` splits
the request into pieces with digests, `answers` writes the turn or error as JSON, and `file` appends one line to the tape.
Before that, `redaction` hides secrets: known keys, the shapes and names of secrets, and the user's own rules. A
failed write stops the recording, never the run.

`Replay` reads a tape and is a model itself: a request comes in, its digest is looked up, and the recorded turn or error goes
out. If there is none, the error names the differing pieces.
"""
