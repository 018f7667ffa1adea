"""The runtime: actors on threads that carry out what machines decide."""

from understudy.actors.actor.actor import Actor
from understudy.actors.actor.commands import Timer
from understudy.actors.actor.ref import ActorRef
from understudy.actors.actor.supervisor_ref import SupervisorRef
from understudy.actors.cells.subscriptions import Subscription
from understudy.actors.memory.persistent import PersistentMemory
from understudy.actors.stores.database import StoreFigures
from understudy.actors.system.actor_system import ActorSystem
from understudy.actors.system.agent_ref import AgentRef
from understudy.actors.system.health import ActorFigures, Health
from understudy.actors.system.preloading import preload
from understudy.actors.system.runtime import configure, current_system, runtime
from understudy.actors.system.stored_run_handle import StoredRunHandle
from understudy.actors.waiting.combine import collect, first

__all__ = [
    "Actor",
    "ActorFigures",
    "ActorRef",
    "ActorSystem",
    "AgentRef",
    "Health",
    "PersistentMemory",
    "StoreFigures",
    "StoredRunHandle",
    "Subscription",
    "SupervisorRef",
    "Timer",
    "collect",
    "configure",
    "current_system",
    "first",
    "preload",
    "runtime",
]
