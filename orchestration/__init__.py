"""Definitions, and every decision about them: pure code, driven by others."""

from .agent import Agent
from .children import AwaitChildren, ChildFailure, ChildOrder, ChildResult, RunChildren
from .delegation import SubAgent, SubAgentLike
from .graph_run import GraphRun
from .graph_spec import GraphSpec
from .group_run import GroupDone
from .group_spec import GroupSpec
from .groups import ParallelAgent, SequentialAgent
from .parallel_run import ParallelRun
from .rules import InvalidCallRule
from .rulings import Ruling
from .run import AgentRun
from .runner import Runner
from .sequence_run import SequenceRun
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
from .workflows import Task, Workflow

__all__ = [
    "Agent",
    "AgentRun",
    "AwaitApproval",
    "AwaitChildren",
    "AwaitInput",
    "CallModel",
    "CallTools",
    "Child",
    "ChildFailure",
    "ChildOrder",
    "ChildResult",
    "Directive",
    "Done",
    "FailRun",
    "GraphRun",
    "GraphSpec",
    "GroupDone",
    "GroupSpec",
    "InvalidCall",
    "InvalidCallRule",
    "OneForAll",
    "OneForOne",
    "ParallelAgent",
    "ParallelRun",
    "RepairCall",
    "Resolution",
    "RestForOne",
    "RetryTurn",
    "Ruling",
    "RunChildren",
    "RunSpec",
    "Runner",
    "SequenceRun",
    "SequentialAgent",
    "SkipCall",
    "StopRun",
    "SubAgent",
    "SubAgentLike",
    "Supervisor",
    "Task",
    "Workflow",
]
