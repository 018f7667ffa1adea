"""`understudy resume TOKEN FILE.yaml`."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TextIO

from understudy.actors.pauses.stored_pauses import Token
from understudy.actors.stores.inspection.look_at import look_at
from understudy.actors.stores.inspection.run_list import RunList
from understudy.actors.stores.open_store import MEMORY
from understudy.commandline.call_log import CallLog
from understudy.commandline.event_words import Display
from understudy.commandline.model_overrides import cast_of
from understudy.commandline.report import UsageMistake
from understudy.errors import ProtocolViolation, SpecChanged, UnderstudyError, UnknownToken
from understudy.providers.http.credentials import check_key
from understudy.vocabulary.models import ModelName
from understudy.vocabulary.runs.outcomes import Outcome, Pause

from . import options
from .answers import add_answers, answer_of, refuse_unanswered, undecided
from .loading import agents_in, check_tools, load
from .printing import warn
from .run import watch
from .run_display import display_of, tell_end
from .waiting import redacted, refuse_missing_store, system_of

if TYPE_CHECKING:
    from understudy.actors import ActorSystem
    from understudy.orchestration.definitions.port import Answer
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

A call in doubt was under way when its process died. Each is decided by its id:
--approve CALL makes it again, --reject CALL=REASON fails it, and --happened
CALL=RESULT gives the model its result. 'understudy runs show' tells the calls.

examples:
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --answer "Order 7"
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --approve --tools tools.py
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --reject "too much"
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --pause child/0/question --answer "Order 7" \\
      --pause child/1/approval --approve
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --happened call-2-0=paid
  understudy resume TOKEN shop.yaml --store sqlite:///shop.db --budget total_tokens=80000
"""

HOW_TO_ANSWER = (
    "here: --answer TEXT to a question; --approve, or --reject REASON, for calls; --pause ID before it, if several wait; "
    "--approve CALL, --reject CALL=REASON or --happened CALL=RESULT for a call in doubt"
)


def add_arguments(resume: argparse.ArgumentParser) -> None:
    """Add the arguments of `resume`."""
    resume.epilog = options.EXITS
    resume.add_argument("token", metavar="TOKEN", help="the token that was printed when the run began to wait")
    add_options(resume)


def add_options(resume: argparse.ArgumentParser, *, again: bool = False) -> None:
    """Add the spec and the options; `again` if the parser around this one has `--store` and `--json` too."""
    resume.add_argument("file", metavar="FILE.yaml", help="the spec")
    add_answers(resume)
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
    options.add_run_options(resume, again=again)


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Load the spec, continue the run, and print the answer."""
    refuse_unanswered(arguments)
    refuse_missing_store(arguments.store)
    system = system_of(arguments)
    return carry_out(load(arguments.file, arguments.tools), system, arguments, out)


class Begun(NamedTuple):
    """Another way to go on with a run than by its token."""

    runner_id: str
    go_on: Callable[[Runner[object]], RunHandle[object]]


def carry_out(
    loaded: LoadedSpec, system: ActorSystem, arguments: argparse.Namespace, out: TextIO, begun: Begun | None = None
) -> int:
    """Continue a run of a spec, and print the answer."""
    log, began = CallLog(), time.monotonic()
    display: Display | None = None
    ended: Outcome[object] | BaseException
    try:
        way = begun or Begun(waiting_runner(arguments, system), partial(_go_on, arguments, system))
        runner = loaded.runner(way.runner_id)
        check_tools(runner)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_models_of(runner, loaded, arguments))
            display = display_of(runner, arguments, out)
            stack.callback(display.close)
            ended = watch(partial(way.go_on, runner), log.see, display.see)
        if not isinstance(ended, BaseException):
            log.put_first(ended.messages)
    except (UsageMistake, UnderstudyError, KeyboardInterrupt) as error:
        ended = error
    return tell_end(ended, arguments, out, log, time.monotonic() - began, display)


def _models_of(
    runner: Runner[object], loaded: LoadedSpec, arguments: argparse.Namespace
) -> contextlib.AbstractContextManager[None]:
    """Return the context in which the models are those that the options name, once their keys are there."""
    inside = agents_in([runner])
    if not (arguments.rehearse or arguments.replay):
        for agent in inside:
            if isinstance(agent.model, ModelName):  # check keys now: when the token is taken, approved calls run
                check_key(agent.model.provider)
    return cast_of(agents_in(loaded.runners.values()), inside, arguments, warn)


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
            f"no paused run with this token in {redacted(arguments.store)}. Check the token and the --store."
        ) from error
    except ValueError as error:
        raise UsageMistake(str(error)) from error


def _go_on(arguments: argparse.Namespace, system: ActorSystem, runner: Runner[object]) -> RunHandle[object]:
    """Continue the run. A wrong answer raises `UsageMistake`: nothing has run then, and the token is still valid."""
    answer: Answer = None
    try:
        answer = answer_of(arguments.answers, partial(_waiting_calls, arguments))
        return runner.submit_resume(
            arguments.token,
            answer,
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
        in_doubt = undecided(_waiting_pauses(arguments), arguments.answers, answer)
        raise UsageMistake(in_doubt or f"{error}\n  {HOW_TO_ANSWER}") from error
    except ValueError as error:
        raise UsageMistake(str(error)) from error


def _waiting_calls(arguments: argparse.Namespace) -> list[str]:
    """Return the ids of the calls that the run waits with."""
    return [call.id for pause in _waiting_pauses(arguments) for call in pause.calls]


def _waiting_pauses(arguments: argparse.Namespace) -> tuple[Pause, ...]:
    """Return the pauses in which the run waits."""
    from understudy.orchestration.journal.told_runs import pauses_in
    from understudy.orchestration.saving.saved_run import SavedRun

    token = Token.parse(arguments.token)
    database = None if token is None else look_at(arguments.store)
    entry = None if database is None or token is None else RunList(database).entry(token.run_id)
    if entry is None or entry.waits is None:
        return ()  # what is wrong with the token is told by those who take it
    return pauses_in(SavedRun.from_json(entry.waits.payload))
