"""The client of OpenAI's Responses API.

A `ModelRequest` comes in to `OpenAIResponses`. `input_items` turns its messages into the items of the API, `request` writes
the body around them; the room `http` sends it, with retries, and reads the answer; `answer` makes a `ModelTurn` of it, which
goes out. `stream` reads a streamed answer into the pieces of the same turn. These four have no state and do no I/O.
The client remembers which history a stored answer ended, for clients with `store=True`.
"""
