"""``kernelforge verify``: may this lockfile be served from here? Every reason why not, at once.

Runs in a pod's image: without ``--manifest`` it needs the base install only.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from kernelforge.cli.console import print_json, say
from kernelforge.cli.deep_check import check_deeply
from kernelforge.cli.options import json_option, opened_store, store_option
from kernelforge.cli.pod_lockfile import (
    WantedLockfile,
    channel_option,
    minimum_serial_option,
    pod_lockfile_argument,
    trusted_keys_option,
)
from kernelforge.cli.pod_options import cache_option, device_option, only_for, pin_option, pod_places
from kernelforge.errors import (
    KernelForgeError,
    ObjectCorrupt,
    ObjectMissing,
    PackCorrupt,
    UnsafeCache,
    UntrustedLockfile,
    UsageError,
)
from kernelforge.loader.pack import Places, find_pack
from kernelforge.loader.stats import StepClock
from kernelforge.loader.trust import TrustedBytes, parse_trusted
from kernelforge.lockfile import Lockfile
from kernelforge.release.statement import Statement
from kernelforge.release.utc import utc_text
from kernelforge.release.verify import Finding, verify_closed, verify_pin, verify_stored
from kernelforge.report.units import count_text

SCHEMA = "kernelforge.verification/1"

_LOCAL_FINDINGS: dict[type[KernelForgeError], str] = {
    ObjectMissing: "missing-blob",
    ObjectCorrupt: "corrupt-blob",
    PackCorrupt: "corrupt-blob",
}


@click.command()
@pod_lockfile_argument
@channel_option
@store_option
@pin_option
@trusted_keys_option
@minimum_serial_option
@cache_option
@json_option
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    default=None,
    help="Also check that the lockfile has every key of this manifest, for the kernels' sources as they are here.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="Read and hash every object and pack, not only ask for the packs' sizes. What is damaged is moved to the "
    "store's quarantine, and the next build makes it again.",
)
@click.option("--local", is_flag=True, help="Ask this machine's read-only mounts and cache of packs, and no store.")
@device_option
def command(
    lockfile: str | None,
    channel: str | None,
    store_location: str,
    pin: str | None,
    key_files: tuple[Path, ...],
    minimum_serial: int,
    cache_folder: Path | None,
    as_json: bool,
    manifest: Path | None,
    deep: bool,
    local: bool,
    devices: tuple[str, ...],
) -> int:
    """Say whether LOCKFILE (a file, a bundle, or sha256:... in the store) may be served from here.

    'Here' is the store, or with --local what a pod has without one: the folders in KERNELFORGE_MOUNTS and the cache.
    Exit code 0: it may; 1: it may not, and every reason why.

    \b
    Examples:
      kernelforge verify registry/releases/qwen3-8b.lock.json --manifest specs/deployments/qwen3-8b.yaml
      kernelforge verify /etc/kernels/qwen3-8b.lock.json --local --pin sha256:... --device h200-sxm
      kernelforge verify --channel qwen3-8b/prod --store s3://kernels/prod --key release.key.pub
    """
    if local and deep:
        hint = "--local hashes what a load would open anyway"
        raise UsageError("--deep is about a store", hint=hint, where="--deep")
    wanted = WantedLockfile.of(lockfile, channel, key_files, pin, minimum_serial)
    if local and wanted.needs_store:
        raise UsageError("--local asks no store, and the lockfile is in one", hint="name a file", where="--local")
    # Of a lockfile that is not the trusted one, nothing else is believed, read or asked for.
    trusted, findings = _trusted(wanted, store_location, cache_folder)
    if trusted is not None and not findings:
        lock = parse_trusted(trusted)
        served = only_for(lock, devices)
        if local:
            findings = _stored_here(served, pod_places(cache_folder))
        elif deep:
            findings = check_deeply(served, trusted.digest, opened_store(store_location), trusted.bundle)
        else:
            findings = verify_stored(served, trusted.bundle or opened_store(store_location), deep=False)
        findings += _against_manifest(lock, manifest) if manifest else []
    _show(findings, trusted, str(wanted), as_json)
    return 1 if findings else 0


def _trusted(
    wanted: WantedLockfile, store_location: str, cache_folder: Path | None
) -> tuple[TrustedBytes | None, list[Finding]]:
    """The lockfile's bytes, or what keeps them from being trusted; of a store also that it has other bytes."""
    try:
        trusted = wanted.read(lambda: opened_store(store_location), cache_folder, is_read_only=True)
    except UntrustedLockfile as error:
        return None, [Finding(error.reason, str(wanted), str(error))]
    except ObjectCorrupt as error:
        return None, [Finding("altered", str(wanted), str(error))]
    return trusted, verify_pin(trusted.data, wanted.pin)


def _stored_here(lock: Lockfile, places: Places) -> list[Finding]:
    """Findings for packs that a load without a store would not get: it is asked itself, up to opening them."""
    findings = []
    for device, pack in lock.packs.items():
        subject = f"pack of {device}"
        try:
            find_pack(pack.blob, places, StepClock())
        except UnsafeCache as error:
            return [Finding("unsafe-cache", error.where, str(error))]
        except KernelForgeError as error:
            kind = next(
                (kind for type_, kind in _LOCAL_FINDINGS.items() if isinstance(error, type_)), "unreadable-blob"
            )
            findings.append(Finding(kind, subject, f"{subject}: {error}"))
    return findings


def _against_manifest(lock: Lockfile, manifest: Path) -> list[Finding]:
    """Findings for keys and launch code of the manifest's kernels that the lockfile lacks or has otherwise."""
    from kernelforge.cli.deployment import read_deployment
    from kernelforge.cli.wanted_keys import plan_keys

    plan = plan_keys(read_deployment(manifest))
    wanted = {(device, key.kernel, key.symbol): str(key.key_digest) for key in plan.keys for device in key.devices}
    findings = verify_closed(lock, wanted)
    for name, sources in plan.kernels.items():
        locked = lock.kernels.get(name)
        if locked is not None and locked.launch_fingerprint != sources.launch.digest:
            text = f"{name}: dispatch or launch code is not what was locked, so a pod would refuse it: build again"
            findings.append(Finding("stale-launch-code", name, text))
    return findings


def _show(findings: list[Finding], trusted: TrustedBytes | None, wanted: str, as_json: bool) -> None:
    if as_json:
        print_json(_document(findings, trusted, wanted))
        return
    for finding in findings:
        click.echo(f"{finding.kind}: {finding.text}")
    if findings or trusted is None:
        say(f"{wanted}: {count_text(len(findings), 'finding')}, do not serve it from here")
    else:
        signed = f", signed {utc_text(trusted.statement.issued)}" if trusted.statement else ""
        click.echo(f"{wanted}: may be served from here ({trusted.digest}{signed})")


def _document(findings: list[Finding], trusted: TrustedBytes | None, wanted: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "lockfile": {"path": wanted, "digest": str(trusted.digest) if trusted else None},
        "signature": _signature_json(trusted.statement) if trusted and trusted.statement else None,
        "may_be_served": not findings,
        "findings": [asdict(finding) for finding in findings],
    }


def _signature_json(statement: Statement) -> dict[str, Any]:
    made = statement.provenance
    return {
        "issued": utc_text(statement.issued),
        "expires": utc_text(statement.expires) if statement.expires else None,
        "builder": made.builder,
        "domain": made.domain,
        "source": {"commit": made.source.commit, "dirty": made.source.is_dirty} if made.source else None,
    }
