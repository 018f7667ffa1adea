"""The events of a run in the forms of web front ends: plain JSON, AG-UI and the UI message stream of the AI SDK.

Events come in, JSON objects or bytes go out. `event_json` tells each event as one object, and `sse` frames it for
`text/event-stream`. The encoders of AG-UI and the AI SDK keep what is open in the front end: a text, a tool call, a step.
`run_parts` finds these parts in the events of one run, and an encoder says them in its protocol. `interrupts` gives each
thing that a paused run waits for an id, and `answers` reads the front end's answers back.

Nothing here has a thread or a clock: the runtime reads the events of a handle and sends the bytes.
"""
