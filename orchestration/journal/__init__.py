"""The journal of a run as data: which rows a run has, and the run put together from them.

A run writes the rows that are new or that changed: one for each message, and a head of bounded size. Runs inside of it have
rows too, under a path of their own. What is put together is the text of a saved run, with the calls that were under way in
doubt. Some modules load pydantic: import them when they are needed.
"""
