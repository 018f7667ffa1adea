"""The client of OpenAI's chat completions and compatible servers.

A `ModelRequest` comes in to `OpenAI`. `wire.encode` writes the body, with the help of `sent_messages`; the room `http` sends
it, with retries, and reads the answer; `wire.decode` makes a `ModelTurn` of it, which goes out. Both have no state and do no
I/O. They know the dialects of compatible servers, such as DeepSeek, OpenRouter, Groq, Mistral and vLLM: each has names of its
own for reasoning, finish reasons and cached tokens. `stream` reads streamed answers into the pieces of the same turn, with the
help of `stream_calls`. `families` tells which models need the other API of OpenAI, whose client is the
room `responses`.
"""
