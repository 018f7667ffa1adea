"""Paused runs as text, for all kinds of runners.

When a run pauses, its record makes a `SavedRun`: the machine's text, the session, and what else another process needs.
The text goes to a pause store. When a person answers, the runtime reads the text, finds the machine for this kind of
runner, and checks that the definition is still the same. If limits are raised with the answer, the limits of the
children that reached one are raised inside of their texts.
"""
