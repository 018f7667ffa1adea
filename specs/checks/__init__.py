"""Checks what a spec means: ids, references, cycles, tools, models, prompts, tasks and registered names.

Documents come in from `reading`, still raw, so that mistakes of meaning are found beside mistakes of shape. `definitions`
lists the agents, workflows and supervisors, checks their ids and references, and orders them by need. `agents`, `tools`,
`tasks` and `names` check one definition at a time. Problems go out, each at its place; nothing is built here.

The checks need the program's objects. `registry` has the registered ones, `registered_objects` knows which kind of object
each place takes, and `tool_names` resolves a tool's name to a registered tool or to a function in a file. `tool_files`
runs such a file, if the loader was allowed to. `model_clients` makes clients with options of their own, and
`settings` asks them which settings they take. The builders use
the same lookups later, so that a checked name always resolves to the object that was checked.
"""
