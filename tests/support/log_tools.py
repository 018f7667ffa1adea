"""A tool for worker processes that tells the values a log line of it would have; it must load by itself."""

from __future__ import annotations

import logging

import understudy as us


@us.tool(isolation="process")
def values_there() -> dict[str, str]:
    record = logging.makeLogRecord({})
    us.RunContextFilter().filter(record)
    return {name: vars(record)[name] for name in ("run_id", "agent", "conversation_id", "tool", "call_id", "actor")}
