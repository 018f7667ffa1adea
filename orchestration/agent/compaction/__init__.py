"""How a run shortens its requests when a long history fills the model's context window.

`AgentRun.next_step` comes here before each model call of a run with a rule. `decisions.py` looks at the size of the request
once: what the provider billed for the last turn, and an estimate of what was added. At the threshold it leaves old tool
results out, or begins a summary up to a place that `cuts.py` allows. `summaries.py` makes the request for the next round of
the summary, which is sent like any model call, and says whether the answer is a summary. `turns.py` takes that
answer and its tokens. `view.py` makes the messages of each request of the run's messages, which stay as they are, and
`ContextState` in `context_state.py`. A refusal of a request as too long comes to `decisions.py` too.
"""
