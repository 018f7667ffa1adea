"""Builds the definitions of a checked spec: agents, groups, workflows and supervisors.

Objects of the grammar come in, with the order that `checks` found: each definition after the definitions it needs.
`Builder` makes them one by one; `AgentBuilder` makes the agents, with their models, prompts, tools, memories, criteria
and callbacks. Arguments that a spec leaves out are not passed, so the defaults are those of the Python classes.

`LoadedSpec` gets the results: the same objects that Python code would have made. If a class refuses an argument after
all, the error becomes a problem at the place of the definition, and definitions that need it are skipped.
"""
