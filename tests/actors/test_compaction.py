"""Compaction in runs of the runtime: long runs under a small window, failures of the summary, events, memories, tokens."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

import understudy as us
from tests.support.compaction import long_history
from tests.support.scripts import finished
from understudy.vocabulary.messages import Message, ModelRequest, ModelTurn, Usage, calls, says
from understudy.vocabulary.runs.compaction import SUMMARY_INTRO

WINDOW = 8_000


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as made:
        yield made


def is_for_summary(request: ModelRequest) -> bool:
    return request.system.startswith("You sum up")


@us.tool
def look(shelf: int) -> str:
    """Look at a shelf."""
    return f"Shelf {shelf}: " + "book " * 300


class Librarian:
    """A model that looks at so many shelves, then answers; sums up in between."""

    def __init__(self, shelves: int, summary: ModelTurn | Exception | None = None) -> None:
        self._shelves = shelves
        self._summary = says("Shelves were looked at.", usage=Usage(100, 10)) if summary is None else summary
        self.summaries = 0
        self.turns = 0

    def __call__(self, request: ModelRequest) -> ModelTurn:
        if is_for_summary(request):
            self.summaries += 1
            if isinstance(self._summary, Exception):
                raise self._summary
            return self._summary
        self.turns += 1
        return calls("look", shelf=request.turn) if request.turn <= self._shelves else says("All seen.")


def librarian(
    mind: Librarian, *, compaction: us.Compaction | None = None, window: int | None = WINDOW
) -> us.Agent[str]:
    return us.Agent(
        "librarian",
        model=us.FunctionModel(mind, context_window=window),
        tools=[look],
        max_iterations=1_000,
        max_turns=1_000,
        compaction=us.Compaction() if compaction is None else compaction,
    )


def test_a_run_of_300_turns_goes_on_under_a_window_of_8000_tokens(system: us.ActorSystem) -> None:
    mind = Librarian(300)
    handle = librarian(mind).submit("Look at all shelves.", system=system)
    outcome = finished(handle.result(timeout=60))

    assert outcome.text == "All seen."
    assert (outcome.turns, mind.turns) == (301, 301)
    assert len(outcome.messages) == 602
    assert mind.summaries > 3
    told = [event for event in handle.events() if isinstance(event, us.ContextCompacted)]
    assert {event.how for event in told} == {"pruned", "summarized"}
    assert all(event.tokens_after < event.tokens_before for event in told)
    assert sum(event.usage.total_tokens or 0 for event in told) == 110 * mind.summaries == outcome.usage.total_tokens


def test_without_compaction_the_same_run_ends_with_the_refusal(system: us.ActorSystem) -> None:
    agent = us.Agent(
        "librarian", model=us.FunctionModel(Librarian(300), context_window=WINDOW), tools=[look], max_iterations=1_000
    )

    with pytest.raises(us.ContextOverflow) as caught:
        agent.run("Look at all shelves.", system=system)

    assert caught.value.limit == WINDOW
    assert caught.value.token == ""
    assert len(caught.value.messages) > 10


@pytest.mark.parametrize(
    ("summary", "kind"),
    [
        (says(""), us.BadReply),
        (calls("look", shelf=1), us.BadReply),
        (us.RateLimited("slow down"), us.RateLimited),
        (ValueError("broken"), ValueError),
        (us.ContextOverflow("too long"), us.ContextOverflow),
    ],
)
def test_a_failed_summary_is_told_and_the_run_goes_on(
    system: us.ActorSystem, summary: ModelTurn | Exception, kind: type[Exception]
) -> None:
    mind = Librarian(24, summary)
    agent = librarian(mind, compaction=us.Compaction(prune=False, context_window=WINDOW), window=None)
    handle = agent.submit("Look.", system=system)

    assert finished(handle.result(timeout=30)).text == "All seen."
    failed = [event for event in handle.events() if isinstance(event, us.CompactionFailed)]
    assert [type(event.error) for event in failed[:1]] == [kind]
    assert len(failed) == mind.summaries


def test_a_summary_that_never_comes_is_given_up_in_time(system: us.ActorSystem) -> None:
    released = threading.Event()

    def hang(request: ModelRequest) -> str:
        released.wait(20)
        return "Too late."

    slow = us.FunctionModel(hang)
    slow.model_timeout = 0.2  # type: ignore[attr-defined]
    mind = Librarian(20)
    agent = librarian(
        mind, compaction=us.Compaction(prune=False, context_window=WINDOW, model=slow, keep=0.5), window=None
    )
    handle = agent.submit("Look.", system=system)
    try:
        assert finished(handle.result(timeout=20)).text == "All seen."
    finally:
        released.set()

    failed = [event for event in handle.events() if isinstance(event, us.CompactionFailed)]
    assert {type(event.error) for event in failed} == {us.ProviderTimeout}
    assert mind.turns == 21


def test_another_model_sums_up_and_is_charged_at_its_own_price(system: us.ActorSystem) -> None:
    other = us.FunctionModel(lambda request: says("So far.", usage=Usage(1_000_000, 0)))
    mind = Librarian(24)
    prices = {"FunctionModel": us.Price(2.0, 2.0)}
    agent = us.Agent(
        "librarian",
        model=us.FunctionModel(mind, context_window=WINDOW),
        tools=[look],
        max_iterations=100,
        compaction=us.Compaction(model=other, prune=False),
        budget=us.Budget(cost_usd=100.0, prices=prices),
    )

    outcome = finished(agent.run("Look.", system=system))

    assert mind.summaries == 0
    assert (outcome.cost_usd or 0) >= 2.0


def test_a_summary_model_without_a_price_is_refused_where_dollars_are_limited() -> None:
    with pytest.raises(ValueError, match="no price"):
        us.Agent(
            "librarian",
            model="openai:gpt-4o",
            budget=us.Budget(cost_usd=1.0),
            compaction=us.Compaction(model="openai:unheard-of"),
        )


def test_callbacks_are_not_asked_about_a_summary(system: us.ActorSystem) -> None:
    seen: list[str] = []

    class Watch(us.AgentCallback):
        def before_model_call(self, ctx: us.RunContext, request: ModelRequest) -> None:
            seen.append(request.system)

        def after_model_call(self, ctx: us.RunContext, turn: ModelTurn) -> None:
            seen.append(turn.text)

    mind = Librarian(24)
    agent = librarian(mind, compaction=us.Compaction(prune=False)).replace(callbacks=[Watch()])
    finished(agent.run("Look.", system=system))

    assert mind.summaries
    assert len(seen) == 50
    assert not [text for text in seen if "sum up" in text or "Shelves were" in text]


# --- refusals


def test_a_refused_turn_is_tried_again_after_a_compaction(system: us.ActorSystem) -> None:
    mind = Librarian(24)
    agent = librarian(mind, compaction=us.Compaction(context_window=1_000_000))
    handle = agent.submit("Look.", system=system)

    outcome = finished(handle.result(timeout=30))

    assert (outcome.text, outcome.turns) == ("All seen.", 25)
    assert [event for event in handle.events() if isinstance(event, us.ContextCompacted)]


def test_a_second_refusal_ends_the_run_with_a_token_that_goes_on(system: us.ActorSystem) -> None:
    refusing = True

    def answer(request: ModelRequest) -> str:
        if is_for_summary(request):
            return "So far."
        if refusing:
            raise us.ContextOverflow("prompt is too long")
        return "Seven."

    agent = us.Agent("clerk", model=us.FunctionModel(answer), compaction=us.Compaction())

    with pytest.raises(us.ContextOverflow) as caught:
        agent.run("And now?", history=long_history(10), system=system)
    error = caught.value
    assert error.token
    assert error.run_id
    assert [message.text for message in error.messages] == ["And now?"]
    with pytest.raises(us.ContextOverflow) as again:
        agent.resume(error.token, system=system)
    refusing = False

    assert finished(agent.resume(again.value.token, system=system)).text == "Seven."


def test_a_run_that_was_refused_twice_takes_no_answer(system: us.ActorSystem) -> None:
    agent = us.Agent(
        "clerk",
        model=us.ScriptedModel([us.ContextOverflow("too long"), us.ContextOverflow("too long")]),
        compaction=us.Compaction(),
    )
    with pytest.raises(us.ContextOverflow) as caught:
        agent.run("And now?", system=system)

    with pytest.raises((TypeError, us.ProtocolViolation), match="too long"):
        agent.resume(caught.value.token, "Yes", system=system)


def test_the_token_of_a_refused_run_works_in_another_process(tmp_path: Path) -> None:
    script: list[ModelTurn | Exception] = [us.ContextOverflow("too long"), says("Seven.")]
    model = us.ScriptedModel(script)
    agent = us.Agent("clerk", model=model, compaction=us.Compaction())
    with (
        us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db") as first,
        pytest.raises(us.ContextOverflow) as caught,
    ):
        agent.run("And now?", system=first)
    with us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db") as second:
        assert finished(agent.resume(caught.value.token, system=second)).text == "Seven."


# --- memories


def chatting(memory: us.Memory, model: us.Model, compaction: us.Compaction | None = None) -> us.Agent[str]:
    return us.Agent("chat", model=model, memory=memory, compaction=compaction)


class Chat:
    """A model that answers at length, and notes what it was shown."""

    def __init__(self) -> None:
        self.shown: list[Sequence[Message]] = []
        self.summaries = 0

    def __call__(self, request: ModelRequest) -> ModelTurn:
        if is_for_summary(request):
            self.summaries += 1
            return says(f"Summary {self.summaries}.")
        self.shown.append(request.messages)
        return says(f"Answer {len(self.shown)}: " + "a" * 2000)


KEY = us.ConversationKey("shop", "default", "c-1")


def test_a_summary_outlives_its_run_and_the_inner_memory_keeps_all_turns(system: us.ActorSystem) -> None:
    mind, inner = Chat(), us.InMemoryMemory()
    memory = us.CompactedMemory(inner, prune=False)
    agent = chatting(memory, us.FunctionModel(mind, context_window=WINDOW))

    for number in range(40):
        agent.run(f"Question {number}: " + "q" * 800, conversation_id="c-1", system=system)

    assert len(inner.load(KEY)) == 80
    assert len(memory.load(KEY)) < 30
    assert memory.load(KEY)[0].text.startswith(SUMMARY_INTRO + f"Summary {mind.summaries}.")
    assert mind.summaries < 12
    assert [message.text[:12] for message in memory.load(KEY)][-2:] == ["Question 39:", "Answer 40: a"]


def test_every_turn_is_in_the_summary_or_in_what_is_loaded(system: us.ActorSystem) -> None:
    told: list[str] = []

    def answer(request: ModelRequest) -> str:
        if is_for_summary(request):
            told.append(request.messages[0].text)
            return "So far."
        return "Noted: " + "a" * 2000

    memory = us.CompactedMemory(us.InMemoryMemory(), prune=False)
    agent = chatting(memory, us.FunctionModel(answer, context_window=WINDOW))
    for number in range(40):
        agent.run(f"<q{number}>" + "q" * 800, conversation_id="c-1", system=system)

    loaded = " ".join([message.text for message in memory.load(KEY)])
    for number in range(40):
        assert sum(f"<q{number}>" in text for text in told) + (f"<q{number}>" in loaded) == 1, number


def test_a_window_that_forgets_turns_from_the_front_does_not_shift_the_summary(system: us.ActorSystem) -> None:
    mind, inner = Chat(), us.WindowedMemory(turns=9)
    memory = us.CompactedMemory(inner, prune=False)
    agent = chatting(memory, us.FunctionModel(mind, context_window=WINDOW))

    for number in range(30):
        agent.run(f"Question {number}: " + "q" * 800, conversation_id="c-1", system=system)
        texts = [message.text for message in memory.load(KEY)]
        first = texts[0]
        if first.startswith(SUMMARY_INTRO):
            assert "Question" in first
        assert texts[-1].startswith(f"Answer {number + 1}:")


def test_an_inner_memory_that_keeps_summaries_is_given_them(system: us.ActorSystem) -> None:
    told: list[tuple[us.ConversationSummary, str]] = []

    class Keeping(us.InMemoryMemory):
        def summarize(self, key: us.ConversationKey, summary: us.ConversationSummary, run_id: str, /) -> None:
            told.append((summary, run_id))

    memory = Keeping()
    assert isinstance(memory, us.SummaryMemory)
    mind = Chat()
    agent = chatting(us.CompactedMemory(memory, prune=False), us.FunctionModel(mind, context_window=WINDOW))
    for number in range(12):
        agent.run(f"Question {number}: " + "q" * 800, conversation_id="c-1", system=system)

    summary, run_id = told[0]
    assert summary.text == "Summary 1."
    assert run_id
    assert memory.load(KEY)[summary.covers - 1] == summary.last
    assert memory.load(KEY)[0] == summary.first
    assert memory.load(KEY)[summary.covers].text.startswith("Question")


@pytest.mark.parametrize("around", [False, True])
def test_a_memory_in_a_store_keeps_the_summary_and_all_turns_stay_readable(tmp_path: Path, around: bool) -> None:
    stored = us.PersistentMemory(f"sqlite:///{tmp_path}/talks.db", turns=None)
    told: list[str] = []

    def answer(request: ModelRequest) -> str:
        if is_for_summary(request):
            told.append(request.messages[0].text)
            return "So far."
        return "Noted: " + "a" * 2000

    rule = us.Compaction(prune=False)
    memory: us.Memory = us.CompactedMemory(stored, rule) if around else stored
    for first in (0, 15):  # two processes, one after the other
        agent = chatting(memory, us.FunctionModel(answer, context_window=WINDOW), rule)
        with us.ActorSystem("shop") as system:
            for number in range(first, first + 15):
                agent.run(f"<q{number}>" + "q" * 800, conversation_id="c-1", system=system)

    loaded = " ".join([message.text for message in stored.load(KEY)])
    assert loaded.startswith(SUMMARY_INTRO)
    for number in range(30):
        assert sum(f"<q{number}>" in text for text in told) + (f"<q{number}>" in loaded) == 1, number
    assert sum(entry.kind == "turn" for entry in stored.read(KEY)) == 30


def test_a_memory_with_summarize_is_told_also_where_the_agent_has_the_rule(system: us.ActorSystem) -> None:
    told: list[us.ConversationSummary] = []

    class Keeping(us.InMemoryMemory):
        def summarize(self, key: us.ConversationKey, summary: us.ConversationSummary, run_id: str, /) -> None:
            told.append(summary)

    agent = chatting(Keeping(), us.FunctionModel(Chat(), context_window=WINDOW), compaction=us.Compaction(prune=False))
    for number in range(12):
        agent.run(f"Question {number}: " + "q" * 800, conversation_id="c-1", system=system)

    assert told


def test_a_memory_that_fails_to_keep_a_summary_is_asked_again_and_stores_the_turn_once(system: us.ActorSystem) -> None:
    tries: list[str] = []

    class Failing(us.InMemoryMemory):
        def summarize(self, key: us.ConversationKey, summary: us.ConversationSummary, run_id: str, /) -> None:
            tries.append(run_id)
            if len(tries) == 1:
                raise OSError("disk")

    memory = Failing()
    agent = chatting(memory, us.FunctionModel(Chat(), context_window=WINDOW), compaction=us.Compaction(prune=False))
    for number in range(12):
        agent.run(f"Question {number}: " + "q" * 800, conversation_id="c-1", system=system)
        if tries:
            break

    assert len(tries) == 2
    texts = [message.text[:12] for message in memory.load(KEY)]
    assert len(texts) == len(set(texts))


def test_summarize_that_is_a_coroutine_function_is_refused(system: us.ActorSystem) -> None:
    class Lazy(us.InMemoryMemory):
        async def summarize(self, key: us.ConversationKey, summary: us.ConversationSummary, run_id: str, /) -> None:
            pass

    agent = chatting(Lazy(), us.FunctionModel(Chat(), context_window=WINDOW), compaction=us.Compaction(prune=False))

    with pytest.raises(us.AgentCrashed, match="summarize"):
        for number in range(12):
            agent.run(f"Question {number}: " + "q" * 800, conversation_id="c-1", system=system)


def test_a_run_without_compaction_has_no_state_for_it(system: us.ActorSystem) -> None:
    agent = us.Agent("clerk", model=us.ScriptedModel([says("Seven.")]))

    assert agent.run_spec.compaction is None
    assert finished(agent.run("Hi", system=system)).text == "Seven."


def test_the_rule_of_the_agent_goes_before_that_of_its_memory() -> None:
    own = us.Compaction(context_window=1_000)
    memory = us.CompactedMemory(us.InMemoryMemory(), us.Compaction(context_window=2_000))
    by_memory = us.Agent("a", model="rehearsal", memory=memory)
    by_agent = by_memory.replace(compaction=own)

    assert by_memory.run_spec.compaction is not None
    assert by_memory.run_spec.compaction.window == 2_000
    assert by_agent.run_spec.compaction is not None
    assert by_agent.run_spec.compaction.compaction is own


class Shortened(us.CompactedMemory):
    """A memory of a user's that is given as a class."""

    def __init__(self) -> None:
        super().__init__(us.InMemoryMemory(), us.Compaction(context_window=2_000))


