"""Definitions, and every decision about them: pure code, driven by others."""

from .agent import Agent
from .run import AgentRun
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
    RetryTurn,
    SkipCall,
    StopRun,
)
from .supervision import RestartLimit

__all__ = [
    "Agent",
    "AgentRun",
    "AwaitApproval",
    "AwaitInput",
    "CallModel",
    "CallTools",
    "Done",
    "FailRun",
    "InvalidCall",
    "RepairCall",
    "RestartLimit",
    "RetryTurn",
    "RunSpec",
    "SkipCall",
    "StopRun",
]
