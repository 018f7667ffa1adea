"""Everything understudy raises, in one tree.

    UnderstudyError
    ├── SpecError                       a spec file or a definition is wrong
    ├── DrawingError                    runners cannot be drawn
    ├── ProviderError                   a model API failed
    │   ├── RateLimited                 it asked us to slow down; with a token to go on
    │   ├── AuthenticationError         the key is missing or refused
    │   ├── ProviderTimeout             no answer in time; with a token to go on
    │   ├── ContextOverflow             the request is longer than the model's context window
    │   ├── ContentBlocked              the prompt was refused, or the whole answer held back, because of its content
    │   └── BadReply                    the answer breaks the API's format
    ├── ToolError                       a tool failed, and the run was told to raise
    │   ├── ToolTimeout
    │   └── ToolUnavailable
    ├── RunError                        a run ended without an outcome
    │   ├── MaxIterationsExceeded       a limit, with a token to go on
    │   ├── CallbackAbort               a callback ended the run
    │   ├── BudgetExceeded              a limit of what may be spent, with a token to go on
    │   ├── InvalidOutput               no answer fits the output type, with a token to go on
    │   ├── CircularAgentCall           a run would wait for itself
    │   ├── DisallowedAgentCall         a sub-agent's lists forbid the run
    │   ├── RunCancelled                with a token if it was asked for
    │   ├── RunTimedOut                 with a token to go on
    │   ├── SeveralErrors               all that could have succeeded failed; an ExceptionGroup too
    │   ├── UnfinishedRun               `.text` was read of a run that waits
    │   ├── ProtocolViolation           a machine was driven out of order
    │   ├── SpecChanged                 a saved run belongs to another definition
    │   ├── UnknownToken
    │   ├── TokenUsed
    │   ├── TokenLeased
    │   ├── LeaseLost
    │   ├── MapInUse
    │   └── AnswerRefused               an answer does not fit what a run waits for
    │       └── AnswerMissing           a run that waits for a person was to go on without an answer
    ├── ActorError                      the runtime could not deliver or finish a message
    │   ├── MailboxFull
    │   ├── AgentDown
    │   └── AgentCrashed
    └── StoreError                      a store could not keep or return a value

Every argument but the message has a default, so each error survives `copy` and `pickle`.

`Retry` is outside of the tree: a tool raises it as a message to the model, and no run raises it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypedDict, TypeVar, Unpack, cast

from understudy.vocabulary.any_outcome import AnyOutcome
from understudy.vocabulary.messages import NO_USAGE, JsonValue, Message, ModelTurn, ToolCall, Usage

E = TypeVar("E", bound="UnderstudyError")
_NO_VALUES: Mapping[str, JsonValue] = MappingProxyType({})


class UnderstudyError(Exception):
    """The root of all errors that understudy raises.

    The last six attributes are filled in when the error ends a run; they tell of the run that was called.

    Attributes:
        retries_used_up: whether the layer that raised it has used up its retries. A layer above retries it only
            if it names the error.
        path: ids of the runners from the outermost one to the one that failed, both included.
        messages: what the run added to the history until then, as an outcome has it; calls that did not end have an error
            as their result, so that it can be given as `history=`. Of a group: what the child that failed had.
        usage: tokens of all model calls until then, those of runs inside included.
        session: the session's values until then. Of a group: those that the child that failed had. A copy that goes to
            another process is without the values that are no JSON.
        children: of a group or a workflow: how the runs inside of it ended until then, in order, as `outcome.children` has
            them; what had not ended stands there as a `RunCancelled`. A child that failed with this error is the error
            itself; a group that did is a copy of it, with the children of that group. In a copy that goes to another
            process, an `UnderstudyError` stands for a child that cannot be pickled.
        token: resumes the run: after a limit was raised, or as it is if the error may pass (`RateLimited`, `ProviderTimeout`,
            another `ProviderError` that is `retryable`, `RunTimedOut`, `RunCancelled` by `handle.cancel()`). Empty for
            every other error, for a run inside of another one, and where the run could not be kept.
    """

    retries_used_up: bool = False
    path: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    usage: Usage = NO_USAGE
    session: Mapping[str, JsonValue] = _NO_VALUES
    token: str = ""
    _children: tuple[AnyOutcome | BaseException | None, ...] = ()
    """None in place of the error itself, so that the error holds no reference to itself."""

    @property
    def children(self) -> tuple[AnyOutcome | BaseException, ...]:
        return tuple([self if child is None else child for child in self._children])

    @children.setter
    def children(self, children: Iterable[AnyOutcome | BaseException]) -> None:
        self._children = tuple([None if child is self else child for child in children])

    def __reduce__(self) -> tuple[object, ...]:
        # `BaseException` pickles positional arguments only; the attributes travel as state.
        return (_revive, (type(self), self.args, _portable(self.__dict__)))

    def __copy__(self) -> Self:
        return _revive(type(self), self.args, self.__dict__)


def _portable(state: dict[str, object]) -> dict[str, object]:
    """Return the attributes without values of users that cannot be pickled."""
    state = state.copy()
    session = state.get("session")
    if session is not None:
        values = cast("Mapping[str, JsonValue]", session)
        state["session"] = {key: value for key, value in values.items() if _is_plain(value)}
    if "_children" in state:
        children = cast("tuple[object, ...]", state.pop("_children"))
        state[_PICKLED] = [None if child is None else _pickled(child) for child in children]
    return state


_PICKLED = "_pickled_children"
"""Children as bytes: whether one can be pickled shows only once it is, and pickled twice a tree takes very long."""


def _pickled(child: object) -> bytes:
    import pickle  # loaded late: few errors are copied to other processes

    try:
        found = pickle.dumps(child)
        pickle.loads(found)  # an exception of a user's may refuse only this
    except Exception as error:  # noqa: BLE001 (whatever a user's value raises)
        who = getattr(child, "agent_id", "") or type(child).__name__
        lost = UnderstudyError(f"how {who!r} ended could not be pickled: {kind_and_message(error)}")
        return pickle.dumps(lost)
    return found


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, cast("Sequence[object]", value)))
    if isinstance(value, dict):
        return all(map(_is_plain, cast("dict[str, object]", value).values()))
    return value is None or isinstance(value, (bool, int, float, str))


def _revive(cls: type[E], args: tuple[object, ...], state: dict[str, object]) -> E:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    pickled = error.__dict__.pop(_PICKLED, None)
    if pickled is not None:
        import pickle

        error.__dict__["_children"] = tuple([None if child is None else pickle.loads(child) for child in pickled])
    notes = state.get("__notes__")
    if isinstance(notes, list):
        error.__notes__ = list(cast("list[str]", notes))  # else a note on the one would be one on the other
    return error


class SpecError(UnderstudyError, ValueError):
    """A spec file cannot be loaded. The message lists every problem, a line each."""


class DrawingError(UnderstudyError):
    """Runners cannot be drawn: there are none or too many, or the program that draws them is missing or failed."""


class ProviderError(UnderstudyError):
    """A model API refused, failed or could not be reached.

    Attributes:
        provider: `openai`, `anthropic`, `gemini`, `vertex`, or what the model calls itself.
        status: the HTTP status, or None when no response came.
        code: the provider's own word for the error, the most specific one, such as `context_length_exceeded`; empty
            if none.
        type: the provider's own word for the kind of error, such as `invalid_request_error`; empty if none.
        retry_after: seconds the provider asked to wait, or None.
        retryable: whether the same request may succeed later.
        partial: the turn as far as it came before the failure, with its `text` and `usage`; None if nothing came.
        request_id: the provider's id of the request, from the headers of its answer; empty if it sent none. Its support asks
            for it.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        code: str = "",
        type: str = "",
        retry_after: float | None = None,
        retryable: bool = False,
        partial: ModelTurn | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.code = code
        self.type = type
        self.retry_after = retry_after
        self.retryable = retryable
        self.partial = partial
        self.request_id = request_id


