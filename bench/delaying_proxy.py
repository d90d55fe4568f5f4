"""Distance to a server: a proxy on loopback that passes bytes on in both directions, each half a round trip later.

    python bench/delaying_proxy.py HOST:PORT ROUND_TRIP_S

Prints its port first. It reads no protocol: connections stay open, bodies stream, and a new connection costs a round
trip before its first byte, as a handshake does. Bandwidth is not limited.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import sys


class End(asyncio.Protocol):
    """One end of a connection. What arrives here leaves at the other end after ``delay_s``, the end of it included."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._waiting: collections.deque[tuple[float, bytes]] = collections.deque()
        self._transport: asyncio.Transport | None = None
        self._other: End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._wait(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(b"")

    def join(self, other: End) -> None:
        """Begin to pass on to ``other``, what has arrived before included."""
        self._other = other
        self._pass_on()

    def send(self, data: bytes) -> None:
        """Send what arrived at the other end; no bytes: hang up, as the other side has."""
        assert self._transport is not None
        if not data:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write(data)

    def _wait(self, data: bytes) -> None:
        self._waiting.append((asyncio.get_running_loop().time() + self._delay_s, data))
        if len(self._waiting) == 1:
            self._pass_on()

    def _pass_on(self) -> None:
        loop = asyncio.get_running_loop()
        if self._other is None:
            return
        while self._waiting:
            due, data = self._waiting[0]
            if due > loop.time():
                loop.call_at(due, self._pass_on)
                return
            self._waiting.popleft()
            self._other.send(data)


async def serve(host: str, port: int, round_trip_s: float) -> None:
    """Listen until the process is ended."""
    loop = asyncio.get_running_loop()
    joining: set[asyncio.Task[None]] = set()

    def accept() -> End:
        client = End(round_trip_s / 2)
        task = loop.create_task(_join(client, host, port, round_trip_s))
        joining.add(task)
        task.add_done_callback(joining.discard)
        return client

    server = await loop.create_server(accept, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _join(client: End, host: str, port: int, round_trip_s: float) -> None:
    await asyncio.sleep(round_trip_s)
    _, server = await asyncio.get_running_loop().create_connection(lambda: End(round_trip_s / 2), host, port)
    client.join(server)
    server.join(client)


def main() -> None:
    """Take the server and the round trip from the command line."""
    host, _, port = sys.argv[1].rpartition(":")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(host, int(port), float(sys.argv[2])))


if __name__ == "__main__":
    main()
