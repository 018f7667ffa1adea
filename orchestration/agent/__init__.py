"""One run of one agent, decided step by step.

The runtime, or code that drives a run by hand, makes an `AgentRun` of a `RunSpec` (the agent as data) and an input. It
asks for the `next_step` (call the model, run tools, ask a person, done), does it, and feeds the result back. The run then
changes its `RunState`: it takes the turn, opens or closes a round of tool calls, notes pauses, counts against limits and
budgets. At the end `next_step` returns the outcome, or raises the error that ended the run.

A run is a state machine. It starts no thread, reads no clock and calls no function of the user's; the runtime does, and
feeds the verdict. Between any two steps the run can be saved as text and loaded in another process.

Start reading at `run.py` (the methods) and `state.py` (the data, and the table of phases).
"""
