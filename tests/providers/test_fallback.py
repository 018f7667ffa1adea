"""`FallbackModel`: the errors after which it asks the next model, and what it tells and charges for models that failed."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

import understudy as us
from tests.support.http import HELLO, REPLY, Answers, FakeTime, speaking, within
from understudy.errors import (
    AuthenticationError,
    BadReply,
    BudgetExceeded,
    ContextOverflow,
    ProviderError,
    ProviderTimeout,
    RateLimited,
    RunCancelled,
    RunTimedOut,
)
from understudy.providers import FallbackModel, OpenAI
from understudy.testing import FunctionModel, ScriptedModel, says
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.context.scope import Scope, current_scope
from understudy.vocabulary.messages import ModelRequest, ModelTurn
from understudy.vocabulary.models import can_stream, name_of
from understudy.vocabulary.pieces import Piece, TextPiece, TurnEnd, UsagePiece

ANY_ARGUMENTS: Any = FallbackModel
"""For a caller's mistakes."""
BUSY = RateLimited("slow down", provider="a", status=429, retryable=True)

PRICES = dict.fromkeys(
    ["test:first", "test:a", "test:b", "test:c", "test:fine", "openai:m", "Streaming", "Hanging"],
    us.Price(input=1, output=1),
)
BUDGETS = [None, us.Budget(total_tokens=1_000, prices=PRICES), us.Budget(cost_usd=1.0, prices=PRICES)]


@dataclass
class Verdict:
    """A typed answer."""

    stock: int


class Failing:
    """A model that raises, and counts how often it was asked."""

    def __init__(self, error: BaseException, name: str = "first") -> None:
        self.error = error
        self.provider, self.model = "test", name
        self.asked = 0

    def complete(self, request: ModelRequest) -> ModelTurn:
        self.asked += 1
        raise self.error


class Streaming:
    """A model that yields pieces, and raises what stands among them."""

    def __init__(self, *pieces: Piece | Exception) -> None:
        self.pieces = pieces
        self.closed = False

    def complete(self, request: ModelRequest) -> ModelTurn:
        raise AssertionError("it is asked for a stream")

    def stream(self, request: ModelRequest) -> Iterator[Piece]:
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed = True


def is_refused(error: ProviderError) -> bool:
    return error.status == 401


def never(error: ProviderError) -> bool:
    return False


def nothing(error: ProviderError) -> None:
    return None


def fails(error: ProviderError) -> bool:
    raise KeyError("no such word")


class Spending100(Failing):
    """A model that fails after 100 tokens, in one and in a stream."""

    def __init__(self, name: str = "first") -> None:
        super().__init__(ProviderError("half", retryable=True, partial=ModelTurn((), usage=us.Usage(100, 0))), name)

    def stream(self, request: ModelRequest) -> Iterator[Piece]:
        yield UsagePiece(us.Usage(100, 0))
        raise self.error


class Spending10(Streaming):
    """A model that answers with 10 tokens, in one and in a stream."""

    provider, model = "test", "fine"

    def __init__(self) -> None:
        super().__init__(TextPiece("Seven."), TurnEnd(usage=us.Usage(10, 0)))

    def complete(self, request: ModelRequest) -> ModelTurn:
        return ModelTurn(says("Seven.").parts, usage=us.Usage(10, 0))


