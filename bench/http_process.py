"""A model API on a free port, in a process of its own: `python -m bench.http_process SECONDS` prints the port.

One thread serves all connections, so that the server takes little processor time from the measured callers.
"""

from __future__ import annotations

import asyncio
import sys

from .fakes import ANSWER

BODY = b'{"choices": [{"message": {"content": "%s"}, "finish_reason": "stop"}]}' % ANSWER.encode()
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(BODY), BODY)
BACKLOG = 1024  # Callers that connect all at once must not be refused.


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
            writer.close()  # the caller has closed the connection, or the server ends

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # the parent ends the server by closing its input


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
