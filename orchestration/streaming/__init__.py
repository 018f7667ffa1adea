"""A model's turn that comes in pieces, put together.

A streamed turn and one that came whole are fed to a run alike, so its machine knows nothing of pieces.
"""
