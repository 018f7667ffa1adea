"""Runs of nested runners that pause at the leaf in one process and go on, end, or are cut off in others."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.nested import Leaf, ending, notes, path_to
from tests.support.scripts import eventually

from .processes import WAIT, started

pytestmark = pytest.mark.timeout(60)
LEAVES: list[Leaf] = ["agent", "lead"]
leaves = pytest.mark.parametrize("leaf", LEAVES)
LONG = "20"  # Seconds that nothing takes.


class Office:
    """A process that has the tree and the store."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert self.hear() == ["ready"]

    def ask(self, *words: str) -> list[str]:
        self.say(*words)
        return self.hear()

    def say(self, *words: str) -> None:
        assert self.process.stdin is not None
        print(*words, file=self.process.stdin, flush=True)

    def hear(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT)


class Offices:
    """Processes one after another, with one store and one ledger."""

    def __init__(self, folder: Path, leaf: Leaf) -> None:
        self.ledger = folder / "ledger"
        self._arguments = (f"sqlite:///{folder}/runs.db", str(self.ledger), leaf)
        self._path = "/".join(path_to(leaf))

    @contextmanager
    def one(self) -> Generator[Office]:
        with started("-m", "tests.hosts.office", *self._arguments, stdin=subprocess.PIPE) as process:
            yield Office(process)

    def paused(self, words: list[str], status: str) -> str:
        """Return the token of a run that must be paused at the leaf."""
        assert words[0] == "paused", words
        assert words[2:] == [self._path, status]
        return words[1]

    @property
    def noted(self) -> list[str]:
        return self.ledger.read_text().splitlines()

    def until_noted(self, what: str, times: int = 1) -> None:
        eventually(lambda: self.noted.count(what) == times, f"{what} is noted")


@leaves
def test_a_tree_goes_on_at_its_leaf_in_process_after_process_and_does_nothing_twice(leaf: Leaf, tmp_path: Path) -> None:
    offices = Offices(tmp_path, leaf)
    with offices.one() as first:
        question = offices.paused(first.ask("run", "Go"), "needs_input")
        first.kill()
    with offices.one() as second:
        approval = offices.paused(second.ask("answer", question, "well"), "needs_approval")
        second.kill()

    with offices.one() as third:
        said = third.ask("approve", approval, LONG)
        again = third.ask("approve", approval, LONG)

    assert " ".join(said) == f"complete {ending(leaf, 'Go', 'well')}"
    assert again == ["TokenUsed"]
    assert dict(Counter(offices.noted)) == notes(leaf, "well")


@leaves
def test_trees_that_went_on_in_another_process_are_cut_off_at_the_leaf(leaf: Leaf, tmp_path: Path) -> None:
    offices, approvals = Offices(tmp_path, leaf), list[str]()
    with offices.one() as first:
        for _ in range(2):
            question = offices.paused(first.ask("run", "Go"), "needs_input")
            approvals.append(offices.paused(first.ask("answer", question, "hang"), "needs_approval"))
        first.kill()

    with offices.one() as second:
        overdue = second.ask("approve", approvals[0], "1")
        offices.until_noted("told")
        second.say("approve", approvals[1], LONG)
        offices.until_noted("work hang", 2)
        second.process.send_signal(signal.SIGINT)
        cancelled = second.hear()
        offices.until_noted("told", 2)
        again = second.ask("approve", approvals[1], LONG)
        left = second.ask("left")

    assert (overdue, cancelled, again, left) == (["RunTimedOut"], ["KeyboardInterrupt"], ["TokenUsed"], ["0", "0"])
    assert {"tell", "after"} & set(offices.noted) == set()