class _OfProviderError(TypedDict, total=False):
    """The arguments that every `ProviderError` takes beside its message, and beside those of its own class."""

    provider: str
    status: int | None
    code: str
    type: str
    retry_after: float | None
    retryable: bool
    partial: ModelTurn | None
    request_id: str


class RateLimited(ProviderError):
    """The provider asked us to slow down (HTTP 429). Has a `.token`: `resume(token)` asks again."""


class AuthenticationError(ProviderError):
    """The key or token is missing, unknown, or not allowed to do this. Its `.token` is empty, unless it is `retryable`."""


class ProviderTimeout(ProviderError):
    """No answer came within the time a model call has. Has a `.token`: `resume(token)` asks again."""


class ContextOverflow(ProviderError):
    """The request is longer than the model's context window. Not retried: the same request would be refused again.

    A run with `compaction` shortens its request and asks once more. If that is refused too, the run ends with this error,
    which has a token then.

    Attributes:
        tokens: how many tokens the request has, if the provider says so.
        limit: how many the model takes, if the provider says so.
        run_id: the run that ended; empty if none did.
        token: resumes the run, in which the turn is tried again; empty if the run has no compaction.
    """

    def __init__(
        self,
        message: str,
        *,
        tokens: int | None = None,
        limit: int | None = None,
        run_id: str = "",
        token: str = "",
        **more: Unpack[_OfProviderError],
    ) -> None:
        super().__init__(message, **more)
        self.tokens = tokens
        self.limit = limit
        self.run_id = run_id
        self.token = token


