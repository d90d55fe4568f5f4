"""``kernelforge bundle``: a release as one file, for places that no store reaches, and back into a store there."""

from __future__ import annotations

from pathlib import Path

import click

from kernelforge.cli.console import print_json
from kernelforge.cli.lockfiles import read_lockfile
from kernelforge.cli.options import json_option, opened_store, store_option
from kernelforge.cli.pod_lockfile import WantedLockfile, check_vouched_for, trusted_keys_option
from kernelforge.cli.pod_options import device_option, pin_option
from kernelforge.digest import Digest
from kernelforge.errors import LockfileError, UntrustedLockfile, UsageError
from kernelforge.loader.source import Bundle
from kernelforge.loader.trust import parse_trusted
from kernelforge.lockfile import Lockfile
from kernelforge.release.bundle import import_bundle, stored_signature_names, write_bundle
from kernelforge.release.envelope import SIZE_LIMIT_BYTES
from kernelforge.release.signature import signature_path
from kernelforge.release.stored_lock import stored_lock
from kernelforge.release.verify import verify_pin
from kernelforge.store.interface import PruneStore

SCHEMA = "kernelforge.bundled/1"


@click.command()
@click.argument("lockfile", metavar="[LOCKFILE|sha256:...]", required=False)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), default=None, help="The bundle to write."
)
@click.option(
    "--import",
    "imported",
    metavar="BUNDLE",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Copy this bundle into the store instead; it has to be trusted: --key, --pin or --trust-file.",
)
@store_option
@device_option
@click.option("--with-objects", is_flag=True, help="Also the objects, so that the bundle can be imported.")
@pin_option
@trusted_keys_option
@click.option("--trust-file", is_flag=True, help="With --import: you vouch for the bundle as it is.")
@json_option
def command(
    lockfile: str | None,
    output: Path | None,
    imported: Path | None,
    store_location: str,
    devices: tuple[str, ...],
    with_objects: bool,
    pin: str | None,
    key_files: tuple[Path, ...],
    trust_file: bool,
    as_json: bool,
) -> int:
    """Put LOCKFILE, its signatures and its packs into one file, or a bundle into a store.

    The file needs no network, and is loaded in place: kernelforge.load(kernelforge.Bundle("x.bundle"), trust=...).
    Equal releases give equal bytes.

    \b
    Examples:
      kernelforge bundle qwen3-8b.lock.json -o qwen3-8b.bundle --store s3://kernels/prod --device h200-sxm
      kernelforge bundle qwen3-8b.lock.json -o qwen3-8b.bundle --with-objects
      kernelforge bundle --import qwen3-8b.bundle --store file:/srv/kernels --key release.key.pub
    """
    store = opened_store(store_location)
    if imported is not None:
        if lockfile is not None or output is not None or devices or with_objects:
            raise UsageError("--import takes a bundle and nothing that makes one", hint="see --help", where="--import")
        document = _import(imported, store, pin, key_files, trust_file)
        text = f"{imported}: imported; the store has {document['lock']}"
    else:
        if lockfile is None or output is None:
            raise UsageError("give LOCKFILE and -o FILE, or --import BUNDLE", hint="see --help", where="LOCKFILE")
        if pin or trust_file:
            raise UsageError("--pin and --trust-file are for --import", hint="leave them out", where="bundle")
        document = _make(lockfile, output, store, devices, with_objects)
        text = f"{output}: {document['size_bytes']:,} bytes, {document['lock']}, {document['signatures']} signatures"
    print_json(document) if as_json else click.echo(text)
    return 0


def _make(
    lockfile: str, output: Path, store: PruneStore, devices: tuple[str, ...], with_objects: bool
) -> dict[str, object]:
    lock, beside = _found(lockfile, store)
    signatures = _stored_signatures(store, lock.digest) | beside
    size_bytes = write_bundle(output, lock, store, signatures=signatures, devices=devices, with_objects=with_objects)
    return _document(output, lock.digest, size_bytes, len(signatures))


def _import(
    path: Path, store: PruneStore, pin: str | None, key_files: tuple[Path, ...], trust_file: bool
) -> dict[str, object]:
    wanted = WantedLockfile.of(str(path), None, key_files, pin)
    check_vouched_for(wanted, trust_file)
    if not isinstance(wanted.source, Bundle):
        raise LockfileError("not a bundle", hint="give a file that 'kernelforge bundle' wrote", where=str(path))
    trusted = wanted.read(lambda: store, None, is_read_only=True)
    for finding in verify_pin(trusted.data, wanted.pin):
        hint = "import the pinned release, or pin the new one after reviewing it"
        raise UntrustedLockfile(finding.text, hint=hint, where=trusted.where, reason="unpinned")
    bundle = trusted.bundle
    assert bundle is not None
    digest = import_bundle(bundle, parse_trusted(trusted), store)
    return _document(path, digest, path.stat().st_size, len(stored_signature_names(bundle, digest)))


def _document(path: Path, lock: Digest, size_bytes: int, signatures: int) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "path": str(path),
        "lock": str(lock),
        "size_bytes": size_bytes,
        "signatures": signatures,
    }


def _found(lockfile: str, store: PruneStore) -> tuple[Lockfile, dict[str, bytes]]:
    """The lockfile, and the signatures beside it if it is a file."""
    if lockfile.startswith("sha256:"):
        digest = Digest.parse(lockfile)
        return Lockfile.parse(stored_lock(store, digest), where=f"{store.location}: {digest}"), {}
    path = Path(lockfile)
    folder = signature_path(path, "any").parent
    try:
        beside = {each.name.removesuffix(".dsse.json"): each.read_bytes() for each in folder.glob("*.dsse.json")}
    except OSError as error:
        problem = f"a signature cannot be read: {error.strerror or error}"
        raise LockfileError(problem, hint="check the folder", where=str(folder)) from error
    return read_lockfile(path), beside


def _stored_signatures(store: PruneStore, lock: Digest) -> dict[str, bytes]:
    names = stored_signature_names(store, lock)
    return {
        name.rpartition("/")[2].removesuffix(".dsse.json"): store.get(name, limit_bytes=SIZE_LIMIT_BYTES)
        for name in names
    }
