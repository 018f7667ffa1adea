"""The runtime: actors on threads that carry out what machines decide."""

from .actor import Actor
from .agentref import AgentRef
from .current import configure
from .health import ActorFigures, Health
from .merging import collect, first
from .preloading import preload
from .ref import ActorRef, SupervisorRef
from .service import runtime
from .subscriptions import Subscription
from .system import ActorSystem
from .timers import Timer

__all__ = [
    "Actor",
    "ActorFigures",
    "ActorRef",
    "ActorSystem",
    "AgentRef",
    "Health",
    "Subscription",
    "SupervisorRef",
    "Timer",
    "collect",
    "configure",
    "first",
    "preload",
    "runtime",
]
