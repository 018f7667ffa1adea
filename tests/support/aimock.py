"""aimock, a server from npm: fetching it, running it, and talking to its control interface."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from understudy.vocabulary.messages import JsonValue

from .http import closed_port
from .paths import ROOT

PACKAGE = ROOT / "tests" / "peers" / "package.json"
FIXTURES = ROOT / "tests" / "peers" / "fixtures.json"
CACHE = ROOT / ".cache" / "peers"
INSTALL_TIMEOUT = 90.0  # Seconds; below the limit of a test, whose first one pays for it.
START_TIMEOUT = 15.0
STOP_TIMEOUT = 5.0
CONTROL_TIMEOUT = 30.0

NPM_OPTIONS = (
    "--no-audit",
    "--no-fund",
    "--ignore-scripts",
    "--no-package-lock",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
    "--fetch-timeout=20000",
)
END_WITH_US = "data:text/javascript,process.stdin.on('end',()=>process.exit()).resume()"
"""Makes node end when its standard input does, so that no server outlives tests that were killed."""


class NotInstalled(Exception):
    """aimock is not there and could not be fetched."""


def aimock_version() -> str:
    """Return the version that the tests are written for."""
    version: str = json.loads(PACKAGE.read_text())["dependencies"]["@copilotkit/aimock"]
    return version


def installed(npm: str, package: Path = PACKAGE, name: str = "") -> Path:
    """Return the folder that holds aimock, or what another `package.json` names, after fetching it once for this checkout.

    It is fetched into a folder of its own and then renamed, so that of several runs at once the first one wins and
    none sees half of it.

    Raises:
        NotInstalled: npm failed or took too long; the message says why.
    """
    folder = CACHE / (name or f"aimock-{aimock_version()}")
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=".installing-", dir=CACHE))
        try:
            shutil.copy2(package, making)
            _install(npm, making)
            _rename(making, folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


def _install(npm: str, folder: Path) -> None:
    try:
        done = subprocess.run(
            [npm, "install", *NPM_OPTIONS],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm took longer than {INSTALL_TIMEOUT:g} s") from None
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        raise NotInstalled(errors[0] if errors else f"npm ended with {done.returncode}")


def _rename(making: Path, folder: Path) -> None:
    try:
        making.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another run was quicker, and its folder is as good
            raise


@contextmanager
def serving(node: str, folder: Path, log: Path) -> Generator[str]:
    """Run aimock with the tests' fixtures on a free port of this host until the block ends; gives the address.

    What it prints goes to `log`.
    """
    program = folder / "node_modules" / ".bin" / "llmock"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIMOCK_", "NODE_"))}
    options = ["--fixtures", str(FIXTURES), "--validate-on-load", "--strict", "--journal-max", "0"]
    with log.open("w") as output:
        for _ in range(3):  # between finding a free port and taking it, somebody else may have taken it
            port = closed_port()
            where = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "info"]
            command = [node, "--import", END_WITH_US, str(program), *where, *options]
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                address = f"http://127.0.0.1:{port}"
                if _answers(process, address, log):
                    yield address
                    return
            finally:
                _stop(process)
    raise AssertionError(f"aimock did not start: {log.read_text()[-2000:]}")


def _answers(process: subprocess.Popen[bytes], address: str, log: Path) -> bool:
    """Wait until the server answers; False when it has ended, or says nothing for too long."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        # The log tells ours from another run's server that was quicker to take the port.
        if _is_healthy(address) and f"listening on {address}" in log.read_text():
            return True
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        return False
    return False


def _is_healthy(address: str) -> bool:
    try:
        return told(address, "GET", "health") == {"status": "ok"}
    except (OSError, HTTPException, ValueError):  # nobody listens there yet, or somebody else does
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_TIMEOUT)
    finally:
        if process.stdin is not None:
            process.stdin.close()


def told(address: str, method: str, what: str, body: JsonValue = None) -> JsonValue:
    """Return what aimock's control interface answers; takes no proxy and no certificates.

    Raises:
        OSError, HTTPException, ValueError: nobody answers, or not in JSON with status 200.
    """
    connection = HTTPConnection(urlsplit(address).netloc, timeout=CONTROL_TIMEOUT)
    try:
        connection.request(method, f"/__aimock/{what}", None if body is None else json.dumps(body))
        answer = connection.getresponse()
        said: JsonValue = json.loads(answer.read())
    finally:
        connection.close()
    if answer.status != 200:
        raise ValueError(f"aimock answered {what} with {answer.status}: {said}")
    return said
