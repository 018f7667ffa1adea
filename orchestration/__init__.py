"""Definitions, and every decision about them: pure code, driven by others."""

from .agent import Agent
from .delegation import SubAgent, SubAgentLike
from .rules import InvalidCallRule
from .rulings import Ruling
from .run import AgentRun
from .runner import Runner
from .spec import RunSpec
from .steps import (
    AwaitApproval,
    AwaitInput,
    CallModel,
    CallTools,
    Done,
    FailRun,
    InvalidCall,
    RepairCall,
    Resolution,
    RetryTurn,
    SkipCall,
    StopRun,
)
from .supervision import Directive, OneForAll, OneForOne, RestForOne
from .supervisors import Child, Supervisor

__all__ = [
    "Agent",
    "AgentRun",
    "AwaitApproval",
    "AwaitInput",
    "CallModel",
    "CallTools",
    "Child",
    "Directive",
    "Done",
    "FailRun",
    "InvalidCall",
    "InvalidCallRule",
    "OneForAll",
    "OneForOne",
    "RepairCall",
    "Resolution",
    "RestForOne",
    "RetryTurn",
    "Ruling",
    "RunSpec",
    "Runner",
    "SkipCall",
    "StopRun",
    "SubAgent",
    "SubAgentLike",
    "Supervisor",
]
