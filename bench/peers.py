"""`python -m bench.peers`: one job on understudy and on other agent frameworks, each in an environment of its own.

The job is what a threaded web server does: 20 threads that share one agent and ask it for 200 typed answers. The model is a server on this
host that answers after a quarter of a second, so no key is needed. Making the environments installs the frameworks from the
package index, once, into `.cache/peers-bench`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
import venv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".cache" / "peers-bench"
THINKING = 0.25  # Seconds before the server answers: a short answer of a fast model.
PATIENCE = 60  # Seconds for all answers, which take three if nothing is in the way.
ANSWER = {"label": "spam", "score": 0.9}


@dataclass(frozen=True)
class Peer:
    """A framework that does the job."""

    name: str
    installs: str
    """The requirements for pip."""
    code: str
    """Defines `ask(question)`, which returns the answer's label, by one agent for all threads; `URL` is the server's."""


PEERS = (
    Peer(
        "understudy",
        str(ROOT),
        """
import understudy as us
judge = us.Agent("judge", model=us.OpenAI("gpt-4o", base_url=URL, api_key="none"), output_type=Verdict)
def ask(question):
    return judge.run(question).output.label
""",
    ),
    Peer(
        "pydantic-ai",
        "pydantic-ai-slim[openai]",
        """
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
judge = Agent(OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=URL, api_key="none")), output_type=Verdict)
def ask(question):
    return judge.run_sync(question).output.label
""",
    ),
    Peer(
        "agno",
        "agno openai",
        """
from agno.agent import Agent
from agno.models.openai import OpenAIChat
judge = Agent(model=OpenAIChat(id="gpt-4o", base_url=URL, api_key="none"), output_schema=Verdict, telemetry=False)
def ask(question):
    return judge.run(question).content.label
""",
    ),
)

JOB = """
import json, os, re, resource, sys, threading, time
began = time.perf_counter()
URL, threads, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
import pydantic
class Verdict(pydantic.BaseModel):
    label: str
    score: float
{code}
made = time.perf_counter() - began
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
good, errors = [], {{}}
def work():
    for number in range(calls):
        try:
            good.append(ask(f"letter {{number}}") == "spam")
        except BaseException as error:
            words = type(error).__name__ + ": " + re.sub("<.*?>", "…", str(error))[:100]
            errors[words] = errors.get(words, 0) + 1
began, cpu = time.perf_counter(), time.process_time()
workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
for worker in workers: worker.start()
for worker in workers: worker.join(max(0, began + {patience} - time.perf_counter()))
hang = sum(worker.is_alive() for worker in workers)
if hang: errors["threads still wait after {patience} s"] = hang
print(json.dumps({{"answers": sum(good), "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu,
                  "made": made, "memory": memory, "errors": errors}}), flush=True)
os._exit(0)  # a framework may have threads that keep the process
"""


@dataclass(frozen=True)
class Result:
    """The figures of one pass of the job."""

    answers: int
    seconds: float
    cpu: float
    made: float
    """Seconds from the start of the interpreter's first line to the agent."""
    memory: float
    """MiB of the process when the agent was made."""
    errors: Mapping[str, int]


class Answering(BaseHTTPRequestHandler):
    """A chat completions API: the answer is JSON in the text, or a call of the tool that stands for it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        time.sleep(THINKING)
        message: dict[str, object] = {"role": "assistant", "content": json.dumps(ANSWER)}
        if asked.get("tools") and not asked.get("response_format"):
            function = {"name": asked["tools"][0]["function"]["name"], "arguments": json.dumps(ANSWER)}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            }
        reason = "tool_calls" if "tool_calls" in message else "stop"
        body = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4o",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
        }
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Crowded(ThreadingHTTPServer):
    request_queue_size = 200
    daemon_threads = True


def python_of(peer: Peer) -> Path:
    """Return the interpreter of the peer's environment, which is made first if it is not there; takes up to a minute then."""
    folder = ENVIRONMENTS / peer.name
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        print(f"installing {peer.installs} …", file=sys.stderr, flush=True)
        venv.create(folder, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "-q", *peer.installs.split()]
        subprocess.run(command, check=True, stdout=sys.stderr)
        (folder / "installed").touch()
    return python


def do_job(python: Path, peer: Peer, url: str, threads: int, calls: int) -> Result:
    """Do the job in a process of its own."""
    command = [str(python), "-I", "-c", JOB.format(code=peer.code, patience=PATIENCE), url, str(threads), str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{peer.name} failed:\n{done.stderr[-2000:]}")
    figures = cast("dict[str, Any]", json.loads(done.stdout.splitlines()[-1]))
    return Result(**figures)


def median(results: Sequence[Result], figure: str) -> float:
    return statistics.median([float(getattr(each, figure)) for each in results])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--threads", type=int, default=20, help="how many threads share the agent (20)")
    parser.add_argument("--calls", type=int, default=10, help="how many answers each thread asks for (10)")
    parser.add_argument("--passes", type=int, default=3, help="how often each does the job, in turn (3)")
    options = parser.parse_args(arguments)
    pythons = {peer.name: python_of(peer) for peer in PEERS}
    results: dict[str, list[Result]] = {peer.name: [] for peer in PEERS}
    server = Crowded(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    for number in range(options.passes):
        print(f"pass {number + 1} of {options.passes}", file=sys.stderr, flush=True)
        for peer in PEERS:
            results[peer.name].append(do_job(pythons[peer.name], peer, url, options.threads, options.calls))
    server.shutdown()
    _print(results, options.threads * options.calls)
    return 0


def _print(results: Mapping[str, Sequence[Result]], wanted: int) -> None:
    print(f"{'':<12} {'answers':>12} {'seconds':>8} {'cpu s':>6} {'agent after s':>14} {'MiB':>5}   (medians)")
    for name, of_peer in results.items():
        fewest = f"{min(each.answers for each in of_peer)} of {wanted}"
        figures = [median(of_peer, figure) for figure in ("seconds", "cpu", "made", "memory")]
        print(f"{name:<12} {fewest:>12} {figures[0]:>8.1f} {figures[1]:>6.1f} {figures[2]:>14.2f} {figures[3]:>5.0f}")
        errors: Counter[str] = Counter()
        for each in of_peer:
            errors.update(each.errors)
        for words, count in errors.most_common(3):
            print(f"{'':<12} {count} times in all passes: {words}")


if __name__ == "__main__":
    sys.exit(main())
