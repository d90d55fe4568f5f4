"""A store in a bucket: S3 itself, or any server that speaks it and knows conditional writes.

Every upload is one conditional PUT (``If-None-Match: *``, or ``If-Match`` where an object is to be replaced) with its
sha256, so the server refuses to replace what the caller has not seen and to keep damaged bytes. botocore is imported at
the first call, which makes the connection.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from kernelforge.errors import ObjectConflict, ObjectMissing, StoreDenied, StoreUnavailable
from kernelforge.store.deadline import Deadlines
from kernelforge.store.interface import (
    Page,
    RemoteStore,
    StoredObject,
    Traffic,
    TrafficMeter,
    all_pages,
    compare_with_existing,
    larger_than,
    moved_on,
)
from kernelforge.store.layout import check_name, is_name
from kernelforge.store.retry import Transient
from kernelforge.store.s3_connection import S3Options, connect
from kernelforge.store.s3_errors import our_errors

_T = TypeVar("_T")


class S3Store(RemoteStore):
    """Objects in ``bucket`` under ``prefix``, one try a call: ``RetryingStore`` adds the others and the deadline."""

    def __init__(self, bucket: str, *, prefix: str, options: S3Options, deadlines: Deadlines) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._options = options
        self._deadlines = deadlines
        self._meter = TrafficMeter()
        self._connecting = threading.Lock()
        self._connection: Any = None

    @property
    def location(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/") + self._options.query

    @property
    def traffic(self) -> Traffic:
        return self._meter.reading()

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        return self.get_versioned(name, limit_bytes=limit_bytes)[0]

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        def fetch(client: Any) -> tuple[bytes, str]:
            self._meter.add(gets=1)
            answer = client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            size_bytes = answer.get("ContentLength")  # absent where something on the way sends it in chunks
            with contextlib.closing(answer["Body"]) as body:
                data = b"" if size_bytes and size_bytes > limit_bytes else bytes(body.read(limit_bytes + 1))
            if max(len(data), size_bytes or 0) > limit_bytes:
                raise larger_than(limit_bytes, self._where(name))
            if size_bytes is not None and len(data) != size_bytes:
                raise Transient("the answer was cut short", hint="check the network", where=self._where(name))
            self._meter.add(bytes_read=len(data))
            return data, str(answer.get("ETag", ""))

        check_name(name)
        return self._call(fetch, name)

    def size(self, name: str) -> int:
        def ask(client: Any) -> int:
            self._meter.add(heads=1)
            return int(client.head_object(Bucket=self._bucket, Key=self._prefix + name)["ContentLength"])

        check_name(name)
        try:
            return self._call(ask, name)
        except ObjectMissing:
            # The answer to a HEAD has no body that could say whether the object is missing or the whole bucket.
            self._check_bucket()
            raise

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._put(name, data, IfNoneMatch="*")
        except ObjectConflict:
            return compare_with_existing(self, name, data)
        return True

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        try:
            self._put(name, data, IfMatch=version)
        except (ObjectConflict, ObjectMissing) as error:  # of a missing key AWS says 404, others say 412
            raise moved_on(self._where(name)) from error

    def _put(self, name: str, data: bytes, **condition: str) -> None:
        sha256 = base64.b64encode(hashlib.sha256(data).digest()).decode()

        def send(client: Any) -> None:
            self._meter.add(puts=1)
            # With a sha256 of ours botocore sends no checksum trailer, which R2 and older MinIO and Ceph refuse.
            client.put_object(
                Bucket=self._bucket, Key=self._prefix + name, Body=data, ChecksumSHA256=sha256, **condition
            )

        check_name(name)
        self._call(send, name)
        self._meter.add(bytes_written=len(data))

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        return all_pages(lambda after: self.page(prefix, after))

    def page(self, prefix: str, after: str | None) -> Page:
        request = {"Bucket": self._bucket, "Prefix": self._prefix + prefix}
        if after is not None:
            request["ContinuationToken"] = after

        def ask(client: Any) -> Any:
            self._meter.add(lists=1)
            return client.list_objects_v2(**request)

        answer = self._call(ask, prefix)
        if "IsTruncated" not in answer:  # some other page in XML, which must not pass for an empty store
            hint = "check the endpoint and any proxy before it"
            raise StoreUnavailable("the answer is not a listing", hint=hint, where=self._where(prefix))
        named = ((item["Key"][len(self._prefix) :], item) for item in answer.get("Contents", ()))
        found = [
            StoredObject(name, item["Size"], item["LastModified"].timestamp(), item["ETag"])
            for name, item in named
            if is_name(name)
        ]
        return found, answer["NextContinuationToken"] if answer["IsTruncated"] else None

    def delete(self, name: str, *, version: str | None = None) -> None:
        condition = {} if version is None else {"IfMatch": version}

        def ask(client: Any) -> None:
            self._meter.add(deletes=1)
            client.delete_object(Bucket=self._bucket, Key=self._prefix + name, **condition)

        check_name(name)
        try:
            self._call(ask, name)
        except ObjectMissing:
            pass  # conditional deletes of a missing key say 404
        except ObjectConflict as error:
            self._check_gone(name, error)

    def refuses_damage(self, name: str) -> bool:
        sha256 = base64.b64encode(hashlib.sha256(b"what was meant").digest()).decode()
        upload = {"Key": self._prefix + name, "Body": b"damaged", "ChecksumSHA256": sha256, "IfNoneMatch": "*"}

        def send(client: Any) -> bool:
            from botocore.exceptions import ClientError

            self._meter.add(puts=1)
            try:
                client.put_object(Bucket=self._bucket, **upload)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] == 400:
                    return True
                raise
            return False

        check_name(name)
        is_refused = self._call(send, name)
        if not is_refused:
            self.delete(name)
        return is_refused

    def _check_gone(self, name: str, refusal: ObjectConflict) -> None:
        """Some servers refuse the conditional delete of a missing key too, and for us nothing to remove is fine."""
        try:
            self.size(name)
        except ObjectMissing:
            return
        raise moved_on(self._where(name)) from refusal

    def _check_bucket(self) -> None:
        def ask(client: Any) -> None:
            self._meter.add(heads=1)
            client.head_bucket(Bucket=self._bucket)

        try:
            self._call(ask, "")
        except StoreDenied:
            return  # it is there, and not ours to list: a role that reads single objects
        except ObjectMissing as error:
            hint = "create the bucket, or check its name and the endpoint"
            raise StoreUnavailable("no such bucket", hint=hint, where=self.location) from error

    def _where(self, name: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{name}"

    def _call(self, operation: Callable[[Any], _T], name: str) -> _T:
        client = self._client()
        with our_errors(self._where(name)):
            return operation(client)

    def _client(self) -> Any:
        """The connection, made at the first call: every thread that finds none waits for the one that makes it."""
        with self._connecting:
            if self._connection is None:
                self._connection = connect(self._options, self._deadlines)
            return self._connection
