"""The error of a message to an actor that takes none: it is Pykka's error too."""

from __future__ import annotations

import pykka

from understudy.errors import AgentDown


class ActorDead(AgentDown, pykka.ActorDeadError):
    """An actor takes no messages: it has stopped, is given up, or has no thread."""


ActorDead.__name__ = "AgentDown"  # error texts name the class that users catch
