"""Does what is around kernelforge work here: the GPU's driver, the S3 client, the store?"""

from __future__ import annotations

from importlib import metadata

from kernelforge.cli.doctor_check import Check, Status
from kernelforge.descriptor import Descriptor
from kernelforge.errors import DeviceMismatch, KernelForgeError, RuntimeUnfit, StoreUnavailable
from kernelforge.loader.driver import find_device
from kernelforge.store.blobs import get_blob, put_blob
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import blob_name
from kernelforge.store.marker import claim

# What a probe leaves in a store: one blob of a few bytes, always the same one.
PROBE = b"written by kernelforge doctor to see whether this store can be written\n"


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


def check_store(store: PruneStore) -> Check:
    """Claim the store, write a blob, read it back, and see that writing it again changes nothing."""
    try:
        claim(store)
        descriptor = put_blob(store, PROBE, compress=False)
        get_blob(store, descriptor)
        _check_conditional_writes(store, descriptor)
    except KernelForgeError as error:
        return Check.failed("store", error)
    return Check("store", Status.OK, f"{store.location}: writes, reads, and never replaces an object")


def _check_conditional_writes(store: PruneStore, descriptor: Descriptor) -> None:
    """A server that ignores ``If-None-Match`` says that it wrote what is there already."""
    if store.create(blob_name(descriptor.stored_digest), PROBE):
        raise StoreUnavailable(
            "it replaced an object that was there: it ignores conditional writes",
            hint="use a store that honours If-None-Match on PUT, or builds can overwrite each other",
            where=store.location,
        )
