"""Models that need no key and no network.

A `ModelRequest` comes in and a `ModelTurn` goes out, as with any model, but the answer is made in the process. In `doubles`,
`FunctionModel` calls a function and `ScriptedModel` returns given turns in order, also in `pieces`; both
are for tests. `Rehearsal` calls every tool once with made-up arguments and then answers, so that an agent can be tried before
a model is paid for. The same request gets the same turn; a stream has it word by word.
"""
