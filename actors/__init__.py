"""The runtime: actors on threads that carry out what machines decide."""

from .merging import collect, first
from .service import runtime
from .system import ActorSystem

__all__ = ["ActorSystem", "collect", "first", "runtime"]
