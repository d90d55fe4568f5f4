from __future__ import annotations

import subprocess
import sys

HEAVY = ["boto3", "botocore", "urllib3", "zstandard", "pydantic", "yaml", "click", "torch", "cutlass", "tvm_ffi"]


def test_a_pod_can_import_the_store_and_read_raw_blobs_with_nothing_installed() -> None:
    """The loader imports this room at start-up, in images that have no S3 client, in milliseconds."""
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({HEAVY}))\n"
        "from kernelforge.store import get_blob, open_store, put_blob\n"
        "store = open_store('memory:'); open_store('s3://bucket'); open_store('/nowhere')\n"
        "assert get_blob(store, put_blob(store, b'x', compress=False)) == b'x'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_s3_without_botocore_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules.update(dict.fromkeys(['botocore', 'boto3']))\n"
        "from kernelforge.errors import UsageError; from kernelforge.store import open_store\n"
        "try: open_store('s3://bucket').get('a', limit_bytes=1)\n"
        "except UsageError as error: print(error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "kernelforge[s3]" in done.stdout