class ContentBlocked(ProviderError):
    """The provider refused the prompt, or held back the whole answer, because of its content.

    Not `retryable`, so its `.token` is empty: the same prompt would be blocked again. Another model may answer it.

    Attributes:
        reason: the provider's own word for why, such as `SAFETY`, `content_filter` or `refusal`; empty if it has none.
        categories: what was found, in the provider's words, such as `HARM_CATEGORY_HATE_SPEECH` or `violence`; empty if it
            does not say.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        categories: tuple[str, ...] = (),
        **more: Unpack[_OfProviderError],
    ) -> None:
        super().__init__(message, **more)
        self.reason = reason
        self.categories = categories


class BadReply(ProviderError):
    """The response is not what the API promises: not JSON, cut off, too large, or of another shape.

    Has a `.token` if it is `retryable`, as one that was cut off is: `resume(token)` asks again.
    """


class Retry(Exception):
    """Raised by a tool to let the model try again: the model reads the reason unchanged, as an error result.

    It is no failure: `retries` of the tool are not used up by it, `restart_on` does not hear of it, and it ends no run. What
    the call changed in the session is dropped.

    Args:
        reason: what to do differently, in words for the model.
    """

    def __init__(self, reason: str) -> None:
        if not isinstance(reason, str) or not reason.strip():
            raise TypeError(f"Retry takes the reason that the model is to read, got {reason!r}")
        super().__init__(reason)

    @property
    def reason(self) -> str:
        """What the model reads."""
        return str(self.args[0]) if self.args else type(self).__name__  # a subclass may have its own `__init__`


class ToolError(UnderstudyError):
    """A tool call failed and was not turned into a result for the model: the agent or tool says that this ends the run.

    `__cause__` is the tool's exception, if the tool ran in this process.

    Attributes:
        tool: the tool's name.
        call_id: which call of the turn.
    """

    def __init__(self, message: str, *, tool: str = "", call_id: str = "") -> None:
        super().__init__(message)
        self.tool = tool
        self.call_id = call_id


class ToolTimeout(ToolError):
    """A tool did not return within its timeout, and that ends the run; otherwise the model reads that the call timed out."""


class ToolUnavailable(ToolError):
    """No slot is left for the tool: calls that never returned hold them all; or no thread is there for the call.

    It ends a run only if the agent or tool says so; otherwise the model reads it.
    """


class RunError(UnderstudyError):
    """A run ended, or cannot go on, for a reason of its own.

    Attributes:
        run_id: which run; empty when the machine was driven by hand.
    """

    def __init__(self, message: str, *, run_id: str = "", token: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id
        self.token = token


class MaxIterationsExceeded(RunError):
    """The model asked for one round of tool calls, or one turn, more than allowed; nothing of it ran.

    Attributes:
        limit: the number that was reached.
        what: `max_iterations` (rounds of tool calls) or `max_turns` (model calls).
    """

    def __init__(
        self,
        message: str,
        *,
        limit: int = 0,
        what: str = "max_iterations",
        run_id: str = "",
        token: str = "",
    ) -> None:
        super().__init__(message, run_id=run_id, token=token)
        self.limit = limit
        self.what = what


class CallbackAbort(RunError):
    """A callback ended the run; the message is its own. Its `.token` is empty.

    Attributes:
        callback: the callback's name; a guardrail's is the one it was made with.
    """

    def __init__(self, message: str, *, callback: str = "", run_id: str = "", token: str = "") -> None:
        super().__init__(message, run_id=run_id, token=token)
        self.callback = callback


class BudgetExceeded(RunError):
    """A budget is used up, so no further call may begin. The calls in flight have ended, and their results are kept.

    Attributes:
        what: the limit that was reached, by its name in `Budget`.
        limit: its number.
        spent: how much of it was spent, runs inside included; infinite for a cost that is not known.
        inherited: whether it is the budget of an outer run, which is at its limit too.
    """

    def __init__(
        self,
        message: str,
        *,
        what: str = "",
        limit: float = 0,
        spent: float = 0,
        inherited: bool = False,
        run_id: str = "",
        token: str = "",
    ) -> None:
        super().__init__(message, run_id=run_id, token=token)
        self.what = what
        self.limit = limit
        self.spent = spent
        self.inherited = inherited


class InvalidOutput(RunError):
    """No answer of the model fits the agent's output type, and it is not asked again.

    Attributes:
        text: the last answer.
        problems: the problem of each answer, in order.
    """

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        problems: tuple[str, ...] = (),
        run_id: str = "",
        token: str = "",
    ) -> None:
        super().__init__(message, run_id=run_id, token=token)
        self.text = text
        self.problems = problems


class CircularAgentCall(RunError):
    """A run would wait for itself, directly or through others. Raised before the wait, where it would close the cycle.

    A run that the waiting code submitted, and that leads to a runner which waits already, is cancelled. Its `.token` is empty.

    Attributes:
        path: ids of agents, addresses of actors, and conversations and memories on the way, the first one again at the end.
    """

    def __init__(self, message: str, *, path: tuple[str, ...] = (), run_id: str = "", token: str = "") -> None:
        super().__init__(message, run_id=run_id, token=token)
        self.path = path


class DisallowedAgentCall(RunError):
    """The `allow` or `deny` list of a sub-agent forbids a run below it. Raised to the code that would start the run.

    Attributes:
        path: ids of the runners on the way, outermost first; the last one is the one refused.
        by: the sub-agent whose lists forbid it, in words.
    """

    def __init__(
        self, message: str, *, path: tuple[str, ...] = (), by: str = "", run_id: str = "", token: str = ""
    ) -> None:
        super().__init__(message, run_id=run_id, token=token)
        self.path = path
        self.by = by


class RunCancelled(RunError):
    """Someone cancelled the run, or its process stopped it.

    Has a `.token` after `handle.cancel()`, and with a store after `system.stop()`: `resume(token)` goes on from the last
    finished step. It is empty where nobody asked for it: the loser of `first`, a run whose outer run ended, Ctrl-C in `run`.
    """


class RunTimedOut(RunError):
    """The run's own deadline passed. Has a `.token`: `resume(token, timeout=…)` goes on, without `timeout` for any time."""