def streams_with_100_lost() -> OpenAI:
    """Make a client whose first attempt at a stream fails after 100 tokens; the second one takes 10."""

    def events(*data: object) -> httpx.Response:
        lines = "".join([f"data: {json.dumps(each)}\n\n" for each in data])
        return httpx.Response(200, content=lines.encode(), headers={"content-type": "text/event-stream"})

    def used(tokens: int) -> object:
        return {"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 0}}

    lost = events(used(100), {"error": {"message": "overloaded", "code": 500}})
    fine = events({"choices": [{"index": 0, "delta": {"content": "Seven."}, "finish_reason": "stop"}]}, used(10))
    return OpenAI("m", api_key="k", transport=Answers(lost, fine), timing=FakeTime().timing())


def whole(model: FallbackModel) -> str:
    return model.complete(HELLO).text


def in_pieces(model: FallbackModel) -> str:
    return "".join(piece.text for piece in model.stream(HELLO) if isinstance(piece, TextPiece))


def says_seven() -> FunctionModel:
    return FunctionModel(lambda _: says("Seven."))


# --- which errors


@pytest.mark.parametrize(
    ("error", "goes_on"),
    [
        (BUSY, True),
        (RateLimited("quota", status=429, code="insufficient_quota"), True),
        (ProviderError("overloaded", status=529, retryable=True), True),
        (ProviderError("could not be reached", retryable=True), True),
        (ProviderTimeout("did not finish", retryable=False), True),
        (ConnectionError("of a model object"), True),
        (TimeoutError("of a model object"), True),
        (AuthenticationError("wrong key", status=401), False),
        (ProviderError("bad request", status=400), False),
        (BadReply("no JSON"), False),
        (ContextOverflow("too long"), False),
        (ValueError("no such setting"), False),
        (RunCancelled("cancelled"), False),
        (RunTimedOut("over"), False),
        (BudgetExceeded("spent"), False),
        (KeyError("a mistake"), False),
    ],
)
def test_the_next_model_is_asked_after_errors_that_another_model_may_not_have(error: Exception, goes_on: bool) -> None:
    model = FallbackModel([Failing(error), says_seven()])

    if goes_on:
        assert model.complete(HELLO).text == "Seven."
    else:
        with pytest.raises(type(error)) as caught:
            model.complete(HELLO)
        assert str(caught.value) == str(error)


@pytest.mark.parametrize(
    ("on", "goes_on"),
    [
        ([AuthenticationError], True),
        ((AuthenticationError, RateLimited), True),
        ([RateLimited], False),
        (is_refused, True),
        (never, False),
    ],
)
def test_the_user_may_say_after_which_errors(on: Any, goes_on: bool) -> None:
    model = FallbackModel([Failing(AuthenticationError("wrong key", status=401)), says_seven()], on=on)

    if goes_on:
        assert model.complete(HELLO).text == "Seven."
    else:
        with pytest.raises(AuthenticationError):
            model.complete(HELLO)


def test_a_client_has_its_own_retries_before_the_next_model_is_asked() -> None:
    busy, fine = Answers(httpx.Response(503)), Answers(httpx.Response(200, content=REPLY))
    model = FallbackModel(
        [
            OpenAI("m", api_key="k", transport=busy, timing=FakeTime().timing()),
            OpenAI("n", api_key="k", transport=fine),
        ]
    )

    assert [model.complete(HELLO).text, len(busy.requests), len(fine.requests)] == ["Hi.", 3, 1]


def test_nobody_waits_for_a_key_that_is_held_back_while_another_model_is_left() -> None:
    time, refusal = FakeTime(), httpx.Response(429, headers={"retry-after": "7"})
    busy, fine = Answers(refusal), Answers(httpx.Response(200, content=REPLY))
    model = FallbackModel(
        [OpenAI("m", api_key="k", transport=busy, timing=time.timing()), OpenAI("n", api_key="k", transport=fine)]
    )

    assert [model.complete(HELLO).text for _ in range(3)] == ["Hi."] * 3
    assert [len(busy.requests), len(fine.requests), time.slept] == [1, 3, []]

    time.now += 7.0
    assert model.complete(HELLO).text == "Hi."
    assert [len(busy.requests), len(fine.requests)] == [2, 4]


def is_no_limit(error: ProviderError) -> bool:
    return not isinstance(error, RateLimited)


@pytest.mark.parametrize("on", [[us.ContentBlocked], is_no_limit])
def test_a_refusal_after_which_no_other_model_is_asked_is_waited_for(on: Any) -> None:
    time, refusal = FakeTime(), httpx.Response(429, headers={"retry-after": "7"})
    busy = Answers(refusal, httpx.Response(200, content=REPLY))
    client = OpenAI("m", api_key="k", transport=busy, timing=time.timing())

    assert FallbackModel([client, Failing(BUSY)], on=on).complete(HELLO).text == "Hi."
    assert sum(time.slept) == 7.0


def test_the_function_is_called_once_for_an_error_that_a_client_asks_about_too() -> None:
    asked: list[ProviderError] = []

    def on(error: ProviderError) -> bool:
        asked.append(error)
        return True

    refused = OpenAI("m", api_key="k", transport=Answers(httpx.Response(429)), timing=FakeTime().timing())

    assert FallbackModel([refused, says_seven()], on=on).complete(HELLO).text == "Seven."
    assert [type(error) for error in asked] == [RateLimited]


def test_the_last_model_is_waited_for() -> None:
    time, refusal = FakeTime(), httpx.Response(429, headers={"retry-after": "7"})
    busy = Answers(refusal, httpx.Response(200, content=REPLY))
    client = OpenAI("m", api_key="k", transport=busy, timing=time.timing())

    assert FallbackModel([Failing(BUSY), client]).complete(HELLO).text == "Hi."
    assert sum(time.slept) == 7.0


# --- what is told


def test_the_turn_names_the_model_that_answered_and_has_the_tokens_of_those_that_failed() -> None:
    half = BadReply("half", retryable=True, partial=ModelTurn((), usage=us.Usage(10, 5)))
    model = FallbackModel(
        [Failing(half), FunctionModel(lambda _: ModelTurn(says("Seven.").parts, usage=us.Usage(100, 20)))]
    )

    turn = model.complete(HELLO)

    assert (turn.text, turn.model, turn.usage) == ("Seven.", "FunctionModel", us.Usage(110, 25))


def test_its_name_has_the_names_of_its_models() -> None:
    model = FallbackModel([Failing(BUSY, "a"), FallbackModel([Failing(BUSY, "b"), says_seven()])])

    assert name_of(model) == "FallbackModel([test:a, test:b, FunctionModel])"


def test_the_last_error_names_the_ones_before_and_has_their_tokens() -> None:
    half = ProviderError("half", retryable=True, partial=ModelTurn((), usage=us.Usage(10, 5)))
    late = ProviderTimeout("too late", retryable=True, partial=ModelTurn((), usage=us.Usage(1, 2)))
    model = FallbackModel([Failing(BUSY, "a"), Failing(half, "b"), Failing(late, "c")])

    with pytest.raises(ProviderTimeout, match="too late") as caught:
        model.complete(HELLO)

    assert caught.value.__notes__ == [
        "before it, test:a failed: RateLimited: slow down",
        "before it, test:b failed: ProviderError: half",
        "it is the error of test:c",
    ]
    assert caught.value.partial is not None
    assert caught.value.partial.usage == us.Usage(11, 7)
    assert caught.value.retries_used_up


# --- streams


def test_a_stream_goes_to_the_next_model_until_a_piece_was_shown() -> None:
    first = Streaming(UsagePiece(us.Usage(10, 0)), ProviderError("lost", retryable=True))
    second = Streaming(TextPiece("Se"), TextPiece("ven."), TurnEnd(usage=us.Usage(1, 2)))

    pieces = list(FallbackModel([first, second]).stream(HELLO))

    assert pieces == [TextPiece("Se"), TextPiece("ven."), TurnEnd(usage=us.Usage(11, 2), model="Streaming")]
    assert (first.closed, second.closed) == (True, True)


def test_an_answer_that_was_shown_is_never_replaced() -> None:
    second = Failing(BUSY)
    stream = FallbackModel([Streaming(TextPiece("Se"), BUSY), second]).stream(HELLO)

    assert next(stream) == TextPiece("Se")
    with pytest.raises(RateLimited):
        next(stream)
    assert second.asked == 0


def test_a_model_without_a_stream_is_asked_for_the_whole_turn_and_a_closed_stream_is_closed() -> None:
    whole = list(FallbackModel([Streaming(BUSY), says_seven()]).stream(HELLO))
    open_one = Streaming(TextPiece("Se"), TextPiece("ven."), TurnEnd())
    stream = FallbackModel([open_one, says_seven()]).stream(HELLO)
    next(stream)
    stream.close()

    assert (whole[0], type(whole[-1])) == (TextPiece("Seven."), TurnEnd)
    assert open_one.closed


def test_it_streams_if_one_of_its_models_does() -> None:
    assert can_stream(FallbackModel([Streaming(), Failing(BUSY)]))
    assert not can_stream(FallbackModel([Failing(BUSY), Failing(BUSY)]))


@pytest.mark.parametrize(
    ("pieces", "fault", "goes_on"),
    [
        ([], "a TurnEnd must be the last piece", True),
        ([UsagePiece(us.Usage(10, 0))], "a TurnEnd must be the last piece", True),
        ([TextPiece("Se")], "a TurnEnd must be the last piece", False),
        ([None], "pieces such as TextPiece, got NoneType", False),
    ],
)
def test_the_next_model_is_asked_if_a_stream_ends_before_a_piece_was_shown(
    pieces: Any, fault: str, *, goes_on: bool
) -> None:
    model = FallbackModel([Streaming(*pieces), says_seven()])

    if goes_on:
        assert in_pieces(model) == "Seven."
    else:
        with pytest.raises(BadReply, match=f"Streaming, a model of a FallbackModel, streamed no turn: .*{fault}"):
            in_pieces(model)


@pytest.mark.parametrize("lost", [ProviderError("lost", retryable=True), ConnectionError("lost"), TimeoutError("late")])
def test_an_error_after_a_piece_was_shown_has_what_came_and_the_tokens_of_all(lost: Exception) -> None:
    second = Streaming(UsagePiece(us.Usage(10, 0)), TextPiece("Se"), lost)

    with pytest.raises(ProviderError) as caught:
        list(FallbackModel([Spending100(), second]).stream(HELLO))

    partial = caught.value.partial
    assert partial is not None and (partial.text, partial.usage) == ("Se", us.Usage(110, 0))


@pytest.mark.parametrize("ask", [whole, in_pieces])
def test_an_error_that_a_model_raises_again_and_again_stays_as_it_is(ask: Callable[[FallbackModel], str]) -> None:
    model, other = Spending100(), Spending100()
    other.error = model.error
    told: list[object] = []

    for _ in range(2):
        with pytest.raises(ProviderError) as caught:
            ask(FallbackModel([model, other]))
        told.append((caught.value.partial and caught.value.partial.usage, len(caught.value.__notes__)))

    assert told == [(us.Usage(200, 0), 2)] * 2
    assert isinstance(model.error, ProviderError) and model.error.partial is not None
    assert (model.error.partial.usage, model.error.retries_used_up) == (us.Usage(100, 0), False)
    assert not hasattr(model.error, "__notes__")


# --- in runs


class Hanging:
    """A model that writes some pieces, and then nothing until its time is over."""

    def __init__(self, *pieces: Piece) -> None:
        self.pieces = pieces
        self.model_timeout = self.streamed_timeout = 0.05
        self.idle_timeout = None

    def complete(self, request: ModelRequest) -> ModelTurn:
        scope = current_scope()
        assert scope is not None
        scope.sleep(scope.remaining() or 0.0)
        scope.check()
        raise AssertionError("its time is over")

    def stream(self, request: ModelRequest) -> Iterator[Piece]:
        yield from self.pieces
        self.complete(request)


@pytest.mark.parametrize("ask", [whole, in_pieces])
def test_each_model_has_its_own_time_in_a_run_and_the_runs_own_deadline_ends_it(
    ask: Callable[[FallbackModel], str],
) -> None:
    model = FallbackModel([Hanging(UsagePiece(us.Usage(10, 0))), says_seven()])

    assert within(Scope(time.monotonic() + 60.0, time.monotonic), lambda: ask(model)) == "Seven."
    with pytest.raises(RunTimedOut):
        within(Scope(time.monotonic() + 0.01, time.monotonic), lambda: ask(model))
    assert model.model_timeout == 0.05 + 120.0


def test_the_time_of_a_stream_ends_an_answer_that_was_shown_and_not_what_its_reader_does() -> None:
    scope = Scope(time.monotonic() + 60.0, time.monotonic)
    seen: list[object] = []

    def read() -> None:
        for piece in FallbackModel([Hanging(TextPiece("Se")), says_seven()]).stream(HELLO):
            seen.extend([piece, current_scope()])

    with pytest.raises(ProviderTimeout, match=r"Hanging did not finish its answer within 0.05 s \(model_timeout\)"):
        within(scope, read)
    assert seen == [TextPiece("Se"), scope]


@pytest.mark.parametrize("ask", [whole, in_pieces])
@pytest.mark.parametrize("is_in_function", [True, False])
@pytest.mark.parametrize(("is_cancelled", "error"), [(True, RunCancelled), (False, RunTimedOut)])
def test_no_other_model_is_asked_once_the_run_is_over(
    ask: Callable[[FallbackModel], str], error: type[Exception], *, is_in_function: bool, is_cancelled: bool
) -> None:
    now = [0.0]
    scope = Scope(10.0, lambda: now[0])

    def end() -> None:
        if is_cancelled:
            scope.cancel()
        else:
            now[0] = 10.0

    def first(request: ModelRequest) -> ModelTurn:
        if not is_in_function:
            end()
        raise BUSY

    def on(error: ProviderError) -> bool:
        if is_in_function:
            end()
        return True

    second = Failing(BUSY)
    model = FallbackModel([FunctionModel(first), second, Streaming()], on=on)

    with pytest.raises(error):
        within(scope, lambda: ask(model))
    assert second.asked == 0


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(
    "first",
    [
        lambda: Streaming(UsagePiece(us.Usage(100, 0)), ProviderError("lost", retryable=True)),
        lambda: Streaming(UsagePiece(us.Usage(100, 0)), ConnectionError("lost")),
        lambda: Hanging(UsagePiece(us.Usage(100, 0))),
    ],
    ids=["an error without a turn", "an error of another kind", "no time left"],
)
def test_the_tokens_that_a_stream_told_before_it_failed_are_charged(
    first: Callable[[], Any], budget: us.Budget | None
) -> None:
    agent = us.Agent("clerk", model=FallbackModel([first(), Spending10()]), budget=budget)

    assert agent.submit("How many?").result(10.0).usage.input_tokens == 110


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_tokens_of_a_nested_one_that_runs_out_of_time_between_its_models_are_charged(
    budget: us.Budget | None,
) -> None:
    class Late(Spending100):
        def complete(self, request: ModelRequest) -> ModelTurn:
            scope = current_scope()
            assert scope is not None
            while not scope.is_over:
                time.sleep(0.01)
            return super().complete(request)

    nested = FallbackModel([Late(), Failing(BUSY, "b")])
    nested.model_timeout = 0.05
    agent = us.Agent("clerk", model=FallbackModel([nested, Spending10()]), budget=budget)

    assert agent.run("How many?").usage.input_tokens == 110


def test_a_streamed_run_asks_the_next_model_when_a_server_never_answers() -> None:
    def silent(connection: socket.socket, over: threading.Event) -> None:
        over.wait(60.0)

    with speaking(silent) as address:
        hung = OpenAI("m", api_key="k", base_url=address, model_timeout=0.2)
        with us.Agent("clerk", model=FallbackModel([hung, says_seven()])).stream("How many?") as events:
            assert events.result().text == "Seven."


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    ("models", "tokens"),
    [
        (lambda: [Spending100(), Spending10()], 110),
        (lambda: [Spending100("a"), Spending100("b"), Spending10()], 210),
        (lambda: [FallbackModel([Spending100("a"), Spending100("b")]), Spending10()], 210),
        (lambda: [Spending100("a"), FallbackModel([Spending100("b"), Spending10()])], 210),
        (
            lambda: [
                FallbackModel([FallbackModel([Spending100("a"), Spending100("b")]), Spending100("c")]),
                Spending10(),
            ],
            310,
        ),
    ],
    ids=[
        "one failed",
        "two failed",
        "a nested one failed",
        "a nested one answered",
        "two deep",
    ],
)
def test_tokens_of_models_that_failed_are_charged_once(
    models: Callable[[], list[Any]], tokens: int, *, is_streamed: bool, budget: us.Budget | None
) -> None:
    agent = us.Agent("clerk", model=FallbackModel(models()), budget=budget)

    outcome = agent.submit("How many?").result(10.0) if is_streamed else agent.run("How many?")

    assert outcome.usage.input_tokens == tokens
    assert budget is None or outcome.cost_usd == pytest.approx(tokens / 1_000_000)


