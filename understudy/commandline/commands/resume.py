"""`understudy resume TOKEN FILE.yaml`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TextIO

from understudy.actors.stores.open_store import MEMORY
from understudy.commandline.call_log import CallLog
from understudy.commandline.model_overrides import cast_of
from understudy.commandline.plain_progress import Quiet, progress_on
from understudy.commandline.report import UsageMistake
from understudy.errors import ProtocolViolation, SpecChanged, UnderstudyError, UnknownToken
from understudy.orchestration.definitions.port import Answer
from understudy.providers.http.credentials import check_key
from understudy.vocabulary.models import ModelName
from understudy.vocabulary.runs.outcomes import Approve, Decision, Outcome, Reject

from . import options
from .loading import agents_in, check_tools, load
from .printing import tell, warn
from .run import closing_seconds, watch
from .waiting import repeated, system_of, without_vain_token

if TYPE_CHECKING:
    from understudy.actors import ActorSystem
    from understudy.orchestration.definitions.runner import Runner
    from understudy.specs import LoadedSpec
    from understudy.vocabulary.runs.handles import RunHandle

ABOUT = """\
Resume a run that waits, and print its answer. The progress goes to standard
error, as in 'understudy run'.

The run waits in the store that --store or UNDERSTUDY_STORE named when it began.
The spec must still define the same agent, group or workflow. A token works
once. If the run waits again, a new token is printed.

If the run waits for several things, each has an id. Put --pause ID before the
answer to it; a pause without an answer goes on waiting. Without --pause,
--answer replies to the only question, and --approve and --reject decide about
all calls. A workflow with failed tasks needs no answer: it runs them again.
Nor does a run that ended with an error that may pass, such as a rate limit.

examples:
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --answer "Order 7"
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --approve --tools tools.py
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --reject "too much"
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --pause child/0/question --answer "Order 7" \\
      --pause child/1/approval --approve
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --budget total_tokens=80000
"""

HOW_TO_ANSWER = (
    "here: --answer TEXT to a question; --approve, or --reject REASON, for calls; --pause ID before it, if several wait"
)


def add_arguments(resume: argparse.ArgumentParser) -> None:
    """Add the arguments of `resume`."""
    resume.epilog = options.EXITS
    resume.add_argument("token", metavar="TOKEN", help="the token that was printed when the run began to wait")
    resume.add_argument("file", metavar="FILE.yaml", help="the spec")
    resume.set_defaults(pause=None, answers=[])
    resume.add_argument(
        "--pause",
        metavar="ID",
        action=_TakePause,
        help="the pause that the next answer is for; repeatable",
    )
    resume.add_argument("--answer", metavar="TEXT", type=options.text, action=_TakeAnswer, help="answer the question")
    resume.add_argument("--approve", nargs=0, action=_TakeAnswer, help="run all calls that wait for an approval")
    resume.add_argument(
        "--reject",
        metavar="REASON",
        nargs="?",
        const="",
        type=options.text,
        action=_TakeAnswer,
        help="run none of them; the model reads the reason",
    )
    resume.add_argument(
        "--max-iterations", metavar="N", type=int, help="a higher limit of tool rounds of the whole run"
    )
    resume.add_argument("--max-turns", metavar="N", type=int, help="a higher limit of model calls of the whole run")
    resume.add_argument(
        "--max-continues", metavar="N", type=int, help="a higher limit of continuations after a criterion"
    )
    resume.add_argument(
        "--max-output-retries", metavar="N", type=int, help="a higher limit of tries for a typed answer"
    )
    resume.add_argument(
        "--budget",
        metavar="LIMIT=N",
        action="append",
        default=[],
        type=options.limit,
        help="a higher limit of the budget of the whole run, such as total_tokens=80000; repeatable",
    )
    resume.add_argument("--adopt", action="store_true", help="go on even if the definition in the spec has changed")
    options.add_tools(resume)
    options.add_run_options(resume)


class _TakePause(argparse.Action):
    """Keeps a `--pause` for the answer option that follows."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        _refuse_unanswered(namespace)
        namespace.pause = values


def _refuse_unanswered(arguments: argparse.Namespace) -> None:
    """Refuse a `--pause` without an answer after it: an answer before it would apply to all pauses by mistake."""
    if arguments.pause is not None:
        raise UsageMistake(
            f"--pause {arguments.pause}: no answer to it follows; expected --pause ID and then --answer TEXT, "
            "--approve or --reject REASON"
        )


