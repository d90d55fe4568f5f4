"""Does what is around kernelforge work here: the GPU's driver, the S3 client?"""

from __future__ import annotations

from importlib import metadata

from kernelforge.cli.doctor_check import Check, Status
from kernelforge.errors import DeviceMismatch, RuntimeUnfit
from kernelforge.loader.driver import find_device


def check_gpu() -> Check:
    """Ask the driver for the current device; absence is fine where kernels are only built."""
    try:
        found = find_device()
    except (RuntimeUnfit, DeviceMismatch) as error:
        return Check("gpu", Status.WARNING, error.problem, f"nothing, to build; to load kernels: {error.hint}")
    major, minor = found.driver_cuda
    return Check("gpu", Status.OK, f"{found}, driver for CUDA {major}.{minor}")


def check_s3_client(*, is_needed: bool) -> Check:
    """Is botocore here, which s3 stores need?"""
    try:
        return Check("s3 client", Status.OK, f"botocore {metadata.version('botocore')}")
    except metadata.PackageNotFoundError:
        status = Status.FAILED if is_needed else Status.WARNING
        return Check("s3 client", status, "botocore is not installed", "pip install 'kernelforge[s3]' for s3 stores")
