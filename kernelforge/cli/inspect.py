"""``kernelforge inspect``: what is inside a lockfile's objects and packs, or inside a file on disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from kernelforge.cli.console import print_json
from kernelforge.cli.elf_file import read_elf
from kernelforge.cli.inspect_document import file_document, lockfile_document
from kernelforge.cli.inspected import Image, InspectedObject, InspectedPack, file_json, inspect_objects, inspect_packs
from kernelforge.cli.options import json_option, opened_store, store_option
from kernelforge.cli.show import show_document
from kernelforge.descriptor import MAX_SIZE_BYTES
from kernelforge.digest import Digest
from kernelforge.errors import InputError
from kernelforge.lockfile import LockedEntry, Lockfile
from kernelforge.store.interface import PruneStore

SCHEMA = "kernelforge.inspection/1"
_ELF_MAGIC = b"\x7fELF"
#: No dot in the last part, so that a mistyped path to a file is told apart from a channel.
_CHANNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_-]*")
#: Where a key's build record is looked for.
DOMAINS = ("release", "dev")


@click.command()
@click.argument("what", metavar="[LOCKFILE|FILE|sha256:...|DEPLOYMENT/CHANNEL]", required=False)
@store_option
@json_option
@click.option("--kernel", default=None, metavar="NAME", help="Only objects of kernels whose name has this in it.")
@click.option("--symbol", default=None, metavar="NAME", help="Only objects whose symbol has this in it.")
def command(what: str | None, store_location: str, as_json: bool, kernel: str | None, symbol: str | None) -> int:
    """Show what is inside objects, packs, files and stores.

    Architecture, registers, memory, spills, sizes and symbols are read from the bytes themselves. LOCKFILE's objects
    and packs come from the store; FILE is a .o, .so or .cubin on disk. Exit code 1 if a file is not what the lockfile
    records, 3 if one cannot be had.

    A digest is looked up in the store as lockfile, blob and key; a channel is shown as it says it is, unchecked; with
    no argument it is the store: what is there, what releases share, and how each made it grow.

    \b
    Examples:
      kernelforge inspect registry/releases/qwen3-8b.lock.json --kernel QkNorm
      kernelforge inspect ~/.cache/kernelforge/packs/0f3a...so
      kernelforge inspect --store s3://kernels/prod
      kernelforge inspect qwen3-8b/prod --store s3://kernels/prod
    """
    if what is None or what.startswith("sha256:") or _is_channel(what):
        if kernel or symbol:
            raise InputError("--kernel and --symbol choose among a lockfile's objects", hint="leave them out")
        return _inspect_stored(what, opened_store(store_location), as_json)
    path = Path(what)
    data = _read(path)
    if data.startswith(_ELF_MAGIC):
        if kernel or symbol:
            raise InputError("--kernel and --symbol choose among a lockfile's objects", hint="leave them out")
        return _inspect_file(path, data, as_json)
    lock = Lockfile.parse(data, where=str(path))
    entries = _chosen(lock, kernel, symbol)
    store = opened_store(store_location)
    objects = inspect_objects(entries, store)
    packs = () if kernel or symbol else inspect_packs(lock, store)
    if as_json:
        print_json(_document(lock, objects, packs, path))
    else:
        show_document(lockfile_document(lock, objects, packs, path=str(path)))
    return _exit_code(objects, packs)


def _is_channel(what: str) -> bool:
    """Whether it can only be one: a file of that name would have been meant first."""
    return bool(_CHANNEL.fullmatch(what)) and not Path(what).exists()


def _inspect_stored(what: str | None, store: PruneStore, as_json: bool) -> int:
    from kernelforge.cli.inspect_store import inspect_channel, inspect_digest, inspect_store

    if what is None:
        return inspect_store(store, as_json)
    if what.startswith("sha256:"):
        return inspect_digest(store, Digest.parse(what), DOMAINS, as_json)
    return inspect_channel(store, what, as_json)


def _inspect_file(path: Path, data: bytes, as_json: bool) -> int:
    file = read_elf(data, where=str(path))
    images = tuple(map(Image.of, file.images))
    if as_json:
        document = {"schema": SCHEMA, "path": str(path), "size_bytes": len(data), "digest": str(Digest.of(data))}
        print_json({**document, **file_json(file), "images": [image.to_json() for image in images]})
    else:
        show_document(file_document(file, images, path=str(path), data=data))
    return 0


def _chosen(lock: Lockfile, kernel: str | None, symbol: str | None) -> Sequence[LockedEntry]:
    entries = [entry for entry in lock.entries if (kernel or "") in entry.kernel and (symbol or "") in entry.symbol]
    if not entries:
        raise InputError(
            "the lockfile has no such objects", hint=f"its kernels are: {', '.join(sorted(lock.kernels)) or 'none'}"
        )
    return entries


def _exit_code(objects: Sequence[InspectedObject], packs: Sequence[InspectedPack]) -> int:
    inspected: list[InspectedObject | InspectedPack] = [*objects, *packs]
    if any(each.problem for each in inspected):
        return 3
    return 0 if all(each.is_as_recorded for each in inspected) else 1


def _document(
    lock: Lockfile, objects: Sequence[InspectedObject], packs: Sequence[InspectedPack], path: Path
) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "name": lock.name,
        "lockfile": {"path": str(path), "digest": str(lock.digest)},
        "objects": [inspected.to_json() for inspected in objects],
        "packs": [inspected.to_json() for inspected in packs],
    }


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_SIZE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror or error}", hint="check the path", where=str(path)
        ) from error
