"""``kernelforge sign``: say in one's own name that pods may run a lockfile, and where it comes from.

Signing is another role than building: whoever has the key looks at the lockfile (in git) before, and pull requests
never see the key. Needs no compiler.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click

from kernelforge import __version__
from kernelforge.cli.console import print_json, say
from kernelforge.cli.options import domain_option, json_option, opened_store
from kernelforge.cli.pod_options import pin_option
from kernelforge.cli.signing_key import VARIABLE, read_signing_key, signing_key_option, write_new_key
from kernelforge.cli.source_state import source_state
from kernelforge.digest import Digest
from kernelforge.errors import UsageError
from kernelforge.loader.trust import LocalFile, PinnedDigest, read_trusted
from kernelforge.lockfile import Lockfile
from kernelforge.release.facts import facts_path
from kernelforge.release.keys import SigningKey
from kernelforge.release.provenance import LOCAL_BUILDER, Provenance
from kernelforge.release.signature import open_signature, signature_path
from kernelforge.release.signing import check_signable, publish_signature, put_beside, sign
from kernelforge.release.statement import Statement
from kernelforge.release.utc import utc_text, whole_seconds

SCHEMA = "kernelforge.signing/1"


@click.command()
@click.argument("lockfile", type=click.Path(path_type=Path), required=False)
@signing_key_option
@click.option(
    "--store",
    "store_location",
    default=None,
    envvar="KERNELFORGE_STORE",
    help="Also publish the signature in this store, after the lockfile and a check of its packs.  [default: beside the "
    "lockfile only]",
)
@click.option("--expires-days", type=click.IntRange(1, 3650), default=None, help="Days it holds.  [default: for ever]")
@click.option("--renew", is_flag=True, help="Put a new signature in the place of this key's earlier one.")
@click.option(
    "--builder", default=LOCAL_BUILDER, show_default=True, help="Who ran the build: a URI, such as that of the CI job."
)
@domain_option
@pin_option
@json_option
@click.option(
    "--new-key",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Sign nothing: make a private key at this path, and its public half beside it as .pub.",
)
def command(
    lockfile: Path | None,
    key_file: Path | None,
    store_location: str | None,
    expires_days: int | None,
    renew: bool,
    builder: str,
    domain: str,
    pin: str | None,
    as_json: bool,
    new_key: Path | None,
) -> int:
    """Sign LOCKFILE, so that pods that trust the key may run what it names.

    The signature goes beside it (name.sig/KEY-ID.dsse.json). It names the source of the folder where this runs, by git.

    \b
    Examples:
      kernelforge sign --new-key release.key
      kernelforge sign registry/releases/qwen3-8b.lock.json --key release.key --domain release
      kernelforge sign qwen3-8b.lock.json --store s3://kernels/prod --expires-days 90
    """
    if new_key is not None:
        if lockfile is not None:
            hint = "two commands: make the key once, keep it, then sign"
            raise UsageError("--new-key signs nothing", hint=hint, where="--new-key")
        return _make_key(new_key, as_json)
    if lockfile is None:
        raise UsageError("no LOCKFILE is given", hint="name one, or make a key with --new-key FILE")
    key = read_signing_key(key_file, os.environ)
    trusted = read_trusted(lockfile, LocalFile() if pin is None else PinnedDigest(pin))
    lock = Lockfile.parse(trusted.data, where=trusted.where)
    check_signable(trusted.data, lock, where=trusted.where)
    now = whole_seconds(datetime.now(timezone.utc))
    statement = Statement(
        lock=trusted.digest,
        provenance=_provenance(lock, lockfile, key, domain, builder),
        issued=now,
        expires=None if expires_days is None else now + timedelta(days=expires_days),
    )
    envelope = sign(statement, key)
    beside = put_beside(lockfile, envelope, trusted.digest, key.public, now=now, renew=renew)
    published = None
    if store_location is not None:
        store = opened_store(store_location)
        published = publish_signature(store, lock, beside, key.public, now=now, renew=renew)
    path = signature_path(lockfile, key.public.key_id)
    _show(_document(trusted.digest, lockfile, path, beside, published, key, now), beside is envelope, as_json)
    return 0


def _provenance(lock: Lockfile, lockfile: Path, key: SigningKey, domain: str, builder: str) -> Provenance:
    """What is known here; the lockfile itself and what stands beside it are outputs, so no change of the source."""
    outputs = [lockfile, facts_path(lockfile), signature_path(lockfile, key.public.key_id).parent]
    source = source_state(Path.cwd(), besides=outputs)
    if source is not None and source.is_dirty:
        say(f"the working folder has changes that are not in commit {source.commit[:12]}; the signature says so")
    return Provenance.of(lock, domain=domain, source=source, builder=builder, version=__version__)


def _document(
    digest: Digest,
    lockfile: Path,
    path: Path,
    beside: bytes,
    published: bytes | None,
    key: SigningKey,
    now: datetime,
) -> dict[str, Any]:
    """What is there now, read from the signature itself: an earlier one may have stayed."""
    statement = open_signature(beside, digest, key.public, now=now, where=str(path))
    source = statement.provenance.source
    return {
        "schema": SCHEMA,
        "lockfile": {"path": str(lockfile), "digest": str(digest)},
        "key": key.public.key_id,
        "signature": str(path),
        "is_published": published is not None,
        "issued": utc_text(statement.issued),
        "expires": None if statement.expires is None else utc_text(statement.expires),
        "domain": statement.provenance.domain,
        "source": None if source is None else {"commit": source.commit, "dirty": source.is_dirty},
    }


def _show(document: dict[str, Any], is_new: bool, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    how = "signed" if is_new else "was signed before, which still holds; --renew replaces it"
    until = f"until {document['expires']}" if document["expires"] else "for ever"
    click.echo(f"{document['lockfile']['path']}: {how} (key {document['key'][:12]}, {until})")
    click.echo(f"{document['signature']}")
    if document["is_published"]:
        click.echo("the store has lockfile and signature")


def _make_key(path: Path, as_json: bool) -> int:
    key = write_new_key(path)
    public = f"{path}.pub"
    if as_json:
        print_json({"schema": SCHEMA, "key": key.public.key_id, "private": str(path), "public": public})
        return 0
    click.echo(f"{path}: the private key; whoever has it decides what pods run ({VARIABLE} in CI, never in git)")
    click.echo(f"{public}: the public key {key.public.key_id[:12]}, for pods and for git")
    return 0
