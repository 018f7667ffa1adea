"""Tools: from a typed Python function to a call that a model makes.

A function comes in, with `@tool`, by itself, or as a method of a toolset. Its signature is read and checked at once.
pydantic builds its JSON Schema and the validator of its arguments at the first use. A model sees the name, the
description and the schema. When the model calls the tool, the arguments are checked against the signature, and the
model reads the problems. Executors in the actors floor make the call, where the tool's `isolation` says.

Two tools are understudy's own: `ask_user` asks a person, `read_artifact` reads the rest of a result that was cut.
"""
