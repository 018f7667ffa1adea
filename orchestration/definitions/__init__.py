"""What users define: agents, groups, workflows and sub-agents, as values.

A user's arguments come in and are checked at once, so that a mistake raises where it is made. The result is a frozen
`Runner` that any number of threads may share. It makes no thread and no connection until it runs.

A definition does not run itself. `run`, `submit`, `map` and `resume` look up the runtime through `port.py` and hand it
the definition with its options. The runtime reads the `run_spec` of the definition, which is plain data for a machine.
"""
