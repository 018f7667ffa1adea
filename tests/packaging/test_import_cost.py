"""What is loaded when, seen in a fresh interpreter's `sys.modules`; a clock would only measure the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = {"pydantic", "httpx", "pykka", "structlog", "tenacity", "yaml"}

REPORT = """
import sys
before = set(sys.modules)
{code}
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}))
"""


def loaded_by(code: str, cwd: Path) -> set[str]:
    """Return the top-level names that `code` loads."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", REPORT.format(code=code)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def from_elsewhere(names: set[str]) -> set[str]:
    return names - sys.stdlib_module_names - {"understudy"}


def test_the_front_door_loads_the_standard_library_only(tmp_path: Path) -> None:
    assert from_elsewhere(loaded_by("import understudy", tmp_path)) == set()


MAKE_AGENTS = """
import understudy as us

@us.tool(approval=True, timeout=10, retries=2, idempotent=True)
def on_shelf(sku: str, shop: str = "main") -> int:
    '''Count the units of a product on the shelf.'''
    return 7

def plain(sku: str) -> str:
    return sku

clerk = us.Agent("clerk", model="anthropic:claude-haiku-4-5", tools=[on_shelf, plain], settings=us.Settings(reasoning="low"))
clerk.replace(max_iterations=3)

class Count:
    units: int

us.Agent("counter", model="openai:gpt-4o", tools=[on_shelf], output_type=Count).replace(max_output_retries=0)
us.Agent("lister", model="openai:gpt-4o", output_type=list[int])
"""


def test_making_agents_and_tools_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = loaded_by(MAKE_AGENTS, tmp_path)

    assert loaded & HEAVY == set()
    assert from_elsewhere(loaded) == set()


MAKE_TAPES = """
import understudy as us

recorder = us.Recorder("tape.jsonl", redact=["secret"])  # and left open: closed with nothing on it, it would be gone
recorded = us.Agent("clerk", model=recorder.record("anthropic:claude-haiku-4-5"))
replayed = us.Agent("clerk", model=us.Replay("tape.jsonl"))
"""


def test_making_agents_on_a_tape_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = loaded_by(f"import os; os.chdir({str(tmp_path)!r})\n{MAKE_TAPES}", tmp_path)

    assert from_elsewhere(loaded) == set()


def test_the_measure_sees_what_is_loaded(tmp_path: Path) -> None:
    assert "pydantic" in loaded_by("import understudy.vocabulary.tools.schemas", tmp_path)


def test_errors_and_messages_load_nothing_heavy(tmp_path: Path) -> None:
    code = "import understudy as us; us.RateLimited, us.ModelTurn, us.Outcome, us.SessionState, us.ScriptedModel"

    assert from_elsewhere(loaded_by(code, tmp_path)) == set()


RUN_AND_PAUSE = """
import understudy as us
agent = us.Agent("clerk", model=us.ScriptedModel([us.says("__ask_user__: Which?")]))
print(agent.run("Refund").token and "paused")
"""


def test_a_run_that_pauses_without_a_store_loads_no_database(tmp_path: Path) -> None:
    loaded = loaded_by(RUN_AND_PAUSE, tmp_path)

    assert "paused" in loaded
    assert loaded & {"sqlite3", "pydantic", "psycopg", "psycopg_pool"} == set()


RUN_IN_A_FILE = """
import understudy as us
agent = us.Agent("clerk", model=us.ScriptedModel([us.says("ok")]))
with us.ActorSystem("shop", store="sqlite:///shop.db") as system:
    print(agent.run("Hi", system=system).text)
"""


def test_a_system_with_a_file_loads_nothing_of_postgresql(tmp_path: Path) -> None:
    loaded = loaded_by(f"import os; os.chdir({str(tmp_path)!r})\n{RUN_IN_A_FILE}", tmp_path)

    assert "sqlite3" in loaded
    assert loaded & {"psycopg", "psycopg_pool", "understudy.actors.stores.postgres"} == set()


PRELOAD_AND_RUN = """
import sys, threading
from dataclasses import dataclass
import understudy as us
from understudy.testing import FunctionModel, calls, says

@dataclass
class Count:
    units: int

us.preload()
us.preload()
assert threading.active_count() == 1
before = set(sys.modules)

@us.tool
def on_shelf(sku: str) -> int:
    '''Count the units of a product on the shelf.'''
    return 7

model = FunctionModel(lambda request: says('{"units": 7}') if request.tool_results else calls("on_shelf", sku="A-113"))
clerk = us.Agent("clerk", model=model, tools=[on_shelf], output_type=Count)
assert clerk.run("How many?", timeout=60).output == Count(7)
print(sorted(set(sys.modules) - before))
"""


def test_after_preloading_a_first_run_loads_nothing_more(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", PRELOAD_AND_RUN],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == "[]\n", done.stderr


def test_the_help_of_the_command_line_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = loaded_by("from understudy.cli import main; main(['--help']); main(['--version'])", tmp_path)

    assert "argparse" in loaded
    assert loaded & (HEAVY | {"rich"}) == set()
