"""What is really inside a lockfile's objects and packs: read from their bytes, beside what the lockfile recorded.

The recorded target and the architecture that an image names are two facts (a plain ``sm_100`` and a family ``sm_100f``
image can look alike), so both are kept. Gathers values; ``inspect`` shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from kernelforge.builder.cubin import CubinFacts, read_cubin
from kernelforge.cli.elf_file import ElfFile, read_elf
from kernelforge.digest import Digest
from kernelforge.errors import InputError, ObjectCorrupt, ObjectMissing, ToolchainError
from kernelforge.lockfile import LockedEntry, LockedPack, Lockfile
from kernelforge.store.blobs import get_blob
from kernelforge.store.interface import ReadStore

# As many as a plan's look-ups: an object is one request of some 30 ms.
_READING_THREADS = 32


@dataclass(frozen=True)
class Image:
    """One device image: what it says about itself, its size and digest."""

    facts: CubinFacts
    size_bytes: int
    digest: Digest

    @classmethod
    def of(cls, data: bytes) -> Image:
        """Read a cubin; ``ToolchainError`` if it says nothing."""
        return cls(read_cubin(data), len(data), Digest.of(data))

    def to_json(self) -> dict[str, Any]:
        """Facts, ``size_bytes`` and ``digest`` as one object."""
        return {**asdict(self.facts), "size_bytes": self.size_bytes, "digest": str(self.digest)}


@dataclass(frozen=True)
class InspectedObject:
    """A locked entry and the images in its object; ``problem`` says why there are none."""

    entry: LockedEntry
    images: tuple[Image, ...] = ()
    problem: str = ""

    @property
    def is_as_recorded(self) -> bool:
        """Whether all its code is for the recorded architecture; an object that could not be read is not judged."""
        return bool(self.problem) or self.architectures == {self.entry.target.arch}

    @property
    def architectures(self) -> set[str]:
        """What the images say they are for; empty where the object has no device code at all."""
        return {image.facts.arch for image in self.images}

    def to_json(self) -> dict[str, Any]:
        """The entry as recorded, and ``images`` as found."""
        entry = self.entry
        return {
            "kernel": entry.kernel,
            "compile_key": dict(entry.compile_key),
            "target": str(entry.target),
            "devices": list(entry.devices),
            "symbol": entry.symbol,
            "key_digest": str(entry.key_digest),
            "object": {"digest": str(entry.object.content_digest), "size_bytes": entry.object.content_size_bytes},
            "images": [image.to_json() for image in self.images],
            "problem": self.problem,
        }


@dataclass(frozen=True)
class InspectedPack:
    """A locked pack and what its file needs and offers; ``problem`` says why there is no ``file``."""

    device: str
    pack: LockedPack
    file: ElfFile | None = None
    problem: str = ""

    @property
    def is_as_recorded(self) -> bool:
        """Whether the file needs what the lockfile says; a pack that could not be read is not judged."""
        file = self.file
        return file is None or (
            sorted(file.needed) == sorted(self.pack.needed) and sorted(file.undefined) == sorted(self.pack.undefined)
        )

    def to_json(self) -> dict[str, Any]:
        """The pack as recorded, and ``file`` as found."""
        blob = self.pack.blob
        return {
            "device": self.device,
            "target": str(self.pack.target),
            "digest": str(blob.content_digest),
            "size_bytes": blob.content_size_bytes,
            "stored_size_bytes": blob.stored_size_bytes,
            "linker": self.pack.linker,
            "needed": list(self.pack.needed),
            "undefined": list(self.pack.undefined),
            "file": file_json(self.file) if self.file else None,
            "problem": self.problem,
        }


def file_json(file: ElfFile) -> dict[str, Any]:
    """An ELF file's kind, symbols and number of images."""
    return {
        "kind": file.kind,
        "needed": list(file.needed),
        "undefined": list(file.undefined),
        "exported": list(file.exported),
        "images": len(file.images),
    }


def inspect_objects(entries: Sequence[LockedEntry], store: ReadStore) -> tuple[InspectedObject, ...]:
    """Read every entry's object. Absent and damaged ones become problems; a store that fails otherwise raises."""

    def inspect(entry: LockedEntry) -> InspectedObject:
        try:
            file = read_elf(get_blob(store, entry.object), where=entry.symbol)
        except (ObjectMissing, ObjectCorrupt, InputError) as error:
            return InspectedObject(entry, problem=str(error))
        try:
            return InspectedObject(entry, tuple(map(Image.of, file.images)))
        except ToolchainError as error:
            return InspectedObject(entry, problem=str(error))

    with ThreadPoolExecutor(_READING_THREADS) as threads:
        return tuple(threads.map(inspect, entries))


def inspect_packs(lock: Lockfile, store: ReadStore) -> tuple[InspectedPack, ...]:
    """Read every pack, with the same rule for problems."""

    def inspect(device: str) -> InspectedPack:
        pack = lock.packs[device]
        try:
            return InspectedPack(device, pack, read_elf(get_blob(store, pack.blob), where=f"pack of {device}"))
        except (ObjectMissing, ObjectCorrupt, InputError) as error:
            return InspectedPack(device, pack, problem=str(error))

    return tuple(map(inspect, sorted(lock.packs)))
