"""Which tools can have a transaction in the store's database, and for how long."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.vocabulary.checks import is_async

from .isolation import Isolation
from .signature import Signature

TRANSACTION_TIMEOUT = 1.0  # Seconds: in an SQLite file, the steps of all other runs wait meanwhile.
MAX_TRANSACTION_TIMEOUT = 4.0  # Those steps wait for 5 s at most.


def checked_transaction_timeout(where: str, given: float) -> float:
    """Return for how long a transaction may be open.

    Raises:
        TypeError: it is no number.
        ValueError: it is not above 0 and at most `MAX_TRANSACTION_TIMEOUT`.
    """
    if not isinstance(given, (int, float)) or isinstance(given, bool):
        raise TypeError(f"{where} must be a number of seconds, got {given!r}")
    if not 0 < given <= MAX_TRANSACTION_TIMEOUT:  # also for a NaN
        raise ValueError(
            f"{where} must be above 0 and at most {MAX_TRANSACTION_TIMEOUT:g} s, for which other runs wait; got {given!r}"
        )
    return given


def check_plain(where: str, transaction_timeout: float) -> None:
    """Check that a tool without transactions has no time for them.

    Raises:
        ValueError: it has one.
    """
    if transaction_timeout != TRANSACTION_TIMEOUT:
        raise ValueError(
            f"{where}: transaction_timeout was given without transactional=True; expected both, or neither"
        )


def check_transactional(
    where: str, function: object, signature: Signature, isolation: Isolation, others: Mapping[str, object]
) -> None:
    """Refuse a tool that cannot have a transaction, or whose other options contradict it.

    Args:
        where: the tool, in words.
        function: of the tool.
        signature: of the function.
        isolation: where its calls run.
        others: name -> value of each option for calls in doubt.

    Raises:
        TypeError: it is async, or takes no context.
        ValueError: its calls do not run on threads of the runtime, or it has an option for calls in doubt.
    """
    if is_async(function):
        raise TypeError(
            f"{where}: transactional=True needs a plain function; a transaction would block the loop of async def"
        )
    if isolation != "thread":
        raise ValueError(
            f"{where}: transactional=True needs isolation='thread', got {isolation!r}: the transaction belongs to "
            "the process and the threads of the run"
        )
    if signature.context_parameter is None:
        raise TypeError(
            f"{where}: transactional=True needs a parameter annotated us.ToolContext, whose transaction() the tool uses"
        )
    for option, value in others.items():
        if value:
            raise ValueError(
                f"{where}: transactional=True and {option} were both given; give one: a transactional call without a committed "
                "result did not happen"
            )
