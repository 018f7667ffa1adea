"""Defines which keys and types a spec may have, as pydantic models.

A `Document` comes in from `reading`. `conformance` validates it against `SpecGrammar`, and turns pydantic's errors into
problems with a place, the expected value and a suggestion. Objects of the grammar go out to `builders`: one
`AgentGrammar`, `TaskGrammar` and so on for each mapping of the document.

`agent` holds the keys of agents and criteria, `memory` those of memories, `groups` those of groups, workflows and
supervisors, and `named` those of registered objects; `spec` holds the top level, and `grammar` what all of them share. The same
models are the source of two publications: `json_schema` writes the JSON Schema for editors, and `reference_page` writes
`docs/spec-reference.md`.

The grammar knows shapes only. Whether a name or a number makes sense is decided in `checks`.
"""
