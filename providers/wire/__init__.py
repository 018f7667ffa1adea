"""Functions that the wire formats of all APIs share; none of them does I/O.

The `wire` modules of `openai`, `anthropic` and `google` call them on the way in and out. Writing a body: `settings` refuses
what an API lacks and lays extra fields over the body, `families` has the form of the tables that say what each family of models
makes of a setting, `output_formats` asks for an answer of a given form and makes the schemas of tools strict, and `result_parts`
splits a tool's result into text and the pictures that an API accepts. Reading a body: `json_values` parses JSON and narrows
it, raising `WrongShape` with the place; `endings` maps a provider's finish reason to ours. Reading a stream: `server_events` splits
the body into events, and a `StreamDecoder` of the API makes pieces of a turn of them.
"""
