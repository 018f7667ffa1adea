"""`understudy resume TOKEN FILE.yaml`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from understudy.actors.stores import MEMORY
from understudy.casting import cast_of
from understudy.errors import UnderstudyError
from understudy.messages import Message, ToolResult
from understudy.models import ModelName
from understudy.orchestration import Agent
from understudy.orchestration.port import Answer
from understudy.outcomes import Approve, Outcome, Reject
from understudy.providers.credentials import check_key
from understudy.report import CallLog, UsageMistake

from . import options
from .loading import agents_in, check_tools, load
from .printing import tell, warn
from .waiting import repeated, system_of, without_vain_token

if TYPE_CHECKING:
    from understudy.actors import ActorSystem

ABOUT = """\
Go on with a run that waits, and print its answer.

The run waits in the store that --store or UNDERSTUDY_STORE named when it began; the spec must define its agent as it did then.
A token works once. If the run waits again, a new token is printed.

examples:
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --answer "Order 7"
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --approve --tools tools.py
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --reject "too much"
"""

HOW_TO_ANSWER = "here: --answer TEXT to a question; --approve, or --reject REASON, for calls"


def add_arguments(resume: argparse.ArgumentParser) -> None:
    """Say what `resume` takes."""
    resume.epilog = options.EXITS
    resume.add_argument("token", metavar="TOKEN", help="what the run left when it began to wait")
    resume.add_argument("file", metavar="FILE.yaml", help="the spec")
    answers = resume.add_mutually_exclusive_group()
    answers.add_argument("--answer", metavar="TEXT", help="answer the question")
    answers.add_argument("--approve", action="store_true", help="let all calls run that wait for it")
    answers.add_argument(
        "--reject", metavar="REASON", nargs="?", const="", help="let none of them run; the model reads the reason"
    )
    resume.add_argument("--max-iterations", metavar="N", type=int, help="a higher limit, from the run's beginning")
    resume.add_argument("--max-turns", metavar="N", type=int, help="a higher limit, from the run's beginning")
    resume.add_argument(
        "--adopt", action="store_true", help="go on even if the spec defines the agent in another way now"
    )
    options.add_tools(resume)
    options.add_run_options(resume)


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Go on with the run, and print the answer."""
    log = CallLog()
    ended: Outcome[object] | BaseException
    try:
        ended = _resumed(arguments, log)
    except (UsageMistake, UnderstudyError, KeyboardInterrupt) as error:
        ended = error
    ended = without_vain_token(ended, arguments)
    return tell(ended, out, json=arguments.json, log=log, again=repeated(arguments))


def _resumed(arguments: argparse.Namespace, log: CallLog) -> Outcome[object]:
    system = system_of(arguments)
    loaded = load(arguments.file, arguments.tools)
    agent = loaded.agent(agent_id(arguments, system))
    check_tools(agent)
    inside = agents_in([agent])
    if not (arguments.rehearse or arguments.replay):
        for one in inside:
            if isinstance(one.model, ModelName):
                check_key(
                    one.model.provider
                )  # now: once the token is taken, what was approved is done, and the run is lost
    with cast_of(agents_in(loaded.runners.values()), inside, arguments, warn):
        return go_on(agent, arguments, system, log)


def agent_id(arguments: argparse.Namespace, system: ActorSystem) -> str:
    """Return the id of the agent whose run waits."""
    if arguments.store == MEMORY:
        raise UsageMistake(
            "a run waits in a store; expected --store sqlite:///FILE.db or the variable UNDERSTUDY_STORE"
        )
    try:
        return system.runner_of(arguments.token)
    except ValueError as error:
        raise UsageMistake(str(error)) from error


def go_on(agent: Agent[object], arguments: argparse.Namespace, system: ActorSystem, log: CallLog) -> Outcome[object]:
    """Resume the run. What is wrong with the answer is a `UsageMistake`: nothing was run, and the token stands."""
    try:
        outcome = agent.resume(
            arguments.token,
            _answer(arguments),
            timeout=arguments.timeout,
            system=system,
            max_iterations=arguments.max_iterations,
            max_turns=arguments.max_turns,
            adopt=arguments.adopt,
        )
    except TypeError as error:
        raise UsageMistake(f"{error}\n  {HOW_TO_ANSWER}") from error
    except ValueError as error:
        raise UsageMistake(str(error)) from error
    _log_calls(outcome.messages, log)
    return outcome


def _answer(arguments: argparse.Namespace) -> Answer:
    if arguments.approve:
        return Approve()
    if arguments.reject is not None:
        return Reject(arguments.reject)
    answer: str | None = arguments.answer
    return answer


def _log_calls(messages: Sequence[Message], log: CallLog) -> None:
    """Put a run's tool calls into the log; those of another process have sent no events here."""
    results: dict[str, ToolResult] = {}
    for message in reversed(messages):
        results |= {result.call_id: result for result in message.tool_results}
        for call in reversed(message.tool_calls):
            log.calls.insert(0, (call, results.pop(call.id, None)))
