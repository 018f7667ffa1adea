"""The client of Anthropic's Messages API.

A `ModelRequest` comes in to `Anthropic`. `wire.encode` writes the body; the room `http` sends it, with retries, and reads
the answer; `wire.decode` makes a `ModelTurn` of it, which goes out. `wire` has no state and does no I/O. It keeps the API's
rules: a token limit in each request, results first in a message, thinking sent back unchanged, no blank texts. `stream` reads
streamed answers into the pieces of the same turn.
"""
