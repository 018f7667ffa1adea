"""One scenario, played in a process that may be killed, and gone on with in the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

import understudy as us
from tests.support.deadly import DeadlyDatabase
from tests.support.events import DELTAS
from tests.support.journal_lines import results_in
from understudy.actors.stores.database import Database, Row
from understudy.actors.stores.store import Store
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.definitions.groups import Group
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.saving.machines import loaded
from understudy.orchestration.saving.saved_run import SavedRun
from understudy.testing import says
from understudy.vocabulary.runs.outcomes import PauseAnswer

from .kill_cast import ANSWER, CONVERSATION, USER, Note, Notes, Runner, Scenario

PATIENCE = 90.0  # Seconds for a run that goes on, also while its store is away.
HOWS = ("run", "submit", "stream")

RUNS = "SELECT run_id, state, ending FROM understudy_runs WHERE app = :app ORDER BY run"
PAUSES = "SELECT run_id, revision, nonce, state FROM understudy_pauses WHERE run_id LIKE :app"
PAYLOAD = "SELECT payload FROM understudy_pauses WHERE run_id = :run_id"
RESULTS = """
SELECT own.body, line.body FROM understudy_run_rows line
JOIN understudy_runs ON understudy_runs.run = line.run
JOIN understudy_run_rows own ON own.run = line.run AND own.path = line.path AND own.kind = 'run'
WHERE app = :app AND line.kind = 'line'
"""
MADE = "CREATE TABLE IF NOT EXISTS kill_effects (call_key TEXT NOT NULL, word TEXT NOT NULL)"
"""The table of the effects that are committed with the results of their calls."""
STORED = "SELECT call_key FROM kill_effects WHERE call_key LIKE :app"
ROWS_LEFT = """
SELECT count(*) FROM understudy_run_rows JOIN understudy_runs ON understudy_runs.run = understudy_run_rows.run
WHERE app = :app AND kind != 'event'
"""


class Paused(NamedTuple):
    """A row of the store of paused runs."""

    token: str
    state: str


class Left(NamedTuple):
    """What a store has of a trial."""

    runs: list[tuple[str, str, str]]
    """Id, state and ending of each."""
    pauses: list[Paused]
    finished: set[tuple[str, str]]
    """The id of a run, maybe inside of another one, and that of a call whose result is stored."""
    rows: int
    """Of journals."""


def found_in(database: Database, app: str) -> Left:
    """Look into a store."""

    def all_of(statement: str, value: str = app) -> list[Row]:
        return database.read(lambda sql: sql.execute(statement, {"app": value}).fetchall())

    pauses = [Paused(f"{run}.{revision}.{nonce}", state) for run, revision, nonce, state in all_of(PAUSES, f"{app}-%")]
    finished = {
        (SavedRun.from_json(own).run_id, came.result.call_id)
        for own, body in all_of(RESULTS)
        for came in results_in([body])
    }
    return Left(
        [(run, state, ending) for run, state, ending in all_of(RUNS)], pauses, finished, all_of(ROWS_LEFT)[0][0]
    )


class Play:
    """A scenario in this process.

    Args:
        scenario: what is played.
        app: the name of the system.
        database: of the store.
        notes: of the trial.
        how: runs are begun, one of `HOWS`.
        always: whether the system looks for runs that were left itself, again and again.
    """

    def __init__(
        self,
        scenario: Scenario,
        app: str,
        database: DeadlyDatabase,
        notes: Notes,
        how: str,
        *,
        always: bool = False,
    ) -> None:
        self.scenario = scenario
        self.app = app
        self.notes = notes
        self.database = database
        self.runner: Runner = scenario.runner(notes)
        options: dict[str, Any] = {"recover": "always", "runners": [self.runner]} if always else {}
        self.system = us.ActorSystem(app, store=Store(database), **options)
        self._always = always
        self._how = how
        self.streams = self._how != "run" and not scenario.is_map
        """Whether the runs of this trial keep their events."""
        self.is_stopped = False
        """Whether its system is stopped at some time: then `recover` may leave runs."""

    def begin(self) -> None:
        """Carry out the runs that are not there yet."""
        options: dict[str, Any] = {"system": self.system, **self.scenario.options()}
        inputs = [f"go {number}" for number in range(self.scenario.runs)]
        if self.scenario.is_map:
            for answer in self.runner.map(inputs, name="letters", **options):
                assert isinstance(answer, us.MapAnswer)  # the map raises the error of a run that failed
                self.settle(answer.outcome)
            return
        for input in inputs[len(self.found().runs) :]:
            self.settle(self._begun(input, options))

    def _begun(self, input: str, options: Mapping[str, Any]) -> us.Outcome[Any]:
        if self._how == "run":
            return self.runner.run(input, **options)
        if self._how == "submit":
            return self.runner.submit(input, **options).result(timeout=PATIENCE)
        with self.runner.stream(input, **options) as events:
            for _ in events:
                """Hear of all of them."""
            return events.result()

    def found(self) -> Left:
        """Look into the store; waits until it is there."""
        until = monotonic() + PATIENCE
        while True:
            try:
                return found_in(self.database, self.app)
            except us.StoreError:
                if monotonic() > until:
                    raise

    def ids(self) -> list[str]:
        """Return the ids of the runs."""
        return [run for run, _, _ in self.found().runs]

    def carry_on(self, *, goes_on: bool, waits: bool, again: int = 0) -> None:
        """Begin, or go on with the runs that were left, as far as the store and the system let it.

        Args:
            goes_on: whether the runs are those of an earlier process.
            waits: as of `go_on`.
            again: how often to go on after an error of understudy.
        """
        for _ in range(again + 1):
            try:
                self.go_on(waits=waits) if goes_on else self.begin()
            except us.UnderstudyError as error:
                self.notes.add("gave up", error=f"{type(error).__name__}: {error}")
                goes_on = waits = True
            else:
                break

    def settle(self, outcome: us.Outcome[Any]) -> None:
        """Note an outcome, and answer for the person whom it waits for."""
        while isinstance(outcome, us.NeedsApproval | us.NeedsInput):
            self.notes.add("token", token=outcome.token)
            token, answers = outcome.token, {pause.id: self._answer(outcome.run_id, pause) for pause in outcome.pauses}
            outcome = self.runner.resume(token, answers, system=self.system)
        assert isinstance(outcome, us.Complete), f"run {outcome.run_id} is {outcome!r}"
        self.notes.add("told", run=outcome.run_id, text=outcome.text)
        self._check(outcome)

    def _answer(self, run_id: str, pause: us.Pause) -> PauseAnswer:
        if not pause.calls:
            return ANSWER
        (call,) = pause.calls
        if not pause.in_doubt:
            return us.Approve()
        self._must(call.name == "plain", f"a call of {call.name!r} waits in doubt")
        is_own = self.scenario.runs == 1  # then no two calls have the same word
        effects = [each for each in self.notes.all("effect") if is_own or each["key"].startswith(f"{run_id}/")]
        words = [each["word"] for each in effects]
        is_done = call.arguments["word"] in words
        return {call.id: us.Happened(f"did {call.arguments['word']}") if is_done else us.Approve()}

    def _check(self, outcome: us.Complete[Any]) -> None:
        billed, turns = outcome.usage.input_tokens or 0, self.scenario.turns
        self._must(billed >= 10 * turns, f"run {outcome.run_id} has {billed} tokens for {turns} turns")
        each: us.Outcome[Any] | BaseException
        for each in (outcome, *outcome.children):
            if isinstance(each, us.Complete):
                self._check_history(each)

    def _check_history(self, outcome: us.Complete[Any]) -> None:
        asked = [call.id for message in outcome.messages for call in message.tool_calls]
        told = [result.call_id for message in outcome.messages for result in message.tool_results]
        self._must(asked == told, f"run {outcome.run_id} has calls {asked} and results {told}")
        wrong = [
            result.content
            for message in outcome.messages
            for result in message.tool_results
            if not result.content.startswith(("did ", "0 before")) and not self._is_refused_transaction(result)
        ]
        self._must(not wrong, f"run {outcome.run_id} has results {wrong}")

    def _is_refused_transaction(self, result: us.ToolResult) -> bool:
        """Whether a tool could not begin or end its own transaction while the store was away: then its call fails."""
        return result.name == "stored" and "StoreError" in result.content and bool(self.notes.all("away"))

    def _must(self, holds: bool, what: str) -> None:
        if not holds:
            self.notes.add("fault", text=what)

    # --- after a kill

    def go_on(self, *, waits: bool) -> None:
        """Recover the runs that were left, answer for those that wait, and carry out what is missing.

        Args:
            waits: whether the store may take a moment to notice that a process is dead.
        """
        before = self.found()
        self.notes.add("finished", calls=sorted(before.finished))
        self._refuse_used(before)
        self._see_pauses()
        stand = self._standing()
        self._recover(waits)
        still = self._standing()
        told = [each["token"] for each in self.notes.all("token")]
        known = {run for run, state, _ in before.runs if state == "over"}
        for token in stand:
            self._must(token in still, f"token {token} stood, and is lost")
        for token in still:
            if token not in told:
                is_known = token.rsplit(".", 2)[0] in known or self.is_stopped or self._always
                self._must(is_known, f"token {token} is told to nobody")
                self.notes.add("untold", token=token)
            self._resume_standing(token)
        self.begin()

    def _see_pauses(self) -> None:
        """See whether each run that is listed as waiting says what it waits for."""
        for waiting in self.system.pending():
            if waiting.by_error:  # its system was stopped
                continue
            handle = self.system.handle(waiting.run_id)
            says_it = handle.waiting() is not None and bool(handle.pauses())
            self._must(says_it, f"run {waiting.run_id} waits, and says not for what")

    def _recover(self, waits: bool) -> None:
        since = monotonic()
        while True:
            for handle in self.system.recover(runners=[self.runner]):
                outcome = handle.result(timeout=PATIENCE)
                strange = [e for e in handle.events() if isinstance(e, us.SessionOverwritten | us.ConversationDiverged)]
                self._must(not strange, f"run {handle.run_id} was told {strange}")
                if isinstance(outcome, us.NeedsApproval | us.NeedsInput):
                    self.notes.add("token", token=outcome.token)
                else:
                    self.settle(outcome)
            going = [run for run, state, _ in self.found().runs if state == "going"]
            # A store that failed in the middle has left the rest for another call of `recover`.
            patience = PATIENCE if self._always or self.notes.all("away") else 10.0 if waits else 0.0
            if not going or monotonic() > since + patience:
                break
        self._must(not going or self.is_stopped, f"runs {going} are left by recover()")

    def _standing(self) -> list[str]:
        """Return the tokens with which a person answers. That of a run that its system stopped is left to `recover`."""
        return [waiting.token for waiting in self.system.pending() if not waiting.by_error]

    def _resume_standing(self, token: str) -> None:
        run_id = token.rsplit(".", 2)[0]
        answers = {pause.id: self._answer(run_id, pause) for pause in self._pauses_of(run_id)}
        self.settle(self.runner.resume(token, answers, system=self.system))

    def _pauses_of(self, run_id: str) -> Sequence[us.Pause]:
        """Return what a run waits for, from the store: its process may have told nobody."""
        (row,) = self.database.read(lambda sql: sql.execute(PAYLOAD, {"run_id": run_id}).fetchall())
        text = SavedRun.from_json(row[0]).machine
        if isinstance(self.runner, us.Agent):
            return AgentRun.from_json(text, self.runner.run_spec).pauses
        assert isinstance(self.runner, Group | Workflow)
        return loaded(self.runner, text).pauses

    def _refuse_used(self, before: Left) -> None:
        for token, state in before.pauses:
            if state != "waiting":
                self._must(self._is_refused(token), f"token {token} works twice")

    def _is_refused(self, token: str) -> bool:
        try:
            self.runner.resume(token, us.Approve(), system=self.system)
        except us.TokenUsed:
            return True
        return False

    # --- in the end

    def check_end(self) -> None:
        """Look at what is left when all is done."""
        found = self.found()
        ids = [run for run, _, _ in found.runs]
        is_over = all(state == "over" and ending == "complete" for _, state, ending in found.runs)
        self._must(is_over, f"the runs are {found.runs}")
        self._must(len(ids) == self.scenario.runs, f"{len(ids)} runs were accepted")
        self._must(found.rows == 0, f"{found.rows} rows are left in journals")
        self._must(all(each.state != "waiting" for each in found.pauses), f"a token stands: {found.pauses}")
        self._refuse_used(found)
        effects = self.notes.all("effect")
        keys, wanted = {each["key"] for each in effects}, self.scenario.effects * self.scenario.runs
        self._must(len(keys) == wanted, f"{len(keys)} calls had an effect, and not {wanted}")
        self._check_stored(effects)
        self._check_finished()
        if self.streams:
            for run_id in ids:
                self._check_events(run_id)
        self._check_session()
        if self.scenario.has_memory:
            self._check_memory(ids)

    def _check_stored(self, effects: Sequence[Note]) -> None:
        """See whether each call of the transactional tool has one row, and none if its transaction was refused."""
        began = {each["key"] for each in effects if each["tool"] == "stored"}
        rows, wanted = self._stored(), began
        if self.notes.all("away"):
            wanted = began & set(rows)
        self._must(sorted(rows) == sorted(wanted), f"effects are stored of {rows}, and not of {began}")

    def _stored(self) -> list[str]:
        rows = self.database.read(lambda sql: sql.execute(STORED, {"app": f"{self.app}-%"}).fetchall())
        return [key for (key,) in rows]

    def _check_finished(self) -> None:
        finished = set[tuple[str, str]]()
        for each in self.notes.all("effect", "finished"):
            if each["what"] == "finished":
                finished |= {(run, call) for run, call in each["calls"]}
                continue
            run, _, place = each["key"].rpartition("/")
            is_new = (run, place.partition(".")[2]) not in finished
            self._must(is_new, f"call {each['key']} was finished, and was made again")

    def _check_events(self, run_id: str) -> None:
        """See whether a reader in this process gets each event of a run once, to its end."""
        events = [each for each in self.system.handle(run_id).events() if not isinstance(each, DELTAS)]
        seqs = [each.seq for each in events]
        self._must(seqs == list(range(len(seqs))), f"events of run {run_id} have the numbers {seqs}")
        ends = [each for each in events if isinstance(each, us.RunFinished | us.RunFailed)]
        is_complete = isinstance(ends[-1], us.RunFinished) and isinstance(ends[-1].outcome, us.Complete)
        self._must(is_complete and ends[-1] is events[-1], f"the ends of run {run_id} are {ends}")
        open_turns = Counter[int]()
        for each in events:
            if isinstance(each, us.TurnStarted | us.TurnFinished):
                open_turns[each.turn] += 1 if isinstance(each, us.TurnStarted) else -1
        self._must(not +open_turns, f"turns {+open_turns} of run {run_id} began and did not end")

    def _check_session(self) -> None:
        idle = us.Agent("idle", model=us.ScriptedModel([says("done")]))
        with us.ActorSystem(self.app, store=Store(self.database), journal=False) as system:
            values = idle.run("what is there?", user_id=USER, system=system).session
        total = self.scenario.total
        self._must(total is None or values.get("app:total", 0) == total, f"the session has {dict(values)}")
        effects, stored = self.notes.all("effect"), self._stored()
        words = {f"user:{e['word']}" for e in effects if e["tool"] == "again" or e["key"] in stored}
        self._must(words <= set(values), f"the session has {sorted(values)}, and not all of {sorted(words)}")

    def _check_memory(self, ids: Sequence[str]) -> None:
        memory = us.PersistentMemory(Store(self.database))
        kept = memory.read(us.ConversationKey(self.app, USER, CONVERSATION))
        turns = [each for each in kept if each.kind == "turn"]
        self._must([each.run_id for each in turns] == list(ids), f"turns of {[each.run_id for each in turns]}: {ids}")
        summaries = [each.run_id for each in kept if each.kind == "summary"]
        self._must(len(set(summaries)) == len(summaries), f"summaries of {summaries}")
        told = {each["run"]: each["text"] for each in self.notes.all("told")}
        for number, turn in enumerate(turns):
            text = turn.messages[-1].text
            inputs = [each.text for each in turn.messages if each.text.startswith("go ")]
            self._must(inputs == [f"go {number}"], f"turn {number} has inputs {inputs}")
            self._must(text.startswith(f"{number} before"), f"turn {number} is {text!r}")
            self._must(told.get(turn.run_id, text) == text, f"{told.get(turn.run_id)!r} was told, {text!r} is kept")
