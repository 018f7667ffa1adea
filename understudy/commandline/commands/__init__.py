"""The commands of the command line, one module each: its arguments, its help, and the doing.

Each has `ABOUT` (what its help says), `add_arguments(parser)` and `do(arguments, out)`, which returns the exit status and
prints its answer to `out`: while it works, standard output itself is standard error, for what tools print is no answer.
"""
