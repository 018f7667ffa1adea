"""A stream to a browser."""

import tempfile
from pathlib import Path

from flask import Flask, Response, request

import understudy as us
from tests.support.programs import Models
from tests.support.streaming import StreamedScript, text_turn

MODELS = Models({"desk": StreamedScript([text_turn("We have ", "seven.")])})

app = Flask(__name__)
store = f"sqlite:///{Path(tempfile.mkdtemp()) / 'desk.db'}"
us.configure(store=store)
system = us.ActorSystem("understudy", store=store)
desk = us.Agent("desk", model="openai:gpt-4o")

# The program:
@app.post("/ask")
def ask() -> Response:
    handle = desk.submit(request.json["text"], conversation_id=request.json["conversation"])
    return Response(us.sse(handle), mimetype="text/event-stream")                # or us.agui(handle), us.ai_sdk(handle)

@app.get("/runs/<run_id>/events")
def again(run_id: str) -> Response:                                              # after a lost connection, in any process with the store
    return Response(us.sse(system.handle(run_id), after=request.headers.get("Last-Event-ID")), mimetype="text/event-stream")
