"""Tools: from a typed Python function to a call that a model makes.

A function comes in, with `@tool`, by itself, or as a method of a toolset. Its signature is read and checked at once; its
JSON Schema and the validator of its arguments are built by pydantic at the first use. A model sees name, description and
schema. When it calls the tool, its arguments are checked against the signature, and the problems are put into words
that the model can act on. Executors in the actors floor make the call, where the tool's `isolation` says.

Two tools are understudy's own: `ask_user` asks a person, `read_artifact` reads the rest of a result that was cut.
"""
