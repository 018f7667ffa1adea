"""`python -m bench.sdk_calls`: processor time of a model call and of a streamed delta, here and in the official SDKs.

One request with a system prompt, two tools and a short history is sent to a double that answers at once, without a network: once
for a whole answer with text and a tool call, and once for a stream of 500 deltas. Each SDK has a process and an environment of its
own; making them installs the SDKs from the package index, once. Both sides use httpx.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, cast

from .peers import Peer, python_of

DELTAS = 500

OF_SDK = """
try: import httpx2 as httpx  # a newer name of the same library
except ImportError: import httpx
"""

DOUBLES = """
import json, sys, time
deltas = 500
def sse(events, names=False):
    return b"".join((f"event: {e['type']}\\n" if names else "").encode() + b"data: " + json.dumps(e).encode() + b"\\n\\n" for e in events)
usage = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
arguments = {"sku": "A-113"}
chat_head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o"}
call = {"id": "call_1", "type": "function", "function": {"name": "on_shelf", "arguments": json.dumps(arguments)}}
message = {"role": "assistant", "content": "I look it up.", "tool_calls": [call]}
chat = json.dumps({**chat_head, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": usage}).encode()
chunk = lambda delta, reason=None: {**chat_head, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
chat_stream = sse([chunk({"role": "assistant", "content": ""}), *[chunk({"content": " word"})] * deltas, chunk({}, "stop")]) + b"data: [DONE]\\n\\n"
resp_usage = {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 29}
resp_head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5", "status": "completed", "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0}
said = lambda text: {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]}
called = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "on_shelf", "arguments": json.dumps(arguments), "status": "completed"}
resp = json.dumps({**resp_head, "output": [said("I look it up."), called], "usage": resp_usage}).encode()
numbered = lambda events: [{**e, "sequence_number": n} for n, e in enumerate(events)]
piece = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": " word", "logprobs": []}
part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
whole = " word" * deltas
resp_stream = sse(numbered([
    {"type": "response.created", "response": {**resp_head, "status": "in_progress", "output": [], "usage": None}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**said(""), "status": "in_progress", "content": []}},
    {"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0, "content_index": 0, "part": part},
    *[piece] * deltas,
    {"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0, "content_index": 0, "text": whole, "logprobs": []},
    {"type": "response.content_part.done", "item_id": "msg_1", "output_index": 0, "content_index": 0, "part": {**part, "text": whole}},
    {"type": "response.output_item.done", "output_index": 0, "item": said(whole)},
    {"type": "response.completed", "response": {**resp_head, "output": [said(whole)], "usage": resp_usage}},
]), names=True)
blocks = [{"type": "text", "text": "I look it up."}, {"type": "tool_use", "id": "toolu_1", "name": "on_shelf", "input": arguments}]
claude_head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "stop_sequence": None}
claude = json.dumps({**claude_head, "content": blocks, "stop_reason": "tool_use", "usage": {"input_tokens": 20, "output_tokens": 9}}).encode()
claude_stream = sse([
    {"type": "message_start", "message": {**claude_head, "content": [], "stop_reason": None, "usage": {"input_tokens": 20, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *[{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " word"}}] * deltas,
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
], names=True)
tokens = {"promptTokenCount": 20, "candidatesTokenCount": 9, "totalTokenCount": 29}
candidate = lambda parts, reason=None: {"content": {"role": "model", "parts": parts}, "index": 0, **({"finishReason": reason} if reason else {})}
gemini_call = {"functionCall": {"name": "on_shelf", "args": arguments}}
gemini = json.dumps({"candidates": [candidate([{"text": "I look it up."}, gemini_call], "STOP")], "usageMetadata": tokens, "modelVersion": "gemini-2.5-flash", "responseId": "r"}).encode()
gemini_piece = {"candidates": [candidate([{"text": " word"}])], "usageMetadata": tokens, "modelVersion": "gemini-2.5-flash", "responseId": "r"}
gemini_stream = sse([*[gemini_piece] * deltas, {**gemini_piece, "candidates": [candidate([{"text": ""}], "STOP")]}])
answers = {"chat": (chat, chat_stream), "resp": (resp, resp_stream), "claude": (claude, claude_stream), "gemini": (gemini, gemini_stream)}
class Body(httpx.SyncByteStream):  # each event in a piece of its own, as a network brings them
    def __init__(self, text): self.pieces = [each + b"\\n\\n" for each in text.split(b"\\n\\n")[:-1]]
    def __iter__(self): return iter(self.pieces)
streams = {name: Body(stream) for name, (_, stream) in answers.items()}
def transport(name):
    def answer(request):
        streamed = "stream" in str(request.url) or b'"stream":true' in request.content.replace(b" ", b"")
        if streamed: return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=streams[name])
        return httpx.Response(200, headers={"content-type": "application/json"}, content=answers[name][0])
    return httpx.MockTransport(answer)
system, question = "You are a clerk. Be brief.", "Do we have five of A-113?"
schema = {"type": "object", "properties": {"sku": {"type": "string", "description": "The article."}}, "required": ["sku"]}
tools = [("on_shelf", "Count the units of a product on the shelf."), ("order", "Order a product.")]
"""

JOB = """
kinds, calls = sys.argv[1].split(), int(sys.argv[2])
found = {}
for kind in kinds:
    call, stream = SIDES[kind]
    call(), stream(), call()
    began = time.process_time()
    for _ in range(calls): call()
    one = (time.process_time() - began) / calls
    began = time.process_time()
    for _ in range(5): seen = stream()
    assert seen >= deltas, seen
    found[kind] = [one, (time.process_time() - began) / 5 / deltas]
print(json.dumps(found))
"""

OURS = Peer(
    "understudy",
    "",
    """
import understudy as us
from understudy.vocabulary.messages import ModelRequest, user_message
from understudy.vocabulary.pieces import TextPiece
def on_shelf(sku: str) -> int:
    "Count the units of a product on the shelf."
    return 1
def order(sku: str) -> int:
    "Order a product."
    return 1
made = {"chat": "OpenAI", "resp": "OpenAIResponses", "claude": "Anthropic", "gemini": "Gemini"}
names = {"chat": "gpt-4o", "resp": "gpt-5", "claude": "claude-haiku-4-5", "gemini": "gemini-2.5-flash"}
request = ModelRequest([user_message(question)], system=system, tools=[us.tool(each).spec for each in (on_shelf, order)])
def side(name):
    client = getattr(us, made[name])(names[name], api_key="k", transport=transport(name))
    def call(): assert client.complete(request).tool_calls[0].name == "on_shelf"
    def stream(): return sum([type(each) is TextPiece for each in client.stream(request)])
    return call, stream
SIDES = {name: side(name) for name in sys.argv[1].split()}
""",
)

SDKS = {
    "chat": Peer(
        "openai",
        "openai",
        """
import openai
client = openai.OpenAI(api_key="k", http_client=httpx.Client(transport=transport("chat")))
given = dict(model="gpt-4o", messages=[{"role": "system", "content": system}, {"role": "user", "content": question}], tools=[{"type": "function", "function": {"name": n, "description": d, "parameters": schema}} for n, d in tools])
def call(): assert client.chat.completions.create(**given).choices[0].message.tool_calls[0].function.name == "on_shelf"
def stream(): return sum([bool(each.choices and each.choices[0].delta.content) for each in client.chat.completions.create(**given, stream=True)])
SIDES = {"chat": (call, stream)}
""",
    ),
    "resp": Peer(
        "openai",
        "openai",
        """
import openai
client = openai.OpenAI(api_key="k", http_client=httpx.Client(transport=transport("resp")))
given = dict(model="gpt-5", instructions=system, input=[{"role": "user", "content": question}], tools=[{"type": "function", "name": n, "description": d, "parameters": schema, "strict": False} for n, d in tools], store=False)
def call(): assert client.responses.create(**given).output[1].name == "on_shelf"
def stream(): return sum([each.type == "response.output_text.delta" for each in client.responses.create(**given, stream=True)])
SIDES = {"resp": (call, stream)}
""",
    ),
    "claude": Peer(
        "anthropic",
        "anthropic",
        """
import anthropic
client = anthropic.Anthropic(api_key="k", http_client=httpx.Client(transport=transport("claude")))
given = dict(model="claude-haiku-4-5", max_tokens=4096, system=system, messages=[{"role": "user", "content": question}], tools=[{"name": n, "description": d, "input_schema": schema} for n, d in tools])
def call(): assert client.messages.create(**given).content[1].name == "on_shelf"
def stream(): return sum([each.type == "content_block_delta" for each in client.messages.create(**given, stream=True)])
SIDES = {"claude": (call, stream)}
""",
    ),
    "gemini": Peer(
        "google-genai",
        "google-genai",
        """
from google import genai
from google.genai import types
client = genai.Client(api_key="k", http_options=types.HttpOptions(httpx_client=httpx.Client(transport=transport("gemini"))))
config = types.GenerateContentConfig(system_instruction=system, tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name=n, description=d, parameters_json_schema=schema) for n, d in tools])], automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True))
def call(): assert client.models.generate_content(model="gemini-2.5-flash", contents=question, config=config).function_calls[0].name == "on_shelf"
def stream(): return sum([bool(each.text) for each in client.models.generate_content_stream(model="gemini-2.5-flash", contents=question, config=config)])
SIDES = {"gemini": (call, stream)}
""",
    ),
}
TITLES = {
    "chat": "OpenAI, chat completions",
    "resp": "OpenAI, Responses",
    "claude": "Anthropic",
    "gemini": "Gemini",
}


def do_job(peer: Peer, kinds: Sequence[str], calls: int) -> dict[str, tuple[float, float]]:
    """Return the processor seconds of a call and of a delta, by kind; measured in a process of its own."""
    python = sys.executable if peer is OURS else str(python_of(peer))
    code = "\n".join(["import httpx" if peer is OURS else OF_SDK, DOUBLES, peer.code, JOB])
    command = [python, "-I", "-c", code, " ".join(kinds), str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{peer.name} failed:\n{done.stderr[-2000:]}")
    return cast("dict[str, Any]", json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sdk_calls", description=__doc__)
    parser.add_argument("--calls", type=int, default=300, help="how many calls a process makes (300)")
    parser.add_argument("--passes", type=int, default=5, help="how often each does the job, in turn (5)")
    parser.add_argument(
        "--only", action="append", choices=list(SDKS), help="measure only this; may be given several times"
    )
    options = parser.parse_args(arguments)
    print(f"{'CPU, medians':<26} {'a call':>9} {'the SDK':>9} {'ratio':>6} {'a delta':>9} {'the SDK':>9} {'ratio':>6}")
    for kind, sdk in SDKS.items():
        if options.only and kind not in options.only:
            continue
        pairs = [
            (do_job(OURS, [kind], options.calls)[kind], do_job(sdk, [kind], options.calls)[kind])
            for _ in range(options.passes)
        ]
        line = f"{TITLES[kind]:<26}"
        for at in (0, 1):
            ours, theirs = (statistics.median([pair[side][at] for pair in pairs]) * 1e6 for side in (0, 1))
            ratio = statistics.median([pair[0][at] / pair[1][at] for pair in pairs])
            line += f" {ours:>6,.1f} µs {theirs:>6,.1f} µs {ratio:>6.2f}"
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
