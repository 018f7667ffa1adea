"""The cost of the first use: each sample is a process of its own, which times itself from its first line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

from .batch import Batch, Round, taking_turns
from .measure import Measure, Side
from .sizes import Sizes

ROOT = Path(__file__).resolve().parent.parent

CLOCKED = """
import time
wall, cpu = time.perf_counter(), time.process_time()
{code}
print([time.perf_counter() - wall, time.process_time() - cpu])
"""

FIRST_ANSWER = """
import understudy as us

@us.tool
def on_shelf(sku: str, shop: str = "main") -> int:
    '''Count the units of a product on the shelf.

    Args:
        sku: product number
        shop: which shop to look in
    '''
    return 7

def answer(request):
    return us.calls("on_shelf", sku="A-113") if request.turn == 1 else us.says("Seven.")

clerk = us.Agent("clerk", model=us.FunctionModel(answer), tools=[on_shelf])
assert clerk.run("How many?").text == "Seven."
"""

BY_HAND = """
import pydantic
import pykka

class OnShelf(pydantic.BaseModel):
    sku: str
    shop: str = "main"

class Clerk(pykka.ThreadingActor):
    def on_receive(self, message):
        OnShelf.model_json_schema()
        return OnShelf.model_validate(message).sku

clerk = Clerk.start()
assert clerk.ask({"sku": "A-113"}) == "A-113"
clerk.stop()
"""


def _clocked(code: str, processes: int) -> Batch:
    """Run `code` in fresh processes that time it themselves: the interpreter's own start is left out."""
    # Isolated: as in a user's program, the installed package is imported and not the working directory.
    clocked = CLOCKED.format(code=code)
    samples = [cast("list[float]", json.loads(run_python("-I", "-c", clocked))) for _ in range(processes)]
    return Batch(tuple([wall for wall, _ in samples]), sum(cpu for _, cpu in samples) / processes)


def _start_of_python(processes: int) -> Batch:
    wall: list[float] = []
    for _ in range(processes):
        began = time.perf_counter()
        run_python("-I", "-c", "pass")
        wall.append(time.perf_counter() - began)
    return Batch(tuple(wall), 0.0)


def run_python(*arguments: str) -> str:
    """Run a fresh interpreter at the project's root and return what it printed.

    Raises:
        RuntimeError: the interpreter failed; the text has its output.
    """
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"a fresh process failed:\n{done.stderr}")
    return done.stdout


@contextmanager
def _imports(sizes: Sizes) -> Generator[Round]:
    _clocked("import understudy, pykka", 1)  # the first one writes byte code and fills the page cache
    yield taking_turns(
        {
            "import understudy": partial(_clocked, "import understudy", sizes.processes),
            "import understudy, and name us.Agent": partial(
                _clocked, "import understudy as us\nus.Agent", sizes.processes
            ),
            "import pykka": partial(_clocked, "import pykka", sizes.processes),
            "python -c pass, seen from outside": partial(_start_of_python, sizes.processes),
        }
    )


@contextmanager
def _first_answer(sizes: Sizes) -> Generator[Round]:
    _clocked(FIRST_ANSWER, 1)
    yield taking_turns(
        {
            "import, tool, agent, run": partial(_clocked, FIRST_ANSWER, sizes.processes),
            "bare: import pykka, pydantic; one model, one ask": partial(_clocked, BY_HAND, sizes.processes),
        }
    )


IMPORT = Measure(
    name="import",
    title=lambda _: "importing, in a fresh process",
    ours=(Side(label="import understudy", target=0.020), Side(label="import understudy, and name us.Agent")),
    references=(Side(label="import pykka"), Side(label="python -c pass, seen from outside")),
    prepare=_imports,
)

FIRST = Measure(
    name="first",
    title=lambda _: "from import to the first answer, with one tool call, in a fresh process",
    ours=(Side(label="import, tool, agent, run", target=0.300),),
    references=(Side(label="bare: import pykka, pydantic; one model, one ask"),),
    prepare=_first_answer,
)
