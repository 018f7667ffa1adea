"""From Pykka."""

import pykka

import understudy as us
from tests.support.programs import Models
from understudy import testing


def answer(request: us.ModelRequest) -> us.ModelTurn:
    return testing.says("Yes: seven." if "A-113" in request.text else "No.")


MODELS = Models({"clerk": testing.FunctionModel(answer)})

clerk = us.Agent("clerk", model="openai:gpt-4o")
questions = ["Do we have any of A-113?", "Do we have any of B-7?"]


# The program:
class Ledger(pykka.ThreadingActor):
    def on_receive(self, message: object) -> object: ...

ledger = Ledger.start()
with us.ActorSystem("shop", registry=True) as system:                            # its actors are in pykka.ActorRegistry then
    ref = system.spawn(clerk)                                                    # AgentRef, a pykka.ActorRef
    future = ref.ask("Do we have five of A-113?", block=False)                   # a pykka.Future of the outcome
    print(future.map(lambda outcome: outcome.text).get(timeout=30))
    print(pykka.get_all([ref.ask(question, block=False) for question in questions], timeout=60))
    us.collect([future, ledger.ask("sum", block=False)]).result(timeout=30)      # any pykka.Future
