"""What a run carries with it, from its start through every tool and sub-agent.

A run begins with a `Scope` (deadline, retries left, cancellation), an ancestry (which runs wait for it), permits (which
runners may run below it), an account (what it may spend) and a session (the values its parts share). Runs inside of it
get the same objects, narrowed where a limit says so. Tools and prompts see a part of them as `ToolContext` and
`RunContext`. When the run ends, its spending and its session go into the outcome.
"""
