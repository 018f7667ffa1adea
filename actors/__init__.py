"""The runtime: actors on threads that carry out what machines decide."""

from .service import runtime
from .system import ActorSystem

__all__ = ["ActorSystem", "runtime"]
