"""How inspected objects, packs and files look as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from kernelforge.cli.elf_file import ElfFile
from kernelforge.cli.inspected import Image, InspectedObject, InspectedPack
from kernelforge.digest import Digest
from kernelforge.lockfile import Lockfile
from kernelforge.report.document import Column, Document, Table
from kernelforge.report.units import bytes_text, count_text

_IMAGE_COLUMNS = (
    Column("ELF arch", 8),
    Column("ptxas", 7),
    Column("regs", 4, is_number=True),
    Column("shared B", 8, is_number=True),
    Column("spills B", 8, is_number=True),
    Column("code", 8, is_number=True),
    Column("cubin", 8, is_number=True),
    Column("object", 8, is_number=True),
    Column("symbol and key"),
)
_PROPERTY_COLUMNS = (Column("property", 9), Column("value"))


def lockfile_document(
    lock: Lockfile, objects: Sequence[InspectedObject], packs: Sequence[InspectedPack], *, path: str
) -> Document:
    """All objects by kernel and recorded target, then the packs."""
    by_kernel: dict[tuple[str, str], list[InspectedObject]] = defaultdict(list)
    for inspected in objects:
        by_kernel[inspected.entry.kernel, str(inspected.entry.target)].append(inspected)
    tables = [
        Table(f"{kernel}, recorded target {target}", _IMAGE_COLUMNS, tuple(_object_rows(alike)))
        for (kernel, target), alike in sorted(by_kernel.items())
    ]
    tables += [_pack_table(inspected) for inspected in packs]
    return Document(
        title=f"{lock.name}: {count_text(len(objects), 'object')}",
        summary=(f"lockfile {path}: {lock.digest}",),
        tables=tuple(tables),
        notes=tuple(_contradictions(objects, packs)),
    )


def file_document(file: ElfFile, images: Sequence[Image], *, path: str, data: bytes) -> Document:
    """One file on disk."""
    properties = [("size", f"{bytes_text(len(data))}, {Digest.of(data)}")]
    properties += _symbols(file) if file.kind != "cubin" else []
    columns = (*_IMAGE_COLUMNS[:-2], Column("digest"))
    rows = [(*_image_cells(image), image.digest.short) for image in images]
    return Document(
        title=f"{path}: {file.kind}",
        summary=(),
        tables=(
            Table("file", _PROPERTY_COLUMNS, tuple(properties)),
            Table("device images", columns, tuple(rows)),
        ),
    )


def _object_rows(objects: Iterable[InspectedObject]) -> Iterable[tuple[str, ...]]:
    for inspected in objects:
        entry = inspected.entry
        fields = " ".join(f"{name}={value!r}" for name, value in entry.compile_key.items())
        size = bytes_text(entry.object.content_size_bytes)
        if inspected.problem:
            yield (*["?"] * 7, size, f"{entry.symbol}\n{inspected.problem}")
        for image in inspected.images:
            yield (*_image_cells(image), size, f"{entry.symbol}\n{fields}")


def _image_cells(image: Image) -> tuple[str, ...]:
    facts = image.facts
    return (
        facts.arch,
        facts.ptxas,
        str(facts.registers),
        f"{facts.static_shared_memory_bytes:,}",
        f"{facts.spill_bytes:,}",
        bytes_text(facts.code_bytes),
        bytes_text(image.size_bytes),
    )


def _pack_table(inspected: InspectedPack) -> Table:
    pack, blob = inspected.pack, inspected.pack.blob
    properties = [
        ("target", str(pack.target)),
        ("size", f"{bytes_text(blob.content_size_bytes)} ({bytes_text(blob.stored_size_bytes)} in the store)"),
        ("digest", str(blob.content_digest)),
        ("linker", pack.linker),
    ]
    properties += _symbols(inspected.file) if inspected.file else [("problem", inspected.problem)]
    return Table(f"pack of {inspected.device}", _PROPERTY_COLUMNS, tuple(properties))


def _symbols(file: ElfFile) -> list[tuple[str, str]]:
    others = count_text(len(file.exported) - len(file.entries), "other symbol")
    return [
        ("images", str(len(file.images))),
        ("needed", ", ".join(file.needed) or "nothing"),
        ("exported", f"{count_text(len(file.entries), 'kernel')} ({', '.join(file.entries)}), {others}"),
        ("undefined", f"{len(file.undefined)} ({', '.join(file.undefined)})"),
    ]


def _contradictions(objects: Sequence[InspectedObject], packs: Sequence[InspectedPack]) -> Iterable[str]:
    for inspected in objects:
        if not inspected.is_as_recorded:
            found = ", ".join(sorted(inspected.architectures)) or "nothing: there is no device code in it"
            yield f"{inspected.entry.symbol}: recorded for {inspected.entry.target.arch}, its code is for {found}"
    for pack in packs:
        if not pack.is_as_recorded:
            yield f"pack of {pack.device}: its file needs other libraries or symbols than the lockfile records"
