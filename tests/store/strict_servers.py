"""Servers that speak the S3 of some years ago and refuse what newer clients add to it.

R2, MinIO and Ceph have each refused uploads whose body came in chunks with a checksum behind it, and deletes of many
objects without a ``Content-MD5``. This one keeps objects in a dictionary and refuses all of that.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from tests.store.faults import Answer, FaultyServer, _Handler, error, plain

_NEW = ("x-amz-trailer", "x-amz-sdk-checksum-algorithm", "x-amz-checksum-crc32", "x-amz-checksum-crc64nvme")


@dataclass
class StrictServer:
    """``answer`` is for ``FaultyServer.otherwise``; ``refused`` are the headers that it would not have."""

    objects: dict[str, bytes] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, handler: _Handler) -> None:
        with self.lock:
            self._answer_to(handler)(handler)

    def _answer_to(self, handler: _Handler) -> Answer:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        unknown = [name for name in _NEW if name in headers]
        if "aws-chunked" in headers.get("content-encoding", "") or unknown or "transfer-encoding" in headers:
            self.refused.append(", ".join(unknown) or "aws-chunked")
            return error(501, "NotImplemented")
        key = unquote(urlsplit(handler.path).path)
        if handler.command == "PUT" and "content-length" not in headers:
            return error(411, "MissingContentLength")
        if handler.command == "PUT":
            return self._put(key, handler.body, headers)
        if key not in self.objects:
            return error(404, "NoSuchKey")
        if handler.command == "DELETE":
            del self.objects[key]
            return plain(204)
        return plain(200, self.objects[key], headers={"ETag": _tag(self.objects[key])})

    def _put(self, key: str, body: bytes, headers: dict[str, str]) -> Answer:
        if headers.get("x-amz-content-sha256") not in (hashlib.sha256(body).hexdigest(), "UNSIGNED-PAYLOAD"):
            return error(400, "XAmzContentSHA256Mismatch")
        if "if-none-match" in headers and key in self.objects:
            return error(412, "PreconditionFailed")
        if "if-match" in headers and headers["if-match"] != _tag(self.objects.get(key, b"")):
            return error(412, "PreconditionFailed")
        self.objects[key] = body
        return plain(200, headers={"ETag": _tag(body)})


def strict(server: FaultyServer) -> StrictServer:
    """Make ``server`` one of these."""
    made = StrictServer()
    server.otherwise(made.answer)
    return made


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
