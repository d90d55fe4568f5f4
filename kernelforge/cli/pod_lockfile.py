"""Which lockfile a command that runs in pods is about, and why it may be believed there.

A path, a bundle, ``sha256:...`` or a channel; a pin, trusted keys, both, or the user's word for a file. The rules are
the loader's own: this only reads options.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kernelforge.digest import Digest
from kernelforge.errors import UsageError
from kernelforge.loader.cache import PackCache
from kernelforge.loader.options import Options
from kernelforge.loader.serials import SerialMemory
from kernelforge.loader.source import Bundle, Channel, FromStore, LockSource
from kernelforge.loader.trust import LocalFile, PinnedDigest, Trust, TrustedBytes, TrustedKeys, read_trusted
from kernelforge.store.interface import ReadStore

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_ZIP_START = b"PK\x03\x04"

pod_lockfile_argument: Decorator = click.argument("lockfile", required=False)

channel_option: Decorator = click.option(
    "--channel",
    metavar="DEPLOYMENT/CHANNEL",
    default=None,
    help="The lockfile that this channel of the store points at, instead of LOCKFILE. It has to be signed: --key.",
)

trusted_keys_option: Decorator = click.option(
    "--trusted-key",
    "--key",
    "key_files",
    metavar="PUB",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    envvar="KERNELFORGE_TRUSTED_KEYS",
    help="Trust what this public key (.pub) has signed; may be given several times.  [default: the files in "
    "KERNELFORGE_TRUSTED_KEYS, separated like the folders of PATH]",
)

minimum_serial_option: Decorator = click.option(
    "--minimum-serial",
    type=click.IntRange(min=0),
    default=0,
    help="Refuse the channel at an older serial than this one.",
)


@dataclass(frozen=True)
class WantedLockfile:
    """What the options say. ``source`` is where the bytes are, ``keys`` and ``pin`` are what they are held against."""

    source: LockSource
    keys: TrustedKeys | None
    pin: Digest | None

    @classmethod
    def of(
        cls,
        lockfile: str | None,
        channel: str | None,
        key_files: tuple[Path, ...],
        pin: str | None,
        minimum_serial: int = 0,
    ) -> WantedLockfile:
        """From options; ``UsageError`` for such as contradict each other."""
        source = _source(lockfile, channel)
        if isinstance(source, Channel) and not key_files:
            hint = "give --key PUB, or name one lockfile by its digest: sha256:..."
            raise UsageError("a channel has to be signed, and no key is trusted", hint=hint, where="--channel")
        if minimum_serial and not isinstance(source, Channel):
            hint = "leave it out, or give --channel"
            raise UsageError("only channels have serials", hint=hint, where="--minimum-serial")
        keys = TrustedKeys(key_files, minimum_serial=minimum_serial) if key_files else None
        return cls(source, keys, None if pin is None else Digest.parse(pin))

    @property
    def needs_store(self) -> bool:
        """Whether the lockfile itself is in the store."""
        return isinstance(self.source, FromStore | Channel)

    @property
    def is_vouched_for(self) -> bool:
        """Whether anything but the file's own place speaks for it."""
        return self.keys is not None or self.pin is not None or self.needs_store

    def __str__(self) -> str:
        if isinstance(self.source, FromStore):
            return str(self.source.digest)
        return str(self.source.path if isinstance(self.source, Bundle) else self.source)

    def read(self, store: Callable[[], ReadStore], cache_folder: Path | None, *, is_read_only: bool) -> TrustedBytes:
        """The bytes, held against the keys if any are trusted, not yet against the pin; raises as ``read_trusted``."""
        folder = Options.from_environment(os.environ, cache=cache_folder).cache_folder
        serials = SerialMemory(None if folder is None else PackCache(folder), is_read_only=is_read_only)
        trust: Trust = LocalFile()
        if self.keys is not None:
            trust = self.keys
        elif isinstance(self.source, FromStore):
            trust = PinnedDigest(self.source.digest)
        return read_trusted(self.source, trust, store=store, serials=serials)


def check_vouched_for(wanted: WantedLockfile, trust_file: bool) -> None:
    """``UsageError`` unless a key, a pin or the user speaks for the lockfile, and not the user beside the others."""
    if trust_file and wanted.is_vouched_for:
        raise UsageError(
            "--trust-file says to trust a file as it is, and something stronger is given too",
            hint="leave out --trust-file; a pin and trusted keys both have to hold",
        )
    if not trust_file and not wanted.is_vouched_for:
        raise UsageError(
            "nothing vouches for this lockfile, and it decides which native code pods run",
            hint="give --key PUB for a signed one, --pin sha256:... ('kernelforge verify' prints it), or --trust-file "
            "if you vouch for the file",
        )


def _source(lockfile: str | None, channel: str | None) -> LockSource:
    if (lockfile is None) == (channel is None):
        raise UsageError("give either LOCKFILE or --channel", hint="see --help", where="LOCKFILE")
    if channel is not None:
        deployment, separator, name = channel.partition("/")
        if not separator or "/" in name:
            raise UsageError(f"{channel!r} names no channel", hint="as in --channel qwen3-8b/prod", where="--channel")
        return Channel(deployment, name)
    assert lockfile is not None
    if lockfile.startswith("sha256:"):
        return FromStore(lockfile)
    return Bundle(lockfile) if _is_bundle(lockfile) else Path(lockfile)


def _is_bundle(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_ZIP_START)) == _ZIP_START
    except OSError:  # whoever reads it as a lockfile says what is wrong with it
        return False