class UnfinishedRun(RunError):
    """`.text` or `.output` was read of an outcome that waits for something."""


class SeveralErrors(RunError, ExceptionGroup[Exception]):
    """All alternatives failed: the children of a parallel group, or the futures given to `first`.

    It is an `ExceptionGroup` too, so that `except*` finds what it holds.

    Attributes:
        exceptions: the errors, in order. After the group went on in another process, those from before have lost all but
            their words.
    """

    def __new__(cls, message: str, errors: Sequence[Exception] = (), *, run_id: str = "", token: str = "") -> Self:
        # A group is never empty: of what was saved as text, the words alone are left.
        return super().__new__(cls, message, tuple(errors) or (RunError(message),))

    def __init__(self, message: str, errors: Sequence[Exception] = (), *, run_id: str = "", token: str = "") -> None:
        super().__init__(message, run_id=run_id, token=token)
        self.args = (message, self.exceptions)

    def __str__(self) -> str:
        return self.message

    def derive(self, excs: Sequence[Any], /) -> Any:
        """Return an error like this one that holds some of its errors; for `except*`, `split` and `subgroup`."""
        made = SeveralErrors(self.message, excs)
        made.__dict__.update({name: value for name, value in vars(self).items() if name != "__notes__"})
        return made


def joined(message: str, errors: Sequence[BaseException]) -> SeveralErrors:
    """Return one error that holds several. It holds no exit and no Ctrl-C: a `RunError` with it as cause stands there."""
    return SeveralErrors(message, [error if isinstance(error, Exception) else _as_run_error(error) for error in errors])


