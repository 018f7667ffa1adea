"""Many runs that go wrong, and what is left of them: `python -m tests.soak`."""
