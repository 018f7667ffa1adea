"""The values of a run on the log lines of users, and `configure_logging` for programs that do not configure `logging`.

structlog is imported by `configure_logging` alone, when it is called.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

from understudy.diagnostics import BARE, log
from understudy.vocabulary.checks import checked_whole
from understudy.vocabulary.context.run_values import VALUES, run_values

if TYPE_CHECKING:
    from structlog.typing import Processor

LogFormat: TypeAlias = Literal["console", "json"]
FORMATS: Final[tuple[str, ...]] = get_args(LogFormat)


class RunContextFilter(logging.Filter):
    """Puts the values of the present run on each record, for handlers of the standard library.

    Add it to a handler: a logger does not apply its filters to the lines of the loggers below it. A record gets `run_id`,
    `agent`, `conversation_id`, `tool`, `call_id` and `actor`, unless it has them; what does not apply is an empty text,
    so that a format may name them all. It refuses no record.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Put the values on the record, and let it pass."""
        values = run_values()
        for name in VALUES:
            if not hasattr(record, name):
                setattr(record, name, values.get(name, ""))
        return True


def add_run_context(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put the values of the present run into an event, unless it has them: a processor for `structlog.configure`.

    The values are `run_id`, `agent`, `conversation_id`, `tool`, `call_id` and `actor`; what does not apply is left out.
    """
    for name, value in run_values().items():
        event.setdefault(name, value)
    return event


def configure_logging(format: LogFormat = "console", level: int | str = "info") -> None:
    """Print what the package logs to standard error, one line for each event, rendered by structlog.

    The lines go nowhere else then. A second call replaces the first. A program that configures `logging` itself does not need
    this: the logger `understudy` works as any other.

    Args:
        format: `"console"` for people, `"json"` for programs.
        level: the lowest level to print, as a name such as `"debug"` or a number.

    Raises:
        TypeError: the level is neither a name nor a number.
        ValueError: the format or the level is unknown.
    """
    if format not in FORMATS:
        raise ValueError(f"configure_logging: format must be 'console' or 'json', got {format!r}")
    lowest = _checked_level(level)
    handler = _Printing(sys.stderr)
    handler.setFormatter(_formatter(format, colors=sys.stderr.isatty()))
    for each in [each for each in log.handlers if isinstance(each, _Printing)]:
        log.removeHandler(each)
    log.addHandler(handler)
    log.setLevel(lowest)
    log.propagate = False  # else a handler of the root logger would print each line once more


class _Printing(logging.StreamHandler[Any]):
    """The handler of `configure_logging`, which the next call finds by its class."""


def _checked_level(level: int | str) -> int:
    if not isinstance(level, str):
        return checked_whole("configure_logging: level", level, 0)
    known = logging.getLevelNamesMapping()
    if level.upper() not in known:
        names = ", ".join(name.lower() for name in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"))
        raise ValueError(f"configure_logging: level must be one of {names}, or a number; got {level!r}")
    return known[level.upper()]


def _formatter(format: LogFormat, *, colors: bool) -> logging.Formatter:
    import structlog

    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _message_apart,
        structlog.stdlib.ExtraAdder(),
        add_run_context,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if format == "json":
        rendering: list[Processor] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        # The traceback of rich, which is the default, prints the values of local variables: users' data, and keys.
        plain = structlog.dev.plain_traceback
        rendering = [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    without_record = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    made: logging.Formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[without_record, *rendering]
    )
    return made


def _message_apart(logger: object, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Keep a message that is more than the event and its values: `ExtraAdder` puts the event's name in its place."""
    record = cast(logging.LogRecord, line["_record"])
    if hasattr(record, "event") and record.msg != BARE:
        line["message"] = line["event"]
    return line
