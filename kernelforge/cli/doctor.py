"""``kernelforge doctor``: what works on this machine, and what to do about what does not."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from kernelforge.cli.console import print_json, say
from kernelforge.cli.doctor_check import Check, Status
from kernelforge.cli.doctor_store import ROLES, check_store
from kernelforge.cli.options import json_option, opened_store
from kernelforge.cli.profile_yaml import profile_yaml
from kernelforge.errors import UsageError
from kernelforge.store.probe import Ability

SCHEMA = "kernelforge.doctor/1"
_NAME_WIDTH = max(len(ability.value) for ability in Ability) + len("store: ") + 2
_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.FAILED: "red"}


@click.command()
@click.option(
    "--store",
    "store_location",
    default=None,
    envvar="KERNELFORGE_STORE",
    help="Also try what this store can do; leaves nothing in it where deleting is permitted.",
)
@click.option(
    "--role",
    type=click.Choice(list(ROLES)),
    default="ci",
    show_default=True,
    envvar="KERNELFORGE_ROLE",
    help="Whose work the store has to permit: what others need is a warning. With 'pod' nothing is written.",
)
@click.option("--device", "wants_profile", is_flag=True, help="Print a device profile of the GPU at hand, as YAML.")
@click.option("--ordinal", type=click.IntRange(min=0), default=0, show_default=True, help="Which GPU, for --device.")
@click.option("--name", default=None, help="Name of the profile, for --device.  [default: from the driver's name]")
@json_option
def command(
    store_location: str | None, role: str, wants_profile: bool, ordinal: int, name: str | None, as_json: bool
) -> int:
    """Try what builds and loads need on this machine.

    Compiler, linker, tvm-ffi, GPU driver and store are used for real. With --device print this GPU's profile instead.

    \b
    Examples:
      kernelforge doctor --store s3://kernels/prod
      kernelforge doctor --store s3://kernels/prod --role pod
      kernelforge doctor --device --name h200-sxm > specs/devices/h200-sxm.yaml
    """
    if wants_profile:
        return _print_profile(ordinal, name, as_json)
    checks = []
    for check in _checks(store_location, role):
        checks.append(check)
        if not as_json:
            _show(check)
    if as_json:
        print_json({"schema": SCHEMA, "checks": [_check_json(check) for check in checks]})
    return _exit_code(checks)


def _checks(store_location: str | None, role: str) -> Iterator[Check]:
    """One after the other, so that each can be shown while the next one runs."""
    from kernelforge.cli import doctor_surroundings, doctor_toolchain

    yield doctor_toolchain.check_python()
    yield doctor_toolchain.check_compiler()
    yield from doctor_toolchain.check_linker_and_call_interface()
    yield doctor_surroundings.check_gpu()
    yield doctor_surroundings.check_s3_client(is_needed=(store_location or "").startswith("s3:"))
    if store_location:
        yield from check_store(opened_store(store_location), role)


def _show(check: Check) -> None:
    label = click.style(f"{check.status.value:<8}", fg=_COLOURS[check.status])
    click.echo(f"{label}{check.name:<{_NAME_WIDTH}}{check.found}")
    for text in _advice(check):
        click.echo(f"{'':<{8 + _NAME_WIDTH}}{text}")


def _advice(check: Check) -> Iterator[str]:
    if check.stops:
        yield f"without it these cannot work: {', '.join(check.stops)}"
    if check.fix:
        yield f"to do: {check.fix}"


def _check_json(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "status": check.status.value,
        "found": check.found,
        "fix": check.fix,
        "stops": list(check.stops),
    }


def _exit_code(checks: Sequence[Check]) -> int:
    return 3 if any(check.status is Status.FAILED for check in checks) else 0


def _print_profile(ordinal: int, name: str | None, as_json: bool) -> int:
    from kernelforge.loader.driver import find_device
    from kernelforge.loader.measured_profile import measured_profile

    chosen = name or _profile_name(find_device(ordinal).name)
    profile = measured_profile(ordinal, name=chosen, date=datetime.date.today().isoformat())
    if as_json:
        print_json(profile.to_json())
        return 0
    click.echo(profile_yaml(profile), nl=False)
    say(f"save it as specs/devices/{chosen}.yaml, or in a folder devices beside your manifest")
    return 0


def _profile_name(driver_name: str) -> str:
    """``NVIDIA H200`` -> ``h200``."""
    name = re.sub(r"[^a-z0-9._-]+", "-", driver_name.lower().removeprefix("nvidia ")).strip("-._")
    if not name:
        raise UsageError(f"the driver calls the card {driver_name!r}", hint="name its profile with --name")
    return name
