"""Where commands that sign get the private key from, and where new ones go. Its text is shown nowhere, in no error."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from kernelforge.errors import UsageError
from kernelforge.release.keys import PEM_LIMIT_BYTES, SigningKey

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

VARIABLE = "KERNELFORGE_SIGNING_KEY"
_PEM_START = "-----BEGIN"

# Read from the variable by hand: click would show its value, which may be the key itself, in its own errors.
signing_key_option: Decorator = click.option(
    "--key",
    "key_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    default=None,
    allow_from_autoenv=False,
    help=f"The private key: PEM, in a file that only its owner reads.  [default: {VARIABLE}: a file's path, or the PEM "
    "text itself]",
)


def read_signing_key(key_file: Path | None, environ: Mapping[str, str]) -> SigningKey:
    """The key in ``key_file``, else the one that the variable has or names; ``UsageError`` if there is none."""
    if key_file is not None:
        if _PEM_START in str(key_file):
            hint = f"give a file, or put the text into {VARIABLE}; and make a new key, this one has been seen"
            raise UsageError("a private key does not belong on a command line", hint=hint, where="--key")
        return SigningKey.from_pem(_read(key_file, where=str(key_file)), where=str(key_file))
    value = environ.get(VARIABLE, "")
    if not value:
        hint = f"give --key FILE or set {VARIABLE}; 'kernelforge sign --new-key FILE' makes one"
        raise UsageError("no key to sign with", hint=hint)
    if _PEM_START in value:
        return SigningKey.from_pem(value.encode(), where=VARIABLE)
    # Perhaps a key after all, in another form: so the value is in no message.
    return SigningKey.from_pem(_read(Path(value), where=VARIABLE), where=VARIABLE)


def write_new_key(path: Path) -> SigningKey:
    """Make a key: the private half at ``path``, readable by its owner alone, the public one beside it as ``.pub``.

    ``UsageError`` if either is there already; nothing is ever written over.
    """
    public_path = path.with_name(f"{path.name}.pub")
    key = SigningKey.new()
    _create(path, key.to_pem(), mode=0o600)
    try:
        _create(public_path, key.public.to_pem(), mode=0o644)
    except BaseException:
        path.unlink()
        raise
    return key


def _create(path: Path, data: bytes, *, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    except FileExistsError as error:
        hint = "name another file; a key that is in use must not be lost"
        raise UsageError("there is a file already", hint=hint, where=str(path)) from error
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path, *, where: str) -> bytes:
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            # The group may read, which is how secrets are mounted into pods; others may not, and nobody else writes.
            if mode & (stat.S_IRWXO | stat.S_IWGRP):
                problem = f"its mode {mode:o} lets other users of this machine have the private key"
                raise UsageError(problem, hint="chmod 600, and make a new key if others have been here", where=where)
            return file.read(PEM_LIMIT_BYTES)
    except OSError as error:
        hint = f"check --key and {VARIABLE}"
        raise UsageError(f"the private key cannot be read: {error.strerror}", hint=hint, where=where) from None
