"""The command line's part in runs that wait: `understudy resume TOKEN FILE.yaml`, and what `--store` means."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace

from understudy.actors import ActorSystem
from understudy.actors.current import STORE
from understudy.actors.stores import MEMORY
from understudy.errors import RunError
from understudy.messages import Message, ToolResult
from understudy.orchestration import Agent
from understudy.orchestration.port import Answer
from understudy.outcomes import Approve, Complete, Outcome, Reject

from .report import CallLog, UsageMistake

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
    """Say what `resume` takes besides the options of `run`."""
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


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add `--store`."""
    parser.add_argument(
        "--store",
        metavar="URL",
        default=os.environ.get(STORE) or MEMORY,
        help="where runs wait for a person, such as sqlite:///shop.db; else what UNDERSTUDY_STORE says, else nowhere",
    )


def system_of(arguments: argparse.Namespace) -> ActorSystem:
    """Return a system with the store that was named."""
    try:
        return ActorSystem(store=arguments.store)
    except ValueError as error:
        raise UsageMistake(f"--store: {error}") from error


def repeated(arguments: argparse.Namespace) -> str:
    """Return the part of a command line that `understudy resume TOKEN` must repeat to go on with its run."""
    words: list[str] = [arguments.file]
    for file in arguments.tools:
        words += ["--tools", file]
    if arguments.store != os.environ.get(STORE, MEMORY):
        words += ["--store", arguments.store]
    if arguments.rehearse:
        words += ["--rehearse"]
    if arguments.replay is not None:
        words += ["--replay", arguments.replay]
    return shlex.join(words)


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


def without_vain_token(
    ended: Outcome[object] | BaseException, arguments: argparse.Namespace
) -> Outcome[object] | BaseException:
    """Return how a run ended, without the token if that ends with this process."""
    if arguments.store != MEMORY:
        return ended
    if isinstance(ended, RunError):
        ended.token = ""
    elif not isinstance(ended, (BaseException, Complete)):
        return replace(ended, token="")
    return ended
