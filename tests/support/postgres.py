"""A PostgreSQL server of the tests' own, on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

START = 60  # Seconds in which the server must answer.
SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "autovacuum=off",
    "jit=off",
    "max_connections=400",
)
"""Its data is thrown away: what keeps it through a crash of the machine, or in order for years, is left out.

Connections are many because hundreds of tests have stores of their own, some of which are let go a second later.
"""

MEMORY = Path("/dev/shm")  # where it is there: thousands of files are made and removed

_numbers = count(1)


def programs() -> Path | None:
    """Return the folder with the programs of PostgreSQL; None if it is not installed."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Server:
    """One server with its own data. It refuses to run as root, so root runs it as the user of Debian's package."""

    def __init__(self, folder: Path, bin: Path) -> None:
        self._folder = folder
        self._bin = bin
        self._user = "postgres" if os.geteuid() == 0 else None
        self.port = _free_port()
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._run("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._bin / program), *arguments], user=self._user, cwd=self._folder, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        listen = f"-p {self.port} -k {self._folder} -h 127.0.0.1"
        settings = " ".join([f"-c {setting}" for setting in SETTINGS])
        log = ("-l", f"{self._folder}/log")
        self._control("start", "-w", "-t", f"{START}", *log, "-o", f"{listen} {settings}")

    def kill(self) -> None:
        """Kill the server and all of its processes, as a machine that stops does: they end without a word."""
        self._control("stop", "-m", "immediate", "-t", f"{START}")

    def _control(self, command: str, *arguments: str) -> None:
        self._run("pg_ctl", command, "-s", "-D", f"{self._folder}/data", *arguments)

    def new_database(self) -> str:
        """Return the URL of a new, empty database."""
        import psycopg

        name = f"test_{next(_numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            copied = " STRATEGY FILE_COPY" if connection.info.server_version >= 15_00_00 else ""  # the quicker one
            connection.execute(f"CREATE DATABASE {name}{copied}".encode())
        return self.url(name)


@contextmanager
def running() -> Generator[Server]:
    """Run a server; the test is skipped where PostgreSQL or psycopg is not installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'understudy[postgres]'")
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="understudy-postgres-", dir=MEMORY if MEMORY.is_dir() else None) as data:
        server = Server(Path(data), folder)
        server.start()
        try:
            yield server
        finally:
            server.kill()
