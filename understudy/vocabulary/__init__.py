"""The words of understudy: the data that all floors above exchange, and the protocols that users implement.

A class belongs here if more than one floor needs it. It holds data and small checks, starts nothing, and imports only
`understudy.errors` and other words. Most public names of the package are defined here.

- `messages`, `media`, `models`: what goes to a model and comes back.
- `context/`: what a run carries with it: session, budget, deadline, ancestry.
- `tools/`: how a function becomes a tool.
- `answers/`: typed answers and their schemas.
- `runs/`: outcomes, events, callbacks, memory.
- `actors/`: messages and events of the actor system.
- `checks`, `json_text`, `fast_init`: helpers of the others.
"""
