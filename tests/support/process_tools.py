"""Tools for worker processes, which find them here: this module must load by itself, as no `tests` package is there."""

from __future__ import annotations

import asyncio
import ctypes
import datetime
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import understudy as us

WAIT = 300.0  # Longer than any test; what hangs is killed.
LIMIT = 1024 * 2**20


@dataclass
class Order:
    """Something that JSON carries and a tool gets as an object."""

    sku: str
    day: datetime.date


@us.tool(isolation="process")
def pid() -> int:
    return os.getpid()


@us.tool(isolation="process")
def place(order: Order, copies: int = 1) -> str:
    return f"{type(order).__name__} {order.sku} on {order.day:%d.%m.%Y}, {copies}"


@us.tool(isolation="process")
async def pid_async() -> int:
    await asyncio.sleep(0)
    return os.getpid()


@us.tool(isolation="process")
def main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()


# --- the context


@us.tool(isolation="process")
def note(ctx: us.ToolContext, word: str) -> dict[str, object]:
    seen = dict(ctx.session)
    ctx.session["last"] = word
    ctx.session.pop("old", None)
    left = ctx.scope.remaining()
    return {
        "session": seen,
        "ids": [ctx.run_id, ctx.agent_id, ctx.call_id, ctx.tool_name],
        "who": [ctx.user_id, ctx.conversation_id],
        "arguments": dict(ctx.arguments),
        "has_time": left is not None and 0 < left <= 60,
    }


@us.tool(isolation="process")
def note_in_place(ctx: us.ToolContext) -> str:
    notes = ctx.session["notes"]
    assert isinstance(notes, list)
    notes.append("more")
    return "done"


@us.tool(isolation="process")
def note_and_fail(ctx: us.ToolContext) -> str:
    ctx.session["last"] = "half done"
    raise ValueError("no")


@us.tool(isolation="process")
def note_an_object(ctx: us.ToolContext) -> str:
    ctx.session["thing"] = object()  # type: ignore[assignment]  # what the test is about
    return "done"


@us.tool(isolation="process")
def use_deps(ctx: us.ToolContext) -> str:
    return str(ctx.deps.db)  # type: ignore[attr-defined]  # what the test is about


@us.tool(isolation="process")
def counts_up(ctx: us.ToolContext, to: int) -> str:
    """Report each number, and by the context of the call before, which is over."""
    for over in _contexts:
        over.progress("too late")
    _contexts.append(ctx)
    for number in range(to):
        ctx.progress(f"number {number}", number, to)
    return "counted"


_contexts: list[us.ToolContext] = []


# --- failures


@us.tool(isolation="process")
def raises() -> str:
    raise LookupError("no such order")


@us.tool(isolation="process")
def quotes(word: str) -> str:
    raise LookupError(f"no order {word}")


@us.tool(isolation="process", retries=2)
def wants_it_otherwise() -> str:
    raise us.Retry("with a dash, please")


@us.tool(isolation="process")
def leaves() -> str:
    sys.exit(4)


@us.tool(isolation="process")
def dies() -> str:
    os._exit(3)


@us.tool(isolation="process")
def segfaults() -> str:
    return str(ctypes.string_at(0))


@us.tool(isolation="process")
def is_killed() -> str:
    os.kill(os.getpid(), 9)
    return "still here"


@us.tool(isolation="process", memory_limit=LIMIT)
def takes(megabytes: int) -> int:
    bytearray(megabytes * 2**20)
    return os.getpid()


@us.tool(isolation="process")
def returns_megabytes(count: int) -> str:
    return "x" * (count * 2**20)


@us.tool(isolation="process")
def remembers_megabytes(ctx: us.ToolContext, count: int) -> str:
    ctx.session["much"] = "x" * (count * 2**20)
    return "done"


@us.tool(isolation="process")
def photographs() -> list[object]:
    return [
        "Two things:",
        us.ImagePart("QQ=="),
        us.FilePart("QQ==", "application/pdf", "https://x.test/a.pdf", "a.pdf"),
    ]


@us.tool(isolation="process")
def returns_much_media() -> us.ImagePart:
    return us.ImagePart("A" * (11 * 2**20))


@us.tool(isolation="process")
def babbles() -> str:
    for descriptor in (1, 2):
        line = b"\0\0\0\0\0\0\0\2{}" * 1000 + b"\n"
        for _ in range(100):
            os.write(descriptor, line)
    print("and out")
    return "said"


@us.tool(isolation="process")
def writes_on_the_line() -> str:
    os.write(int(sys.argv[1]), b"this is no message" * 10)
    return "said"


@us.tool(isolation="process")
def forges(text: str) -> str:
    line = text.encode()
    os.write(int(sys.argv[1]), len(line).to_bytes(8, "big") + line)
    return "said"


@us.tool(isolation="process")
def comes_back_twice() -> str:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "parent" if child else "child"


@us.tool(isolation="process", retries=2)
def dies_at_first(log: str) -> str:
    with open(log, "a") as file:
        file.write("x")
    if len(Path(log).read_text()) < 3:
        os._exit(3)
    return "there"


# --- hanging


def _hang(started: str) -> str:
    """Hang with a child; say to the file who hangs."""
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({WAIT})"])
    Path(f"{started}.new").write_text(f"{os.getpid()} {child.pid}")
    os.rename(f"{started}.new", started)
    time.sleep(WAIT)
    return "late"


@us.tool(isolation="process")
def hang(started: str) -> str:
    return _hang(started)


@us.tool(isolation="process", timeout=3)
def hang_briefly(started: str) -> str:
    return _hang(started)


@us.tool(isolation="process", timeout=4, retries=1, idempotent=True)
def hang_at_first(started: str) -> str:
    return "second time" if Path(started).exists() else _hang(started)


@us.tool(isolation="process")
def spin(started: str) -> str:
    """Hang in C code that lets no other thread run."""
    Path(started).touch()
    return str(re.match(r"(a+)+$", "a" * 60 + "b"))


@us.tool(isolation="process", timeout=20)
def die_with_a_child_that_lives_on(release: str) -> str:
    program = f"open({release!r}).read()"  # a pipe, which nobody writes into before the test does
    subprocess.Popen([sys.executable, "-c", program], close_fds=False, start_new_session=True)
    os._exit(3)


@us.tool(isolation="process")
def meet(mine: str, other: str) -> str:
    """Return when the other call is there too: both open two pipes in the same order, one to write and one to read."""
    for pipe in sorted((mine, other)):
        with suppress(FileExistsError):
            os.mkfifo(pipe)
        open(pipe, "w" if pipe == mine else "r").close()
    return "met"


# --- runs in the worker


@us.tool(isolation="process")
def ask_another() -> str:
    from understudy.testing import FunctionModel, says
    from understudy.vocabulary.context.ancestry import current_ancestry

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says(" > ".join(link.runner.id for link in current_ancestry()))

    return us.Agent("inner", model=FunctionModel(answer)).run("go").text


ALL: list[us.ToolLike] = [value for value in list(vars().values()) if isinstance(value, us.Tool)]
