"""The clients of Google's models: `Gemini` with an API key, `Vertex` with a Google Cloud token.

A `ModelRequest` comes in to one of the two. Both use `wire`: `encode` writes the body of generateContent; the room `http`
sends it, with retries, and reads the answer; `decode` makes a `ModelTurn` of it, which goes out. `wire` has no state and
does no I/O; it sends thought signatures back with the calls they belong to. `stream` reads streamed answers. The clients differ in address and credentials:
without a token `Vertex` asks `default_credentials`, which uses google-auth and renews a token before it ends.
"""