def _as_run_error(error: BaseException) -> RunError:
    made = RunError(kind_and_message(error))
    made.__cause__ = error
    return made


class ProtocolViolation(RunError):
    """A machine was fed something it did not ask for. Its state has not changed."""


class SpecChanged(RunError, ValueError):
    """A saved run was made with another definition of its agent.

    Load it with `adopt=True` to go on with the definition at hand.
    """


class UnknownToken(RunError, ValueError):
    """No paused run here has this token."""


class TokenUsed(RunError, ValueError):
    """This token has been used; a token resumes a run once.

    Attributes:
        next: the token with which the run goes on now, if the turn of this one was committed by `run_turn` and no other
            call than `run_turn` has taken the run on since; None if the run is over, or nobody may be told.
    """

    def __init__(self, message: str, *, run_id: str = "", token: str = "", next: str | None = None) -> None:
        super().__init__(message, run_id=run_id, token=token)
        self.next = next


class TokenLeased(RunError):
    """A worker does the turn of this token at present; try again when the lease is over.

    It is no `TokenUsed`: the worker may die, and then the token is needed.

    Attributes:
        until: when the lease ends unless it is renewed: seconds since 1970, to compare with `time.time()`.
    """

    def __init__(self, message: str, *, run_id: str = "", token: str = "", until: float = 0.0) -> None:
        super().__init__(message, run_id=run_id, token=token)
        self.until = until


class LeaseLost(RunError):
    """Another process has what this one was doing: a turn of which the lease ended, a run, or a map with a name.

    Nothing is committed here any more; what was committed before stands.
    """


class MapInUse(RunError):
    """A map with this name is under way, in this process or in another one: its results can be had when it is over."""


class AnswerRefused(RunError, TypeError, ValueError):
    """An answer does not fit what the run waits for, such as one decision for all calls where a call in doubt needs its own.

    Nothing ran, and the token stays valid.
    """


class AnswerMissing(AnswerRefused):
    """A run that waits for a person was to go on without an answer. Nothing ran, and its token stays valid.

    Attributes:
        calls: the tool calls that wait for a decision.
        questions: the questions that wait for a text.
    """

    def __init__(
        self,
        message: str,
        *,
        run_id: str = "",
        token: str = "",
        calls: Sequence[ToolCall] = (),
        questions: Sequence[str] = (),
    ) -> None:
        super().__init__(message, run_id=run_id, token=token)
        self.calls = tuple(calls)
        self.questions = tuple(questions)


