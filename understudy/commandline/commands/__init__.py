"""The commands of the command line, one module each.

A command's module has `ABOUT`, the text of its help, `add_arguments(parser)`, and `do(arguments, out)`. `cli` imports only
the module of the command that was called, parses the arguments, and calls `do`. That prints the answer to `out` and returns
the exit status; meanwhile `sys.stdout` is standard error, so that prints of tools do not mix with the answer.

`run`, `resume`, `chat` and `demo` run agents: `loading` loads the spec and its files of tools, `waiting` opens the store,
`model_overrides` may replace the models, and `printing` prints the outcome. `check`, `graph` and `schema` run none.
`run_display` chooses how a run is shown.
`options` has the options that several commands share; `chat` and `lines` read a person's answers.
"""
