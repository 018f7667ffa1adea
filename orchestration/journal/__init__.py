"""The journal of a run as data: its line of events in rows, what stands in rows beside it, and the run that they come to.

Runs inside have rows too, under a path of their own. What is put together is the text of a saved run, with the calls that were
under way in doubt. Some modules load pydantic: import them when they are needed.
"""
