"""One run of one agent, decided step by step.

A driver makes an `AgentRun` of a `RunSpec` (the agent as data) and an input. It asks for the `next_step` (call the
model, run tools, ask a person, done), does it, and feeds the result back. The run then changes its `RunState`: it
takes the turn, opens or closes a round of tool calls, notes pauses, counts against limits and budgets. At the end the
driver gets an outcome, or `next_step` raises the error that ended the run.

A run is a state machine. It starts no thread, reads no clock and calls no function of the user's; the driver does, and
passes the verdict. Between any two steps the run can be saved as text and loaded in another process.

Start reading at `run.py` (the methods) and `state.py` (the data, and the table of phases).
"""
