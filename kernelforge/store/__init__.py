"""Where bytes are: one interface over folders, buckets and memory, blobs and build records on top of it.

Importing this room imports the standard library only; botocore and zstandard come with the first call that needs them.
"""

from kernelforge.store.actions import ActionCache, BuildRecord, PutOutcome
from kernelforge.store.blobs import check_blob, get_blob, put_blob
from kernelforge.store.deadline import Deadlines
from kernelforge.store.interface import PruneStore, ReadStore, Traffic, WriteStore
from kernelforge.store.locate import open_reader, open_store

__all__ = [
    "ActionCache",
    "BuildRecord",
    "Deadlines",
    "PruneStore",
    "PutOutcome",
    "ReadStore",
    "Traffic",
    "WriteStore",
    "check_blob",
    "get_blob",
    "open_reader",
    "open_store",
    "put_blob",
]