def test_a_class_of_memory_whose_rule_is_not_known_yet_is_refused() -> None:
    with pytest.raises(TypeError, match=r"the rule of a Shortened .* Agent\(compaction=…\)"):
        us.Agent("a", model="rehearsal", memory=Shortened)

    assert us.Agent("a", model="rehearsal", memory=Shortened, compaction=us.Compaction()).memory is Shortened


def test_a_memory_made_with_a_rule_that_its_agent_does_not_have_fails_the_run(system: us.ActorSystem) -> None:
    agent = us.Agent("a", model=us.ScriptedModel([says("Hm.")]), memory=lambda: Shortened())
    error = agent.submit("go", conversation_id="c-1", system=system).exception(20)

    assert isinstance(error, us.AgentCrashed)
    assert "Agent(compaction=…)" in str(error)
    with_rule = agent.replace(compaction=us.Compaction())
    assert finished(with_rule.run("go", conversation_id="c-1", system=system)).text == "Hm."


def test_a_retry_inside_of_a_summary_is_told_and_is_none_of_the_turn(system: us.ActorSystem) -> None:
    sent = list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        body = request.content.decode()
        is_summary = "You sum up" in body
        sent.append("summary" if is_summary else "turn")
        if is_summary and sent.count("summary") == 1:
            return httpx.Response(429, headers={"retry-after-ms": "10"}, json={"error": {"message": "slow down"}})
        choice = {"message": {"content": "So far."}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice]})

    model = us.OpenAI("m", api_key="k", transport=httpx.MockTransport(answer))
    rule = us.Compaction(prune=False, context_window=WINDOW)
    handle = us.Agent("clerk", model=model, compaction=rule).submit("Go", history=long_history(24), system=system)
    events = list(handle.events())

    retries = [event for event in events if isinstance(event, us.RetryScheduled)]
    assert [(each.what, each.turn, each.attempt, each.wait) for each in retries] == [("model", None, 1, 0.01)]
    assert [event.attempts for event in events if isinstance(event, us.TurnFinished)] == [1]


def test_the_window_of_a_known_model_is_known() -> None:
    agent = us.Agent("a", model="anthropic:claude-haiku-4-5", compaction=us.Compaction())

    assert agent.run_spec.compaction is not None
    assert agent.run_spec.compaction.window == 200_000


def test_a_cancelled_run_does_not_wait_for_its_summary(system: us.ActorSystem) -> None:
    began, released = threading.Event(), threading.Event()

    def hang(request: ModelRequest) -> str:
        began.set()
        released.wait(20)
        return "Too late."

    mind = Librarian(24)
    rule = us.Compaction(prune=False, context_window=WINDOW, model=us.FunctionModel(hang))
    handle = librarian(mind, compaction=rule, window=None).submit("Look.", system=system)
    assert began.wait(10)
    began_at = time.monotonic()
    handle.cancel()
    with pytest.raises(us.RunCancelled):
        handle.result(timeout=10)
    assert time.monotonic() - began_at < 5
    released.set()
