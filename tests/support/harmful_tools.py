"""Tools that harm the process they run in; worker processes find them here, so this module must load by itself."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import threading
import time

import understudy as us

ROOM = 1024 * 2**20  # Bytes of address space: enough for an interpreter, and for one large value.
kept: list[object] = []


class Unspeakable(Exception):
    """An error that ends the process when its message is read."""

    def __str__(self) -> str:
        raise SystemExit("there is no message")


@us.tool(isolation="process")
def goes_elsewhere() -> str:
    os.chdir("/")
    return "done"


@us.tool(isolation="process")
def works_in_a_folder_that_is_gone() -> str:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)
    return "done"


@us.tool(isolation="process")
def closes_stdout() -> str:
    sys.stdout.close()
    return "done"


@us.tool(isolation="process")
def closes_its_output() -> str:
    os.close(1)
    os.close(2)
    return "done"


@us.tool(isolation="process")
def closes_everything() -> str:
    os.closerange(0, 256)
    return "done"


@us.tool(isolation="process")
def forgets_its_environment() -> str:
    os.environ.clear()
    return "done"


@us.tool(isolation="process")
def sets_an_alarm() -> str:
    signal.setitimer(signal.ITIMER_REAL, 3600)
    return "done"


@us.tool(isolation="process")
def allows_itself_few_files() -> str:
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    return "done"


@us.tool(isolation="process")
def breaks_what_is_built_in() -> str:
    import builtins

    builtins.len = None  # type: ignore[assignment]  # what the test is about
    return "done"


@us.tool(isolation="process")
def starts_a_thousand_threads() -> str:
    for _ in range(1000):
        threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
    return "done"


@us.tool(isolation="process", memory_limit=ROOM)
def keeps_memory() -> str:
    kept.append(bytearray(600 * 2**20))
    return "done"


@us.tool(isolation="process", memory_limit=ROOM)
def needs_memory() -> str:
    return f"{len(bytearray(400 * 2**20)):,}"


@us.tool(isolation="process")
def falls_without_end() -> str:
    return falls_without_end()


@us.tool(isolation="process")
def raises_the_unspeakable() -> str:
    raise Unspeakable


@us.tool(isolation="process")
def is_well() -> str:
    """Do what needs a folder, an environment, files, output and time."""
    print("I am well.", flush=True)
    files = [open(os.devnull) for _ in range(32)]  # noqa: SIM115 (closed below)
    for file in files:
        file.close()
    where = f"{os.getcwd()} {os.environ['PATH']}"
    return f"{where} {signal.getitimer(signal.ITIMER_REAL)[0]} {threading.active_count() < 100}"


ALL: list[us.ToolLike] = [value for value in list(vars().values()) if isinstance(value, us.Tool)]