@pytest.mark.parametrize("budget", BUDGETS)
def test_tokens_of_attempts_of_a_client_are_charged_once_beside_those_of_models(budget: us.Budget | None) -> None:
    agent = us.Agent("clerk", model=FallbackModel([Spending100(), streams_with_100_lost()]), budget=budget)

    assert agent.submit("How many?").result(10.0).usage.input_tokens == 210


def test_tokens_are_charged_at_the_price_of_the_model_that_used_them() -> None:
    half = BadReply("half", retryable=True, partial=ModelTurn((), usage=us.Usage(1_000_000, 0)))
    cheap = FunctionModel(lambda _: ModelTurn(says("Seven.").parts, usage=us.Usage(2_000_000, 0)))
    prices = {"test:dear": us.Price(input=10, output=10), "FunctionModel": us.Price(input=1, output=1)}
    agent = us.Agent(
        "clerk",
        model=FallbackModel([Failing(half, "dear"), cheap]),
        budget=us.Budget(cost_usd=100.0, prices=prices),
    )

    outcome = agent.run("How many?")

    assert (outcome.text, outcome.cost_usd, outcome.usage.input_tokens) == ("Seven.", 12.0, 3_000_000)


def test_a_turn_of_the_first_model_after_one_of_the_second_has_its_own_price_again() -> None:
    account = Account("clerk", "openai:gpt-4o", Spending())
    account.asks("openai:gpt-4o-mini")
    account.charge_turn(us.Usage(1_000_000, 0))
    mini = account.spending.cost
    account.charge_turn(us.Usage(1_000_000, 0))

    assert mini is not None and account.spending.cost is not None
    assert account.spending.cost - mini > 10 * mini


