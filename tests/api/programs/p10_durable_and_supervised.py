"""A system that is durable and supervised. The process dies in the clerk's model as long as a file `deadly` is there."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import understudy as us
from tests.support.programs import Models
from understudy import testing


def answer(request: us.ModelRequest) -> us.ModelTurn:
    if Path("deadly").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return testing.says("Yes: seven.")


MODELS = Models(
    {
        "clerk": us.FunctionModel(answer),
        "cashier": testing.ScriptedModel([]),
        "chat": testing.ScriptedModel([testing.says("Hello!")] * 2),  # its run may be left, too
    }
)


@dataclass(frozen=True)
class Shop:
    db: str


db = "stock"
clerk = us.Agent("clerk", model="anthropic:claude-haiku-4-5")
cashier = us.Agent("cashier", model="openai:gpt-4o")
chat = us.Agent("chat", model="openai:gpt-4o", memory=us.InMemoryMemory())

# The program:
with us.ActorSystem("shop", store="sqlite:///shop.db") as system:       # or "postgresql://…", "memory:"
    system.spawn(us.Supervisor("desk", [clerk, cashier], strategy=us.OneForOne(max_restarts=3, within=60, backoff=(0.1, 5.0))))
    ref = system.spawn(chat)                                 # ActorRef: survives restarts, can be sent anywhere
    handle = ref.submit("Hello", conversation_id="c-42", timeout=30)
    system.ref("clerk").run("Do we have five of A-113?")
    print(system.tree(), system.health())                    # who runs, mailbox depth, restarts, runs in flight
    for left in system.recover(deps=lambda run: Shop(db)):   # runs that an earlier process left behind, taken up where they stopped
        print(left.run_id, left.result())
