"""The pages about stores run on SQLite and on PostgreSQL, and what they say holds between two processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.paths import ROOT

from .processes import output_of

pytestmark = pytest.mark.timeout(300)

RUNNER = ROOT / "tests" / "support" / "run_page.py"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def begun(page: Path, store: str = "") -> subprocess.Popen[str]:
    """Begin to run the blocks of a page, in the folder of a copy or of its own."""
    return subprocess.Popen(
        [sys.executable, "-I", str(RUNNER), str(page)],
        cwd=page.parent,
        env={**os.environ, "UNDERSTUDY_OFFLINE": "1", "UNDERSTUDY_STORE": store},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def copied(name: str, folder: Path, url: str = "sqlite:///shop.db") -> tuple[Path, int]:
    """Copy a page into a folder, with another store; returns how often the page names one."""
    text, replaced = re.subn(r"sqlite:///[\w/.]+", url, (ROOT / "docs" / name).read_text())
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder / name, replaced


@pytest.mark.parametrize("name", ["memory.md", "sessions.md", "support-chat.md"])
def test_the_blocks_of_a_page_that_names_a_file_run_on_postgres(name: str, tmp_path: Path, postgres_url: str) -> None:
    page, replaced = copied(name, tmp_path, postgres_url)
    process = begun(page)
    err = process.communicate(timeout=280)[1]

    assert process.returncode == 0, err
    assert replaced
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize("name", ["turns.md", "compaction.md"])
def test_the_blocks_of_a_page_run_in_two_processes_at_once_that_share_a_store(
    name: str, tmp_path: Path, url: str
) -> None:
    processes = [begun(copied(name, tmp_path / which)[0], url) for which in ("one", "two")]
    errors = [each.communicate(timeout=280)[1] for each in processes]

    assert [each.returncode for each in processes] == [0, 0], errors


# --- what the pages say of processes

TURN = """
import sys
import understudy as us
from understudy.testing import FunctionModel, calls, says

def on_shelf(sku: str) -> int:
    return 7

def answer(request):
    return calls("on_shelf", sku="A-113") if request.turn == 1 else says("Yes: seven.")

clerk = us.Agent("clerk", model=FunctionModel(answer), tools=[on_shelf])
url, token = sys.argv[1:]
with us.ActorSystem("shop", store=url) as system:
    try:
        step = clerk.run_turn(token=token, system=system) if token else clerk.run_turn("Do we have it?", system=system)
    except us.TokenUsed as error:
        print("used", error.next)
    else:
        print(step.token if isinstance(step, us.MoreTurns) else step.text)
"""


def test_a_run_goes_turn_by_turn_from_process_to_process(url: str) -> None:
    token = output_of("-c", TURN, url, "").strip()

    assert output_of("-c", TURN, url, token) == "Yes: seven.\n"
    assert output_of("-c", TURN, url, token) == "used None\n"


TALK = """
import json, re, sys
import understudy as us
from understudy.testing import FunctionModel, says

summed_up = []

def marks(texts):
    return [mark for text in texts for mark in re.findall("Book [0-9]+:|Noted [0-9]+:", text)]

def chat(request):
    if request.system.startswith("You sum up"):
        summed_up.append(marks([request.messages[0].text]))
        return says("They spoke of many books.")
    number = re.findall("Book ([0-9]+):", request.messages[-1].text)[-1]
    return says(f"Noted {number}: " + "a" * 2_000)

url, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
memory = us.CompactedMemory(us.PersistentMemory(turns=None), context_window=8_000)
talker = us.Agent("talker", model=FunctionModel(chat, context_window=8_000), memory=memory)
with us.ActorSystem("shop", store=url) as system:
    for number in range(first, last):
        talker.run(f"Book {number}: " + "q" * 500, system=system, conversation_id="c-42")
    key = us.ConversationKey("shop", "default", "c-42")
    kept = us.PersistentMemory(url, turns=None)
    turns = [m.text for turn in kept.read(key) if turn.kind == "turn" for m in turn.messages]
    print(json.dumps([summed_up, marks(turns), marks([m.text for m in kept.load(key)])]))
"""


def test_a_summary_of_one_process_is_carried_on_by_the_next_and_each_message_is_summed_up_once(url: str) -> None:
    found = [json.loads(output_of("-c", TALK, url, str(first), str(first + 20))) for first in (0, 20)]

    _, kept, loaded = found[-1]
    assert kept == [f"{word} {number}:" for number in range(40) for word in ("Book", "Noted")]
    assert all(summaries for summaries, _, _ in found)
    times = Counter(mark for summaries, _, _ in found for marks in summaries for mark in marks)
    assert set(times.values()) == {1}
    assert [*times, *loaded] == kept
