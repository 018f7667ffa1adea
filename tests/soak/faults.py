"""Runs whose model is out of order: recorded exchanges with faults, and a server that rolls dice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice

import understudy as us
from tests.support.clients import client
from tests.support.peers import PROVIDERS, Peer, Provider
from tests.support.wire import Case
from understudy.providers.http.model_client import HttpModel
from understudy.vocabulary.messages import JsonObject

AT_ONCE = 16
PATIENCE = (
    30.0  # Seconds a run may take; the longest wait that a server asks for, and each attempt's time, are far below.
)
BOUND = 2 * PATIENCE
"""Seconds after which a run that has no answer will have none."""
IMPATIENCE = 0.3

FAULTS = {
    "whole": "",
    "dropped before the body": "drop=0",
    "dropped in the body": "drop=40",
    "dropped once": "drop=40,times=1",
    "truncated": "truncate=40",
    "truncated once": "truncate=40,times=1",
    "delayed": "chunk=200,delay=5",
    "too late": "wait=1000",
    "reset first": "fail_first=1,status=0",
    "429 first": "fail_first=1,status=429,retry_after=0",
    "429 first, with a date": "fail_first=1,status=429,retry_after=date0",
    "429 always": "fail_first=99,status=429,retry_after=0",
    "500 first": "fail_first=1,status=500",
    "500 always": "fail_first=99,status=500",
}
"""Name -> options of the replay server."""

CHAOS: JsonObject = {
    "dropRate": 0.15,
    "malformedRate": 0.15,
    "rateLimitRate": 0.15,
    "disconnectRate": 0.15,
    "latencyMs": 20,
}
"""How often aimock answers 500, garbage, 429 and nothing; each dice is rolled where the ones before it came to nothing."""
CHAOTIC = "Is there order?"


@dataclass(frozen=True, slots=True)
class Trial:
    """One run to come."""

    fault: str
    model: Callable[[], HttpModel]


def replayed(cases: Iterable[Case], server: str) -> Iterator[Trial]:
    """Deal out recorded exchanges with each fault in turn, without end."""
    for number, (case, (fault, options)) in enumerate(_crossed(list(cases))):
        address = f"{server}/~{options},run={number}" if options else server
        timeout = IMPATIENCE if fault == "too late" else PATIENCE
        yield Trial(fault, _replaying(case, address, timeout))


def _crossed(cases: list[Case]) -> Iterator[tuple[Case, tuple[str, str]]]:
    while True:
        for fault in FAULTS.items():
            for case in cases:
                yield case, fault


def _replaying(case: Case, address: str, timeout: float) -> Callable[[], HttpModel]:
    return lambda: client(case, address, attempts=2, timeout=timeout)


def chaotic(peer: Peer, providers: Sequence[Provider] = PROVIDERS) -> Iterator[Trial]:
    """Teach aimock its fixture, and deal out its providers, without end. All runs of a provider have one key."""
    peer.teach([{"match": {"userMessage": CHAOTIC}, "response": {"content": "There is."}, "chaos": CHAOS}])
    for provider in cycle(providers):
        yield Trial("chaos", _reaching(provider, peer))


def _reaching(provider: Provider, peer: Peer) -> Callable[[], HttpModel]:
    return lambda: provider.client(peer, attempts=2)


def try_all(trials: Iterator[Trial], runs: int, progress: Callable[[str], object]) -> Counter[tuple[str, str]]:
    """Carry out the next `runs` trials, some at a time; (fault, how the run ended) -> how often.

    Raises:
        TimeoutError: a run had no answer in time.
        Exception: a run ended in an error that has no name of ours, which is raised as it is.
    """
    endings: Counter[tuple[str, str]] = Counter()
    with us.ActorSystem("faults") as system, ThreadPoolExecutor(AT_ONCE, "trial") as pool:
        ended = pool.map(partial(_ended, system), islice(trials, runs))
        for number, how in enumerate(ended, 1):
            endings[how] += 1
            if number % 50 == 0 or number == runs:
                progress(f"{number} runs ended, of {runs}")
    assert endings.total() == runs
    return endings


def _ended(system: us.ActorSystem, trial: Trial) -> tuple[str, str]:
    """Carry out one trial, and return its fault and how its run ended."""
    with trial.model() as model:
        # One round is enough for recordings that call tools: nobody has those tools.
        agent = us.Agent("clerk", model=model, max_iterations=1)
        begun = agent.replace(model=us.FunctionModel(model.complete))  # the recordings are of whole turns
        try:
            return trial.fault, type(begun.submit(CHAOTIC, system=system, timeout=PATIENCE).result(BOUND)).__name__
        except us.UnderstudyError as error:
            return trial.fault, type(error).__name__
