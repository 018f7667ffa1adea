"""A help desk in a browser: text as it is written, tool calls, an approval, and a page that may be reloaded in mid-answer.

Run it with `flask --app examples/help_desk/help_desk.py run`. It needs no key: a stand-in answers, word by word. With a key of a
provider, set HELP_DESK_MODEL, for example to `openai:gpt-4o`.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator

from flask import Flask, Response, abort, request, session

import understudy as us

ORDERS = {7: "lost by the carrier", 8: "on its way"}
PAUSE = 0.05  # Seconds between two words of the stand-in.


class StandIn:
    """Answers without a key: looks the order up, pays it back if it is lost, and says so word by word."""

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        assembler = us.TurnAssembler()
        for piece in self.stream(request):
            assembler.add(piece)
        return assembler.turn()

    def stream(self, request: us.ModelRequest) -> Iterator[us.Piece]:
        results = {result.name: result.content for message in request.messages for result in message.tool_results}
        if "order_status" not in results:
            yield from _words("Let me look that up.")
            yield us.CallPiece(0, '{"order": 7}', name="order_status")
        elif "refund" not in results:
            yield from _words("Your order is lost. I am sorry. I can pay you back at once.")
            yield us.CallPiece(0, '{"order": 7, "cents": 1200}', name="refund")
        else:
            yield from _words(f"The refund: {results['refund']}. Is there anything else that I can do for you today?")
        yield us.TurnEnd()


def _words(text: str) -> Iterator[us.Piece]:
    for word in text.split(" "):
        time.sleep(PAUSE)
        yield us.TextPiece(f"{word} ")


@us.tool
def order_status(order: int) -> str:
    """Say where an order is.

    Args:
        order: its number
    """
    return ORDERS.get(order, "unknown")


@us.tool(approval=True)
def refund(order: int, cents: int) -> str:
    """Pay money back.

    Args:
        order: the order's number
        cents: how much
    """
    return f"{cents / 100:.2f} paid back for order {order}"


desk = us.Agent(
    "desk",
    model=os.environ.get("HELP_DESK_MODEL") or StandIn(),
    system_prompt="You are the help desk of a shop. Look orders up. Offer a refund for an order that is lost.",
    tools=[order_status, refund],
)
store = os.environ.get("HELP_DESK_STORE", "sqlite:///help_desk.db")
system = us.ActorSystem("help-desk", store=store, recover="always", runners=[desk])
app = Flask(__name__)
app.secret_key = os.environ.get("HELP_DESK_SECRET") or secrets.token_hex()  # signs the cookie that tells visitors apart


@app.before_request
def begin() -> None:
    """Have this worker process go on with the runs of those that die, from its first request on."""
    system.start()


@app.post("/ask")
def ask() -> dict[str, str]:
    visitor = session.setdefault("visitor", secrets.token_hex())
    return {"run": desk.submit(request.get_json()["text"], system=system, user_id=visitor).run_id}


@app.post("/answer")
def answer() -> dict[str, str]:
    given = request.get_json()
    decision = us.Approve() if given["approve"] is True else us.Reject("the customer said no")
    return {"run": desk.submit_resume(given["token"], decision, system=system).run_id}


@app.get("/runs/<run_id>/events")
def events(run_id: str) -> Response:
    """Send the events of a run to the visitor who began it: its id can be guessed, and the events have texts and tokens.

    A browser that comes back sends the id of its last event, and goes on behind it.
    """
    try:
        handle = system.handle(run_id)
        if "visitor" not in session or handle.status().user_id != session["visitor"]:
            abort(404)
        stream = us.sse(handle, after=request.headers.get("Last-Event-ID"))
    except KeyError:
        abort(404)
    except ValueError:
        abort(400)
    return Response(stream, mimetype="text/event-stream", headers={"cache-control": "no-store"})


@app.errorhandler(us.UnderstudyError)
def failed(error: us.UnderstudyError) -> tuple[dict[str, str], int]:
    return {"error": str(error)}, 409


@app.get("/")
def page() -> str:
    return PAGE


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Help desk</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }
  #log > * { margin: .5rem 0; }
  .tool { color: #666; font-size: .9rem; }
  .failed { color: #a00; }
  form { display: flex; gap: .5rem; }
  input { flex: 1; font: inherit; padding: .3rem; }
</style>
<h1>Help desk</h1>
<div id="log" aria-live="polite"></div>
<form id="ask"><input name="text" value="Where is my order 7?" autocomplete="off"><button>Ask</button></form>
<script>
const log = document.getElementById("log");
let source = null, said = null;             // the stream, and the paragraph that is being written

function line(kind, text) {
  const element = document.createElement("div");
  element.className = kind;
  element.textContent = text;
  log.append(element);
  return element;
}

const show = {
  turn_started: () => { said = null; answered(); },
  text_delta: event => { said = said || line("said", ""); said.textContent += event.text; },
  turn_dropped: () => { if (said) { said.remove(); said = null; } },
  tool_started: event => answered() || line("tool", `looking: ${event.call.name}`),
  tool_finished: event => line("tool", `${event.result.name}: ${event.result.content}`),
  run_failed: event => { line("failed", event.error.message); leave(); },
  run_finished: event => event.outcome.status === "needs_approval" ? approval(event.outcome) : leave(),
};

function approval(outcome) {
  const box = line("approval", `May the desk do this? ${outcome.pauses.flatMap(pause => pause.calls).map(call => `${call.name} ${JSON.stringify(call.arguments)}`).join(", ")} `);
  for (const [word, approve] of [["Yes", true], ["No", false]]) {
    const button = document.createElement("button");
    button.textContent = word;
    button.onclick = async () => { box.remove(); follow(await send("/answer", {token: outcome.token, approve})); };
    box.append(button);
  }
}

function answered() { for (const box of log.querySelectorAll(".approval")) box.remove(); }

function leave() { source.close(); source = null; }

function follow(run) {
  if (!run) return;
  location.hash = run;                      // a page that is reloaded finds its run here
  if (source) source.close();
  log.replaceChildren();                    // a new stream tells the run from its start
  said = null;
  source = new EventSource(`/runs/${run}/events`);   // after a lost connection it comes back by itself, with Last-Event-ID
  for (const [type, told] of Object.entries(show)) source.addEventListener(type, each => told(JSON.parse(each.data)));
}

async function send(path, body) {
  const answer = await fetch(path, {method: "POST", headers: {"content-type": "application/json"}, body: JSON.stringify(body)});
  const told = await answer.json();
  if (!answer.ok) line("failed", told.error);
  return told.run;
}

document.getElementById("ask").onsubmit = async event => {
  event.preventDefault();
  follow(await send("/ask", {text: new FormData(event.target).get("text")}));
};
if (location.hash) follow(location.hash.slice(1));
</script>
</html>
"""