def test_a_limit_of_dollars_needs_the_price_of_every_model() -> None:
    model = FallbackModel(["openai:gpt-4o", Failing(BUSY, "unknown")])

    with pytest.raises(ValueError, match="there is no price for model 'test:unknown'"):
        us.Agent("clerk", model=model, budget=us.Budget(cost_usd=1.0))
    assert us.Agent(
        "clerk", model=FallbackModel(["openai:gpt-4o", "openai:gpt-4o-mini"]), budget=us.Budget(cost_usd=1.0)
    )


def test_a_conversation_goes_from_one_provider_to_the_other() -> None:
    busy = httpx.Response(429, headers={"retry-after": "0"})
    fine = Answers(httpx.Response(200, content=REPLY))
    first = Answers(httpx.Response(200, content=REPLY), busy)
    model = FallbackModel(
        [
            OpenAI("gpt-4o", api_key="k", transport=first, timing=FakeTime().timing()),
            OpenAI("other", api_key="k", base_url="https://other.test/v1", transport=fine),
        ]
    )
    agent = us.Agent("clerk", model=model, memory=us.InMemoryMemory())

    texts = [agent.run(word, conversation_id="c").text for word in ("one", "two")]

    assert texts == ["Hi.", "Hi."]
    sent = json.loads(fine.requests[0].content)["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]


def test_settings_that_one_of_the_models_lacks_are_refused_when_the_agent_is_made() -> None:
    class Strict(ScriptedModel):
        def check_settings(self, settings: us.Settings) -> None:
            raise ValueError("this model has no seed")

    with pytest.raises(ValueError, match="this model has no seed"):
        us.Agent("clerk", model=FallbackModel([says_seven(), Strict([])]), settings=us.Settings(seed=1))


@pytest.mark.parametrize(
    ("models", "tool"),
    [(["openai:gpt-4o", "anthropic:claude-opus-4-5"], ""), (["openai:gpt-4o", "openai:gpt-4"], "final_answer")],
)
def test_a_typed_answer_comes_in_a_form_that_every_model_has(models: list[str], tool: str) -> None:
    agent = us.Agent("clerk", model=FallbackModel(models), output_type=Verdict)

    assert agent.run_spec.output is not None
    assert agent.run_spec.output.tool == tool


# --- wrong values


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: ANY_ARGUMENTS(None), TypeError, "models must be a list of models, got None"),
        (lambda: ANY_ARGUMENTS("openai:gpt-4o"), TypeError, "models must be a list of models"),
        (lambda: ANY_ARGUMENTS([]), ValueError, "at least two models, got 0"),
        (lambda: ANY_ARGUMENTS(["openai:gpt-4o"]), ValueError, "at least two models, got 1"),
        (lambda: ANY_ARGUMENTS(["openai:gpt-4o", "openai:gpt-4o"]), ValueError, "openai:gpt-4o stands in models twice"),
        (lambda: ANY_ARGUMENTS(["openai:gpt-4o", "gpt-4o"]), ValueError, "Did you mean 'openai:gpt-4o'"),
        (lambda: ANY_ARGUMENTS(["openai:gpt-4o", None]), TypeError, "have a complete.. method, got None"),
        (lambda: ANY_ARGUMENTS(["openai:gpt-4o", OpenAI]), TypeError, "have a complete.. method, got <class"),
        (
            lambda: ANY_ARGUMENTS(["openai:a", "openai:b"], on=[ValueError]),
            TypeError,
            "classes of ProviderError alone, got .<class 'ValueError'>",
        ),
        (lambda: ANY_ARGUMENTS(["openai:a", "openai:b"], on=[]), ValueError, "on holds no class of an error"),
        (lambda: ANY_ARGUMENTS(["openai:a", "openai:b"], on={}), ValueError, "on holds no class of an error"),
        (
            lambda: ANY_ARGUMENTS(["openai:a", "openai:b"], on=RateLimited),
            TypeError,
            r"a list of classes or a function, got <class '.*RateLimited'>; did you mean on=\[RateLimited\]\?",
        ),
        (lambda: ANY_ARGUMENTS(["openai:a", "openai:b"], on=int), TypeError, "function, got <class 'int'>$"),
        (lambda: ANY_ARGUMENTS(["openai:a", "openai:b"], on=None), TypeError, "FallbackModel: on must be a function"),
        (lambda: ANY_ARGUMENTS(["openai:a", "openai:b"], on="RateLimited"), TypeError, "FallbackModel: on must be"),
    ],
)
def test_wrong_values_are_errors_when_it_is_made(make: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


class Wrong:
    """A model that returns a value, in one and as its stream."""

    provider, model = "test", "wrong"

    def __init__(self, value: object) -> None:
        self.value = value

    def complete(self, request: ModelRequest) -> Any:
        return self.value

    def stream(self, request: ModelRequest) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("ask", "value", "text"),
    [
        (whole, None, "returned no turn: got None, expected a ModelTurn"),
        (whole, 7, "returned no turn: got a value of type int, expected a ModelTurn"),
        (in_pieces, None, "streamed no turn: got NoneType, expected an iterator of pieces"),
        (in_pieces, 7, "streamed no turn: got int, expected an iterator of pieces"),
        (in_pieces, "Seven.", "streamed no turn: got str, expected an iterator of pieces"),
    ],
)
def test_a_model_that_gives_no_turn_is_named_and_no_other_model_is_asked(
    ask: Callable[[FallbackModel], str], value: object, text: str
) -> None:
    second = Failing(BUSY)

    with pytest.raises(BadReply, match=f"test:wrong, a model of a FallbackModel, {text}"):
        ask(FallbackModel([Wrong(value), second]))
    assert second.asked == 0