class _TakeAnswer(argparse.Action):
    """Keeps an answer together with the `--pause` before it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        pause: str | None = namespace.pause
        before: list[Given] = namespace.answers
        for other in before:
            if None in (pause, other.pause) or other.pause == pause:
                parser.error(
                    f"argument {option_string}: not allowed with argument {other.option}; --pause ID tells apart"
                )
        text = values if isinstance(values, str) else ""
        answer: str | Decision = text
        if option_string != "--answer":
            answer = Approve() if option_string == "--approve" else Reject(text)
        namespace.answers = [*before, Given(pause, str(option_string), answer)]
        namespace.pause = None


class Given(NamedTuple):
    """One answer, its option, and the id of its pause; None if the run has only one pause."""

    pause: str | None
    option: str
    answer: str | Decision


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Load the spec, continue the run, and print the answer."""
    _refuse_unanswered(arguments)
    refuse_missing_store(arguments.store)
    system = system_of(arguments)
    return carry_out(load(arguments.file, arguments.tools), system, arguments, out)


def refuse_missing_store(store: str) -> None:
    """Refuse a missing file: no run waits in it, and opening the store would create it."""
    path = store.removeprefix("sqlite:///").partition("?")[0]
    if store.startswith("sqlite:///") and path and "\0" not in path and not os.path.exists(path):
        raise UsageMistake(f"{path}: there is no such store; expected the --store that the run was begun with")


def carry_out(loaded: LoadedSpec, system: ActorSystem, arguments: argparse.Namespace, out: TextIO) -> int:
    """Continue a run of a spec, and print the answer."""
    log, began = CallLog(), time.monotonic()
    ended: Outcome[object] | BaseException
    try:
        ended = _resumed(loaded, system, arguments, log)
    except (UsageMistake, UnderstudyError, KeyboardInterrupt) as error:
        ended = error
    ended = without_vain_token(ended, arguments)
    seconds = closing_seconds(arguments, began)
    again = repeated(arguments)
    plain = arguments.plain or arguments.rehearse  # a rehearsal's text is not Markdown
    return tell(
        ended, out, json=arguments.json, log=log, again=again, seconds=seconds, debug=arguments.debug, plain=plain
    )


def _resumed(
    loaded: LoadedSpec, system: ActorSystem, arguments: argparse.Namespace, log: CallLog
) -> Outcome[object] | BaseException:
    runner = loaded.runner(waiting_runner(arguments, system))
    check_tools(runner)
    inside = agents_in([runner])
    if not (arguments.rehearse or arguments.replay):
        for agent in inside:
            if isinstance(agent.model, ModelName):  # check keys now: when the token is taken, approved calls run
                check_key(agent.model.provider)
    with contextlib.ExitStack() as stack:
        stack.enter_context(cast_of(agents_in(loaded.runners.values()), inside, arguments, warn))
        progress = Quiet() if arguments.json or arguments.log else progress_on(sys.stderr)
        stack.callback(progress.close)
        ended = watch(partial(_go_on, runner, arguments, system), log.see, progress.see)
    if not isinstance(ended, BaseException):
        log.put_first(ended.messages)
    return ended


def waiting_runner(arguments: argparse.Namespace, system: ActorSystem) -> str:
    """Return the id of the paused run's runner."""
    if arguments.store == MEMORY:
        raise UsageMistake(
            "a run waits in a store; expected --store sqlite:///FILE.db or the variable UNDERSTUDY_STORE"
        )
    try:
        return system.runner_of(arguments.token)
    except UnknownToken as error:
        raise UsageMistake(
            f"no paused run with this token in {arguments.store}. Check the token and the --store."
        ) from error
    except ValueError as error:
        raise UsageMistake(str(error)) from error


def _go_on(runner: Runner[object], arguments: argparse.Namespace, system: ActorSystem) -> RunHandle[object]:
    """Continue the run. A wrong answer raises `UsageMistake`: nothing has run then, and the token is still valid."""
    try:
        return runner.submit_resume(
            arguments.token,
            _answer(arguments.answers),
            timeout=arguments.timeout,
            system=system,
            max_iterations=arguments.max_iterations,
            max_turns=arguments.max_turns,
            max_continues=arguments.max_continues,
            max_output_retries=arguments.max_output_retries,
            budget=options.budget(arguments.budget),
            adopt=arguments.adopt,
        )
    except SpecChanged as error:
        raise UsageMistake(f"{error}\n  here: --adopt") from error
    except (TypeError, ProtocolViolation) as error:
        raise UsageMistake(f"{error}\n  {HOW_TO_ANSWER}") from error
    except ValueError as error:
        raise UsageMistake(str(error)) from error


def _answer(given: Sequence[Given]) -> Answer:
    if not given:
        return None
    if given[0].pause is None:
        return given[0].answer
    return {one.pause: one.answer for one in given if one.pause is not None}
