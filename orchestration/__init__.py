"""Definitions, and every decision about them: pure code, driven by others."""

from understudy.orchestration.agent.rulings import Ruling
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.agent.steps import (
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
from understudy.orchestration.definitions.agent import Agent
from understudy.orchestration.definitions.agent_rules import InvalidCallRule
from understudy.orchestration.definitions.call_checks import CallCheck, CallChecks
from understudy.orchestration.definitions.groups import ParallelAgent, SequentialAgent
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.definitions.sub_agent import SubAgent, SubAgentLike
from understudy.orchestration.definitions.workflow import Task, Workflow
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.graph.spec import GraphSpec
from understudy.orchestration.group.children import AwaitChildren, ChildFailure, ChildOrder, ChildResult, RunChildren
from understudy.orchestration.group.group_run import GroupDone
from understudy.orchestration.group.parallel_run import ParallelRun
from understudy.orchestration.group.sequence_run import SequenceRun
from understudy.orchestration.group.spec import GroupSpec
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.orchestration.supervision.restarts import Directive, OneForAll, OneForOne, RestForOne
from understudy.orchestration.supervision.supervisor import Child, Supervisor

__all__ = [
    "Agent",
    "AgentRun",
    "AwaitApproval",
    "AwaitChildren",
    "AwaitInput",
    "CallCheck",
    "CallChecks",
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
    "TurnAssembler",
    "Workflow",
]