def test_none_among_the_pieces_of_a_model_with_a_time_of_its_own_is_a_wrong_piece_and_not_the_end() -> None:
    wrong: Any = None
    agent = us.Agent("clerk", model=FallbackModel([Hanging(TextPiece("Se"), wrong), says_seven()]))

    with pytest.raises(BadReply, match="a model's stream yields pieces such as TextPiece, got NoneType"):
        agent.submit("How many?").result(10.0)


def leaves(error: ProviderError) -> bool:
    raise SystemExit(3)


def test_a_function_that_fails_while_a_client_asks_it_is_told_of_with_the_error_of_the_call() -> None:
    refused = OpenAI("m", api_key="k", transport=Answers(httpx.Response(429)), timing=FakeTime().timing())

    with pytest.raises(ProviderError, match=r"on failed: SystemExit: 3\. .* the error of openai:m: RateLimited"):
        FallbackModel([refused, says_seven()], on=leaves).complete(HELLO)


@pytest.mark.parametrize(
    ("on", "fault"),
    [(nothing, "WrongReturn: it must return True or False, got None"), (fails, "KeyError: 'no such word'")],
)
def test_a_function_that_fails_asks_no_other_model_and_hides_neither_the_error_nor_the_tokens(
    on: Any, fault: str
) -> None:
    half = RateLimited("slow down", status=429, retryable=True, partial=ModelTurn((), usage=us.Usage(10, 5)))
    second = Failing(BUSY)

    with pytest.raises(ProviderError, match=re.escape(fault)) as caught:
        ANY_ARGUMENTS([Failing(half), second], on=on).complete(HELLO)

    error = caught.value
    assert "about the error of test:first: RateLimited: slow down" in str(error)
    assert (error.status, error.retryable, second.asked) == (429, False, 0)
    assert error.partial is not None and error.partial.usage == us.Usage(10, 5)
    assert error.__cause__ is not None and error.__cause__.__context__ is half


def test_the_tokens_before_a_function_that_fails_are_charged() -> None:
    half = BadReply("half", retryable=True, partial=ModelTurn((), usage=us.Usage(10, 5)))
    agent = us.Agent("clerk", model=ANY_ARGUMENTS([Failing(half), says_seven()], on=fails))

    with pytest.raises(ProviderError) as caught:
        agent.run("How many?")

    assert caught.value.partial is not None and caught.value.partial.usage == us.Usage(10, 5)
