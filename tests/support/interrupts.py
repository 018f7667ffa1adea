"""`python -m tests.support.interrupts`: runs that are held up in the main thread, and a real SIGINT for each.

Prints one line of JSON for each situation: its name, and what was true when the interrupt was there.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Mapping

import understudy as us
from bench.holding import Situation
from bench.situations import SITUATIONS
from tests.support.scripts import eventually, finished, scripted
from understudy.testing import says
from understudy.vocabulary.messages import JsonValue

QUESTION = says("__ask_user__: Who is there?")


def interrupted(situation: Situation) -> Mapping[str, JsonValue]:
    """Interrupt a run that the main thread waits for, and report what is left while the run's work still blocks."""
    main = threading.main_thread().ident
    assert main is not None
    held: list[bool] = []

    def interrupt() -> None:
        held.append(situation.held())
        signal.pthread_kill(main, signal.SIGINT)

    situation.prepare()
    others = situation.system.in_flight
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        situation.run()
    except KeyboardInterrupt:
        left = situation.system.in_flight - others
        thread.join()
        eventually(lambda: situation.system.hung == situation.hangs, "what hangs is counted")
        situation.release()
        eventually(lambda: situation.system.hung == 0, "nothing hangs any more")
        return {"held": held[0], "left": left}
    raise AssertionError("no interrupt came")


def interrupted_while_paused() -> Mapping[str, JsonValue]:
    """Interrupt the main thread while a run of its waits for a person, and go on with the run."""
    agent = scripted(QUESTION, says("Ada it is."))
    paused = agent.run("go")
    assert isinstance(paused, us.NeedsInput)
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return {"text": finished(agent.resume(paused.token, "Ada")).text}
    raise AssertionError("no interrupt came")


def main() -> None:
    for kind in SITUATIONS:
        with kind() as situation:
            print(json.dumps([kind.name, interrupted(situation)]), flush=True)
    print(json.dumps(["paused", interrupted_while_paused()]), flush=True)


if __name__ == "__main__":
    main()
