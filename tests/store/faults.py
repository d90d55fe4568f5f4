"""Servers that misbehave on purpose: for faults that a healthy S3 server never shows."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

Answer = Callable[["_Handler"], None]


@dataclass(frozen=True)
class Request:
    """What arrived."""

    method: str
    path: str
    headers: dict[str, str]


def plain(status: int, body: bytes = b"", *, headers: dict[str, str] | None = None) -> Answer:
    """A complete answer."""

    def answer(handler: _Handler) -> None:
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    return answer


def error(status: int, code: str) -> Answer:
    """An error as S3 words it."""
    return plain(
        status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>on purpose</Message></Error>".encode()
    )


def cut_short(announced_bytes: int, body: bytes) -> Answer:
    """An answer whose body ends before the announced size."""

    def answer(handler: _Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(announced_bytes))
        handler.end_headers()
        handler.wfile.write(body)
        handler.close_connection = True

    return answer


def hung_up(handler: _Handler) -> None:
    """No answer at all: the connection ends."""
    handler.close_connection = True


def chunked(body: bytes) -> Answer:
    """A good answer that does not announce its size."""

    def answer(handler: _Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))

    return answer


def dripping(announced_bytes: int) -> Answer:
    """A byte every 50 ms, until the server is closed: no time-out of a socket ever fires."""

    def answer(handler: _Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(announced_bytes))
        handler.end_headers()
        with contextlib.suppress(OSError):
            while not handler.server.is_closing.wait(0.05):
                handler.wfile.write(b"x")
                handler.wfile.flush()

    return answer


class FaultyServer:
    """An HTTP server that gives the answers in ``script`` one after the other, then ``otherwise``."""

    def __init__(self, certificate_folder: Path | None = None) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        scheme = "http"
        if certificate_folder is not None:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate_folder / "certificate.pem", certificate_folder / "key.pem")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self.script = self._server.script
        self.requests = self._server.requests

    def otherwise(self, answer: Answer) -> None:
        """The answer once the script is at its end; before this call it is an empty 200."""
        self._server.otherwise = answer

    def __enter__(self) -> FaultyServer:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.is_closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self.lock = threading.Lock()
        self.script: list[Answer] = []
        self.otherwise: Answer = plain(200)
        self.requests: list[Request] = []
        self.is_closing = threading.Event()
        super().__init__(*arguments)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up has closed its end; that is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.requests.append(Request(self.command, self.path, dict(self.headers)))
            answer = self.server.script.pop(0) if self.server.script else self.server.otherwise
        answer(self)

    do_HEAD = do_PUT = do_DELETE = do_CONNECT = do_GET  # noqa: N815 (the names that the base class looks for)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Tests speak through asserts."""


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Address of a server that lets clients connect and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
