"""The scenarios of `python -m tests.soak kills` and its neighbours: runs whose processes and stores go away."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import understudy as us
from understudy.testing import FunctionModel
from understudy.vocabulary.messages import Usage, says

Runner: TypeAlias = "us.Runner[Any]"
Note: TypeAlias = Mapping[str, Any]

USER, CONVERSATION = "ada", "c-42"
ASK, ANSWER = "__ask_user__: ", "this one"
BILLED = Usage(10, 1)
"""What each turn of a model costs."""


class Notes:
    """What came to pass in the processes of a trial: a file of JSON lines, outside of the store.

    Args:
        file: made with the first note.
        pace: seconds that each turn of a model and each call of a tool takes, so that something can happen meanwhile.
    """

    def __init__(self, file: Path, pace: float = 0.0) -> None:
        self._file = file
        self.pace = pace
        self._lock = threading.Lock()

    def add(self, what: str, **values: object) -> None:
        """Add a note; it outlives the process."""
        line = json.dumps({"what": what, "pid": os.getpid(), **values}) + "\n"
        with self._lock, self._file.open("a") as file:
            file.write(line)

    def wait(self) -> None:
        """Work as long as a model or a tool does."""
        if self.pace:
            time.sleep(self.pace)

    def all(self, *kinds: str) -> list[Note]:
        """Return the notes of some kinds, in order."""
        return [note for note in self._read() if note["what"] in kinds]

    def _read(self) -> Iterator[Note]:
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                yield json.loads(line)


def tools(notes: Notes, *, length: int = 0, approval: bool = False) -> list[us.Tool[..., Any]]:
    """Return a tool for each rule of calls in doubt: `plain`, `again`, `known` and `stored`. Each has an effect.

    That of `stored` is a row in the database of the store; where others are noted, its call is noted when it begins.

    Args:
        notes: where effects are noted.
        length: of a result.
        approval: whether calls wait for a person.
    """

    def act(ctx: us.ToolContext, word: str) -> str:
        """Act."""
        notes.add("effect", tool="again", key=ctx.call_key, word=word)
        notes.wait()
        total = ctx.session.get("app:total", 0)
        assert isinstance(total, int)
        ctx.session["app:total"] = total + 1
        ctx.session[f"user:{word}"] = True
        return f"did {word} {'x' * length}".strip()

    def became(key: str, arguments: us.JsonObject) -> us.Happened | us.DidNotHappen:
        notes.add("asked", key=key)
        is_there = any(each["key"] == key for each in notes.all("effect"))
        return us.Happened(f"did {arguments['word']}") if is_there else us.DidNotHappen()

    def ended(ctx: us.ToolContext, word: str) -> str:
        """Act."""
        notes.add("effect", tool="", key=ctx.call_key, word=word)
        notes.wait()
        return f"did {word}"

    def stored(ctx: us.ToolContext, word: str) -> str:
        """Act."""
        notes.add("effect", tool="stored", key=ctx.call_key, word=word)
        notes.wait()
        with ctx.transaction() as sql:
            sql.execute("INSERT INTO kill_effects VALUES (?, ?)", (ctx.call_key, word))
        ctx.session[f"user:{word}"] = True
        return f"did {word}"

    return [
        us.tool(name="stored", transactional=True, approval=approval)(stored),
        us.tool(name="plain", approval=approval)(ended),
        us.tool(name="again", idempotent=True, approval=approval)(act),
        us.tool(name="known", reconcile=became, approval=approval)(ended),
    ]


def worker(
    notes: Notes,
    id: str,
    given: Sequence[us.Tool[..., Any]],
    words: Sequence[str],
    sub_agents: Sequence[us.Agent] = (),
    **options: Any,
) -> us.Agent:
    """Return an agent that makes a call for each word, a round for each: `plain:a` calls `plain` with a; others are sub-agents.

    At the word `?` it asks a person.

    Its answer says how many messages of earlier runs it knows, and has a number that no other answer has.
    """

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        notes.wait()
        if request.system.startswith("You sum up") or not request.tools:
            return us.ModelTurn(says("A summary.").parts, usage=BILLED)
        inputs = [number for number, each in enumerate(request.messages) if _is_input(each)]
        own = request.messages[inputs[-1] :]
        done = sum([message.role == "assistant" for message in own])
        if done == len(words):
            text = f"{len(inputs) - 1} before; {os.getpid()}-{os.urandom(4).hex()}"
            return us.ModelTurn(says(text).parts, usage=BILLED)
        if words[done] == "?":
            return us.ModelTurn(says(f"{ASK}Which?").parts, usage=BILLED)
        name, _, word = words[done].partition(":")
        arguments = {"word": word} if word else {"input": "go inside"}
        return us.ModelTurn((us.ToolCall(f"c{done}", name, arguments),), usage=BILLED)

    return us.Agent(
        id, model=FunctionModel(next_turn, context_window=8_000), tools=given, sub_agents=sub_agents, **options
    )


def _is_input(message: us.Message) -> bool:
    """Whether a message begins a run: with words of the user, or with the answer of the run before."""
    return message.role == "user" and ("go " in message.text or "before;" in message.text)


@dataclass(frozen=True)
class Scenario:
    """Runs of one runner, one after another."""

    name: str
    runner: Callable[[Notes], Runner]
    effects: int
    """Of each run."""
    turns: int
    """Of the models, in each run."""
    runs: int = 1
    has_memory: bool = False
    total: int | None = None
    """The value that the session has in the end; None where runs side by side change it."""
    waits: bool = False
    """Whether each run waits for a person."""
    is_map: bool = False
    """Whether the runs are those of a map with a name."""

    def seconds(self, pace: float) -> float:
        """Return about how many seconds all of it takes at a pace."""
        return pace * (2 + (self.turns + self.effects) * self.runs)

    def options(self) -> dict[str, str]:
        """Return whose runs they are."""
        return {"user_id": USER, "conversation_id": CONVERSATION} if self.has_memory else {"user_id": USER}


def _agent(notes: Notes) -> Runner:
    return worker(notes, "one", tools(notes), ["plain:a", "again:b", "stored:d", "known:c"])


def _lead(notes: Notes) -> us.Agent:
    given = tools(notes)
    return worker(
        notes,
        "lead",
        given,
        ["again:x", "below", "plain:y"],
        [worker(notes, "below", given, ["known:a", "stored:c", "again:b"])],
    )


def _two(notes: Notes, id: str = "two") -> us.Agent:
    return worker(notes, id, tools(notes), [f"plain:{id}", f"again:{id}-again"])


def _flow(notes: Notes) -> Runner:
    first, then = us.Task("first", _two(notes), prompt="go inside"), us.Task("then", _lead(notes), prompt="go inside")
    return us.Workflow(
        "flow", [first, us.Task("last", _two(notes, "three"), prompt="go inside", dependencies=["first"]), then]
    )


def _approved(notes: Notes) -> Runner:
    return worker(notes, "asks", tools(notes, approval=True), ["again:a", "plain:b", "stored:c"])


def _asks(notes: Notes) -> Runner:
    words = ["plain:a", "?", "again:b", "?"]
    return worker(notes, "host", tools(notes), words, memory=us.PersistentMemory())


def _remembers_approvals(notes: Notes) -> Runner:
    return worker(notes, "cashier", tools(notes, approval=True), ["stored:a", "known:b"], memory=us.PersistentMemory())


def _asks_inside(notes: Notes) -> Runner:
    asking = worker(notes, "asking", tools(notes, approval=True), ["plain:a", "?", "stored:b"])
    lead = worker(notes, "lead", tools(notes), ["asking", "again:x"], [asking])
    return us.SequentialAgent(
        "seq", [us.ParallelAgent("par", [lead, worker(notes, "other", tools(notes), ["known:c", "?"])])]
    )


def _mapped(notes: Notes) -> Runner:
    return worker(notes, "judge", tools(notes), ["known:a", "plain:b"])


def _remembers(notes: Notes) -> Runner:
    return worker(notes, "clerk", tools(notes), ["again:a"], memory=us.PersistentMemory())


def _answers_at_once(notes: Notes) -> Runner:
    return worker(notes, "host", tools(notes), [], memory=us.PersistentMemory())


def _compacts(notes: Notes) -> Runner:
    words = [f"again:{number}" for number in range(4)]
    rule = us.Compaction(context_window=1_500, keep=0.2)
    return worker(notes, "reader", tools(notes, length=2_500), words, memory=us.PersistentMemory(), compaction=rule)


SCENARIOS = (
    Scenario("agent", _agent, 4, 5, total=1),
    Scenario("sub-agent", _lead, 5, 8),
    Scenario("sequence", lambda notes: us.SequentialAgent("seq", [_two(notes), _lead(notes)]), 7, 11),
    Scenario("parallel", lambda notes: us.ParallelAgent("par", [_two(notes), _lead(notes)]), 7, 11),
    Scenario("workflow", _flow, 9, 14),
    Scenario("approval", _approved, 3, 4, total=1, waits=True),
    Scenario("memory", _remembers, 1, 2, runs=2, has_memory=True, total=2),
    Scenario("answers", _answers_at_once, 0, 1, runs=2, has_memory=True),
    Scenario("compaction", _compacts, 4, 5, has_memory=True, total=4),
    Scenario("question", _asks, 2, 5, has_memory=True, total=1, waits=True),
    Scenario("approvals and memory", _remembers_approvals, 2, 3, runs=2, has_memory=True, waits=True),
    Scenario("asks inside", _asks_inside, 4, 10, waits=True),
    Scenario("map", _mapped, 2, 3, runs=3, is_map=True),
    Scenario("session", _agent, 4, 5, runs=2, total=2),
)
