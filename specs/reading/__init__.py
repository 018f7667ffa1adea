"""Reads the text of a spec into plain values, each with its line and column.

Text or a file's path comes in from the loader, with the environment. `document` parses YAML without executing anything,
counts what aliases expand to, and records the place of every value and key; it fills in `${env:NAME}`, and
refuses names that look like secrets. `files` follows the includes and reads the prompt files; all of them must be inside
the spec's folder. `document` also explains PyYAML's errors to authors.

`Sources` goes out: one `Document` for each file, with its problems listed and not raised. The rooms above read documents
as `LocatedValue`s, which can be asked for any path, and report a mistake as a `Problem` at its place. `spec_error` turns
all problems into one `SpecError`.
"""
