"""Typed answers: from a Python type to a JSON Schema, and from a model's text to a value.

An agent gets an `output_type`: a class, another type, or a `JsonSchema`. At the first run its schema is built here,
and, where a provider wants the strict subset, translated into that. When the model answers, its text is parsed and
checked here: the result is a value of the type, or the problem in words that the model can use to correct its answer.

pydantic and jsonschema are slow to load, so only the modules that need them import them, at the first use.
"""
