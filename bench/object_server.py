"""As much of an object store as one GET needs, on loopback and with a round trip of one's choice.

    python bench/object_server.py FOLDER ROUND_TRIP_S

Answers ``GET /<bucket>/<name>`` with the file of that name, after waiting for a round trip; signatures are not looked
at. It stands for the distance to a bucket, not for a server: those are what the tests use. Prints its port first.
"""

from __future__ import annotations

import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """One object per request; connections stay open."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or a body waits up to 40 ms for the acknowledgement of its headers
    folder: Path
    round_trip_s: float

    def do_GET(self) -> None:
        """The whole object, or 404 in the words of S3."""
        _bucket, _, name = self.path.lstrip("/").partition("/")
        path = (self.folder / name).resolve()
        time.sleep(self.round_trip_s)
        if path.is_relative_to(self.folder) and path.is_file():
            self._answer(HTTPStatus.OK, path.read_bytes(), "application/octet-stream")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"<Error><Code>NoSuchKey</Code></Error>", "application/xml")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Nothing: the output is the port alone."""


def main() -> None:
    """Serve until the process is ended."""
    Handler.folder, Handler.round_trip_s = Path(sys.argv[1]).resolve(), float(sys.argv[2])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
