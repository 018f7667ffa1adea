"""Decisions about failures and time limits.

When a child actor fails, its supervisor asks here with the child's restart type, the error's directive and the current
time. The answer is a directive: resume, restart some children after a backoff, stop, or escalate because the restarts
of the period are used up. Strategies say which of the siblings restart too.

When a tool call is under way, its driver asks here what is due: wait, make the call again, warn it, or give it up.

The modules hold values and functions. The actors floor starts, stops and waits.
"""
