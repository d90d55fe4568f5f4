"""A real S3 server for tests: SeaweedFS with one bucket, two identities or more, HTTP and HTTPS.

Starts in about a second. It is ended with SIGKILL, since a polite end takes half a minute and nothing of it is kept.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import random
import socket
import subprocess
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

BUCKET = "kernels"
_READY_WITHIN_S = 30.0
_IDENTITIES = {"writer": ["Admin", "Read", "Write", "List"], "reader": [f"Read:{BUCKET}", f"List:{BUCKET}"]}


@dataclass(frozen=True)
class SeaweedServer:
    """A running server; everything in it is lost at the end."""

    pid: int
    endpoint_url: str
    https_endpoint_url: str
    certificate: Path

    def location(self, prefix: str, *, https: bool = False) -> str:
        """What ``--store`` takes for ``prefix`` in the bucket. Give every test a prefix of its own."""
        return f"s3://{BUCKET}/{prefix}?endpoint={self.https_endpoint_url if https else self.endpoint_url}"

    def environment(self, identity: str = "writer") -> dict[str, str]:
        """Variables for botocore, as ``writer`` (may do all), ``reader`` or a role; nothing of the machine is used."""
        return {
            "AWS_ACCESS_KEY_ID": identity,
            "AWS_SECRET_ACCESS_KEY": f"{identity}-secret",
            "AWS_CA_BUNDLE": str(self.certificate),
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
        }


@pytest.fixture(scope="session")
def seaweed_server() -> Iterator[SeaweedServer]:
    """One server per test process, started by the first test that asks for it."""
    with run_seaweed() as server:
        yield server


@contextlib.contextmanager
def run_seaweed(roles: Mapping[str, Sequence[object]] | None = None) -> Iterator[SeaweedServer]:
    """A server of the caller's own, for tests that stop or kill it.

    ``roles`` are further identities that may do what their policies allow, which are documents as AWS has them.
    """
    ports = free_ports(6)
    with tempfile.TemporaryDirectory(prefix="weed-") as name:
        folder = Path(name)
        write_certificate(folder)
        (folder / "s3.json").write_text(json.dumps(_configuration(roles or {})))
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(_command(folder, ports), stdout=log, stderr=log, cwd=folder)
        try:
            server = SeaweedServer(
                pid=process.pid,
                endpoint_url=f"http://127.0.0.1:{ports[0]}",
                https_endpoint_url=f"https://127.0.0.1:{ports[1]}",
                certificate=folder / "certificate.pem",
            )
            _wait_until_ready(process, server, folder / "log")
            yield server
        finally:
            process.kill()
            process.wait()
            _remove_sockets(ports)


def _command(folder: Path, ports: list[int]) -> list[str]:
    http, https, filer, volume, master, admin = ports
    return [
        *(_weed(), "-logtostderr=true", "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *(f"-s3.port={http}", f"-s3.port.https={https}", f"-s3.config={folder}/s3.json"),
        *(f"-s3.cert.file={folder}/certificate.pem", f"-s3.key.file={folder}/key.pem"),
        # The last two listen on fixed ports otherwise, which a second server cannot.
        *("-s3.autoCreateBucket=false", "-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *(f"-filer.port={filer}", f"-volume.port={volume}", f"-master.port={master}", f"-admin.port={admin}"),
    ]


def client(server: SeaweedServer) -> Any:
    """A plain botocore client that may do all, to look behind the store's back."""
    return botocore.session.Session().create_client(
        "s3",
        endpoint_url=server.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="writer",
        aws_secret_access_key="writer-secret",
    )


def _weed() -> str:
    program = Path(sysconfig.get_path("scripts"), "weed")
    if not program.exists():
        raise RuntimeError("the S3 tests need SeaweedFS: pip install 'kernelforge[test]'")
    return str(program)


def _configuration(roles: Mapping[str, Sequence[object]]) -> dict[str, object]:
    policies = {f"{role}-{number}": policy for role, given in roles.items() for number, policy in enumerate(given)}
    identities = [_identity(name, actions=actions) for name, actions in _IDENTITIES.items()]
    for role, given in roles.items():
        identities.append(_identity(role, policyNames=[f"{role}-{number}" for number in range(len(given))]))
    contents = [{"name": name, "content": json.dumps(policy)} for name, policy in policies.items()]
    return {"identities": identities, "policies": contents}


def _identity(name: str, **permissions: object) -> dict[str, object]:
    return {"name": name, "credentials": [{"accessKey": name, "secretKey": f"{name}-secret"}], **permissions}


def free_ports(count: int) -> list[int]:
    """Ports that are free, as are those 10,000 above them, where the server listens too; below the ephemeral range."""
    candidates = random.sample(range(11_000, 22_000), 100)
    return [port for port in candidates if _is_free(port) and _is_free(port + 10_000)][:count]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _remove_sockets(ports: list[int]) -> None:
    """The server makes them in /tmp, whatever TMPDIR says, and SIGKILL leaves them there."""
    for port in (*ports, *(port + 10_000 for port in ports)):
        for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            path.unlink(missing_ok=True)


def _wait_until_ready(process: subprocess.Popen[bytes], server: SeaweedServer, log: Path) -> None:
    ends_at = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < ends_at and process.poll() is None:
        if _is_healthy(server.endpoint_url):
            # The server's own -bucket option makes the bucket some time after it reports health.
            client(server).create_bucket(Bucket=BUCKET)
            return
        time.sleep(0.02)
    raise RuntimeError(f"SeaweedFS did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _is_healthy(endpoint_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{endpoint_url}/healthz", timeout=1) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def write_certificate(folder: Path) -> None:
    """A key and a certificate for 127.0.0.1 that vouches for itself: ``key.pem`` and ``certificate.pem``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
