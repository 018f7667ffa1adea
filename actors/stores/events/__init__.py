"""The events of streamed runs in a database, for readers in any process.

A run under way writes a row for each of its events into its journal, in the table of `actors/stores/runs.py`. The end of the run
leaves these rows for an hour; the next run that begins after that removes them (`rows`). A reader asks for the events after its
place, and for where the run stands, with one query (`pages`).
"""
