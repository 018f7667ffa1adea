"""Replaces the models of a command's run: by a rehearsal, by other named models, by recorded ones, or by a tape."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TypeAlias

from understudy.orchestration import Agent
from understudy.providers import Recorder, Rehearsal, Replay, resolve
from understudy.specs.reading.problems import did_you_mean
from understudy.vocabulary.models import Model, ModelName, check_settings, name_of

from .report import UsageMistake

Say: TypeAlias = Callable[[str], None]


def cast_of(
    agents: Sequence[Agent[object]], called: Sequence[Agent[object]], arguments: argparse.Namespace, warn: Say
) -> contextlib.AbstractContextManager[None]:
    """Return a context manager that replaces the models of `agents` as the options say.

    Args:
        agents: all agents that may run.
        called: the agents of the run; only their models are named in messages.
        arguments: with `rehearse`, `record`, `replay`, `speed`, `json` and `events`.
        warn: prints to standard error.
    """
    model = ", ".join(dict.fromkeys([name_of(agent.model) for agent in called]))
    if arguments.model and (arguments.rehearse or arguments.replay is not None):
        other = "--rehearse" if arguments.rehearse else "--replay"
        raise UsageMistake(f"--model names who answers, and so does {other}; expected one of them")
    if arguments.speed is not None and arguments.replay is None:
        raise UsageMistake("--speed is that of a replay; expected --replay TAPE with it")
    named = named_models(agents, arguments.model)

    def say(text: str) -> None:
        if not arguments.json and not arguments.events:
            warn(text)

    if arguments.rehearse:
        return rehearsing(agents, say, model)
    if arguments.record is not None:
        return recording(agents, arguments.record, say, warn, named)
    if arguments.replay is not None:
        return replaying(agents, arguments.replay, say, model, arguments.speed)
    return _overriding(list(named), named.__getitem__)


def named_models(
    agents: Iterable[Agent[object]], given: Iterable[tuple[str, ModelName]]
) -> Mapping[Agent[object], Model]:
    """Return the replacement model of each agent; an option that names one agent wins over one for all.

    Raises:
        UsageMistake: no agent has the id, or the model lacks a setting of the agent.
    """
    by_id = {agent.id: agent for agent in agents}
    named: dict[Agent[object], Model] = {}
    for id, model in sorted(given, key=lambda one: one[0] != ""):
        if id and id not in by_id:
            there = f"there are {', '.join(by_id)}{did_you_mean(id, by_id)}"
            raise UsageMistake(f"--model {id}={model}: there is no agent {id!r}; {there}")
        named.update(dict.fromkeys([by_id[id]] if id else by_id.values(), resolve(model)))
    for agent, replacement in named.items():
        try:
            check_settings(replacement, agent.settings)
        except ValueError as error:
            raise UsageMistake(f"--model {name_of(replacement)}: agent {agent.id!r}: {error}") from None
    return named


@contextlib.contextmanager
def rehearsing(agents: Iterable[Agent[object]], say: Say, model: str) -> Generator[None]:
    """Let the rehearsal model answer for all agents."""
    with _overriding(agents, lambda agent: Rehearsal(agent.criteria)):
        say(f"rehearsal: the tools really run, a stand-in answers for {model}")
        yield


@contextlib.contextmanager
def recording(
    agents: Iterable[Agent[object]], tape: str, say: Say, warn: Say, named: Mapping[Agent[object], Model]
) -> Generator[None]:
    """Record all agents on a new tape, and tell at the end how many calls it has; `warn` gets a failure of the recording.

    `named` has the models that replace agents' own.

    Raises:
        UsageMistake: the file exists, or cannot be created.
    """
    try:
        recorder = Recorder(tape)
    except FileExistsError:
        raise UsageMistake(
            f"--record {tape}: there is such a file already, and it is left alone; name another, or remove it"
        ) from None
    except OSError as error:
        raise UsageMistake(f"--record {tape}: the file cannot be made: {error.strerror}") from None
    try:
        with _overriding(agents, lambda agent: recorder.record(named.get(agent, agent.model))):
            yield
    finally:
        with contextlib.suppress(Exception):  # the error is `problem`, which is printed next
            recorder.close()
    if recorder.problem is not None:
        warn(f"understudy: recording to {tape} stopped: {recorder.problem}")
    say(f"recorded {_calls(recorder.calls)} in {tape}")


@contextlib.contextmanager
def replaying(
    agents: Iterable[Agent[object]], tape: str, say: Say, model: str, speed: float | None = None
) -> Generator[None]:
    """Let a tape answer for all agents, and tell at the end how much of it was used.

    With `speed` streamed turns come as fast as they were recorded, or so many times faster.

    Raises:
        UsageMistake: the file cannot be read, or is not a tape that this version reads.
    """
    try:
        replay = Replay(tape, speed=speed)
    except FileNotFoundError:
        raise UsageMistake(f"--replay {tape}: there is no such file; --record makes a tape") from None
    except OSError as error:
        raise UsageMistake(f"--replay {tape}: the file cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageMistake(f"--replay: {error}") from None
    with _overriding(agents, lambda _: replay):
        say(f"replay: the tools really run, {tape} answers for {model}")
        if replay.torn:
            say(f"replay: {tape} ends in the middle of a line, which is left out; its recording was cut off")
        yield
    say(f"replayed {replay.given} of {_calls(replay.calls)} in {tape}")


@contextlib.contextmanager
def _overriding(agents: Iterable[Agent[object]], model_for: Callable[[Agent[object]], Model]) -> Generator[None]:
    with contextlib.ExitStack() as stack:
        for agent in agents:
            stack.enter_context(agent.override(model=model_for(agent)))
        yield


def _calls(number: int) -> str:
    return f"{number} model call{'' if number == 1 else 's'}"
