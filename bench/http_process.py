"""A model API on a free port, in a process of its own: `python -m bench.http_process SECONDS` prints the port.

One thread serves all connections, so that it takes as little as it can of the processors that the callers are measured on.
"""

from __future__ import annotations

import asyncio
import sys

from .fakes import ANSWER

BODY = b'{"choices": [{"message": {"content": "%s"}, "finish_reason": "stop"}]}' % ANSWER.encode()
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(BODY), BODY)
BACKLOG = 1024  # Callers that come all at once are not to be turned away.


async def _serve(nap: float) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(int(lengths[0]))
                await asyncio.sleep(nap)
                writer.write(REPLY)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()  # the caller has hung up, or we are to end

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # whoever started us ends us by closing it


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
