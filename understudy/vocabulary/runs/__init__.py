"""What users see of a run: how it ends, what happens in it, and where they can step in.

`run` returns an outcome and `submit` a handle. Events tell what happens meanwhile. Callbacks, guardrails and criteria
are asked at fixed points and may change, end or continue the run. A memory loads the conversation before the run and
stores it afterwards. A run that waits for a person ends with a pause, which a pause store keeps until the answer comes.
"""