class ActorError(UnderstudyError):
    """The runtime could not deliver or finish a message.

    Attributes:
        actor: the address of the actor.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, actor: str = "") -> None:
        super().__init__(message)
        self.actor = actor


class MailboxFull(ActorError):
    """The mailbox of the actor is full."""

    retryable: ClassVar[bool] = True


class AgentDown(ActorError):
    """The actor has stopped, or has failed too often and waits before it tries again."""


class AgentCrashed(ActorError):
    """The actor failed while it handled this message; `__cause__` says why.

    Attributes:
        causes: every failure there was, the last one last; a run is driven again after a failure, a few times.
    """

    def __init__(self, message: str, *, actor: str = "", causes: tuple[BaseException, ...] = ()) -> None:
        super().__init__(message, actor=actor)
        self.causes = causes


class StoreError(UnderstudyError):
    """A store could not keep or return a value. Its content has not changed.

    Attributes:
        store: which one, as its `repr` names it.
        run_id: which run was left by its process, because the store failed for too long: the run is not over, and
            `recover` goes on with it. Empty for every other failure.
    """

    def __init__(self, message: str, *, store: str = "", run_id: str = "") -> None:
        super().__init__(message)
        self.store = store
        self.run_id = run_id


_CAUSE: Any = vars(BaseException)["__cause__"]


def cause_of(error: BaseException) -> BaseException | None:
    """Return an error's `__cause__`, and run no code of its class, where a property of that name may raise anything."""
    found: BaseException | None = _CAUSE.__get__(error)
    return found


def had_its_retries(error: BaseException) -> bool:
    """Whether an error, or what it directly came of, has used up the retries of whatever raised it."""
    return any(isinstance(each, UnderstudyError) and each.retries_used_up for each in (error, cause_of(error)))


class PlaceNote(str):
    """The note on an error that says which runner failed, with which model, and where it stands.

    Attributes:
        path: ids of the runners from the outermost one to it.
    """

    path: tuple[str, ...] = ()


def place_note(error: BaseException) -> PlaceNote | None:
    """Return the note that says where an error comes from; None if its message does, or nobody has noted it."""
    found = getattr(error, "__notes__", None)
    if found is None:
        return None
    notes = cast("list[object]", found) if isinstance(found, list) else []  # a user's error may have anything there
    return next((note for note in notes if isinstance(note, PlaceNote)), None)


def notes_of(error: BaseException) -> list[str]:
    """Return the notes of an error, without the one that says where it comes from."""
    found = getattr(error, "__notes__", None)
    notes = cast("list[object]", found) if isinstance(found, list) else []  # a user's error may have anything there
    return [note for note in notes if isinstance(note, str) and not isinstance(note, PlaceNote)]


NOT_SHOWN = "it has no message that can be shown"


def message_of(error: BaseException) -> str:
    """Return the error's message. A user's code makes it, which may fail in its turn."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 (whatever a user's __str__ raises, and that may be an exit)
        return f"({NOT_SHOWN})"


def kind_and_message(error: BaseException) -> str:
    """Return the error's type and message; the type alone if the message is empty."""
    return labelled(type(error).__name__, message_of(error))


def labelled(kind: str, message: str) -> str:
    """Return the name of an error's type with its message, if it has one."""
    return f"{kind}: {message}" if message else kind


def in_words(error: BaseException) -> str:
    """Return the error's type, message and notes, without the note on where it comes from.

    The message is made by code of a user's, and may fail in its turn.
    """
    name = type(error).__name__
    try:
        return "; ".join([labelled(name, str(error)), *notes_of(error)])
    except BaseException:  # noqa: BLE001 (whatever a user's __str__ raises, and that may be an exit)
        return f"{name} ({NOT_SHOWN})"
