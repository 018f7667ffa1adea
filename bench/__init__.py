"""What understudy costs, next to bare threads and bare Pykka: `python -m bench`."""
