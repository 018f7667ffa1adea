"""Tools that are called with secrets, for worker processes, which find them here: this module must load by itself."""

from __future__ import annotations

import ctypes
import os
import time

import understudy as us

WAIT = 300.0  # Longer than any test; what hangs is killed.


@us.tool(isolation="process")
def keep(word: str, ctx: us.ToolContext) -> str:
    ctx.progress(f"at {word}")
    ctx.session["kept"] = word
    return f"kept {word}"


@us.tool(isolation="process")
def quotes(word: str) -> str:
    raise ValueError(f"no such thing as {word}")


@us.tool(isolation="process")
def dies(word: str) -> str:
    os._exit(3)


@us.tool(isolation="process")
def segfaults(word: str) -> str:
    return str(ctypes.string_at(0))


@us.tool(isolation="process")
def notes_an_object(word: str, ctx: us.ToolContext) -> str:
    ctx.session["thing"] = {word}  # type: ignore[assignment]  # what no JSON carries
    return "noted"


@us.tool(isolation="process")
def counts(word: int) -> str:
    return str(word)


@us.tool(isolation="process", timeout=3)
def hangs(word: str) -> str:
    time.sleep(WAIT)
    return word


ALL: list[us.ToolLike] = [value for value in list(vars().values()) if isinstance(value, us.Tool)]
