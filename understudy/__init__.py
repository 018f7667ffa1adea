"""understudy: an actor-model runtime for LLM agents, on threads, with no event loop."""
