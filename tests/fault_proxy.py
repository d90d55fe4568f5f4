"""A proxy in front of a real S3 server that damages what the server says: faults on the way, with real bytes.

Requests pass unchanged, so signatures stay valid. Each connection carries one request. A fault gets the server's whole
answer and the client's socket, and delivers what it likes; `tests.store.faults` has servers that are wrong themselves.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit

_SLICE_S = 0.05


@dataclass(frozen=True)
class Exchange:
    """One request that arrived. ``answer`` asks the server, once, for status line, headers and body."""

    number: int
    client: socket.socket
    answer: Callable[[], tuple[bytes, bytes]]
    is_closing: threading.Event


Fault = Callable[[Exchange], None]


def passed_on(exchange: Exchange) -> None:
    """No fault."""
    head, body = exchange.answer()
    exchange.client.sendall(head + body)


def reset(exchange: Exchange) -> None:
    """The connection ends with a reset."""
    exchange.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def black_hole(exchange: Exchange) -> None:
    """Nothing is ever said."""
    exchange.is_closing.wait()


def slow_down(exchange: Exchange) -> None:
    """503, as S3 words it."""
    body = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>on purpose</Message></Error>"
    exchange.client.sendall(b"HTTP/1.1 503 Slow Down\r\n" + _length(body) + b"\r\n" + body)


def truncated(exchange: Exchange) -> None:
    """Half of the body, then the end of the connection."""
    head, body = exchange.answer()
    exchange.client.sendall(head + body[: len(body) // 2])


def stalled(exchange: Exchange) -> None:
    """Half of the body, then nothing, and no end."""
    truncated(exchange)
    exchange.is_closing.wait()


def dripping(exchange: Exchange) -> None:
    """A byte now and then, more often than any time-out of a socket."""
    head, body = exchange.answer()
    exchange.client.sendall(head)
    for index in range(len(body)):
        if exchange.is_closing.wait(_SLICE_S):
            return
        exchange.client.sendall(body[index : index + 1])


def bit_flipped(exchange: Exchange) -> None:
    """One bit of the body is another one."""
    head, body = exchange.answer()
    middle = len(body) // 2
    exchange.client.sendall(head + body[:middle] + bytes([body[middle] ^ 4]) + body[middle + 1 :])


def answer_lost(exchange: Exchange) -> None:
    """The server has done what it was asked, and nobody learns of it."""
    exchange.answer()


def instead(body: bytes) -> Fault:
    """A whole, well-formed answer with another object's bytes."""

    def swapped(exchange: Exchange) -> None:
        exchange.answer()
        exchange.client.sendall(b"HTTP/1.1 200 OK\r\n" + _length(body) + b"\r\n" + body)

    return swapped


def first(count: int, fault: Fault) -> Fault:
    """The fault for the first requests, then none."""
    return lambda exchange: (fault if exchange.number < count else passed_on)(exchange)


class FaultProxy:
    """Listens on a loopback port of its own while the context is entered; ``requests`` counts what arrived."""

    def __init__(self, endpoint_url: str, fault: Fault = passed_on) -> None:
        server = urlsplit(endpoint_url)
        assert server.hostname is not None
        self._server = (server.hostname, server.port or 80)
        self.fault = fault
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._is_closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self.requests = 0

    @property
    def url(self) -> str:
        """The endpoint to give to a client."""
        return f"http://127.0.0.1:{self._port}"

    def refuse(self) -> None:
        """Stop listening: the kernel refuses every connection from now on."""
        # A thread that waits in accept would keep the socket open.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()

    def __enter__(self) -> FaultProxy:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closing.set()
        self.refuse()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        # A client that gave up has closed its end; that is what these tests are about.
        with client, contextlib.suppress(OSError):
            request = _read_message(client)
            with self._lock:
                number = next(self._numbers)
                self.requests += 1
            self.fault(Exchange(number, client, lambda: self._ask(request), self._is_closing))

    def _ask(self, request: bytes) -> tuple[bytes, bytes]:
        head, _, body = request.partition(b"\r\n\r\n")
        # The header is not among those that are signed.
        request = head + b"\r\nConnection: close\r\n\r\n" + body
        with socket.create_connection(self._server, timeout=10) as server:
            server.sendall(request)
            answer = b"".join(iter(lambda: server.recv(1 << 16), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n", body


def _read_message(connection: socket.socket) -> bytes:
    """A request with the body that its Content-Length announces."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(connection)
    head = data.partition(b"\r\n\r\n")[0]
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    size = len(head) + 4 + (int(lengths[0]) if lengths else 0)
    while len(data) < size:
        data += _some(connection)
    return data


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise ConnectionError("the client went away")
    return data


def _length(body: bytes) -> bytes:
    return b"Content-Length: %d\r\nConnection: close\r\n" % len(body)
