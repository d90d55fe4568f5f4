"""The key digest: a sha256 over everything that decides an object's bytes, and nothing else.

The preimage is kept with every object, so that a later miss can be explained. Not in it: paths, host names, times, the
environment, Python's version, device profiles (their facts arrive as fields of the compile key), and ``dispatch`` and
launch code (the lockfile has their fingerprint).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernelforge.contract import ABI, CONTRACT_VERSION
from kernelforge.digest import Digest
from kernelforge.encoding import encode, fields_json, labelled
from kernelforge.errors import InputError
from kernelforge.fingerprint import Fingerprint
from kernelforge.keys.toolchain import Toolchain
from kernelforge.target import Target

# Raise it when the digested bytes change for an unchanged kernel, and when the builder compiles differently (options
# of its own, appended arguments). Golden vectors in tests/keys fail when that is forgotten.
KEY_SCHEMA_VERSION = 2

_Json = Mapping[str, Any]


@dataclass(frozen=True)
class KeyPreimage:
    """All inputs of one key digest, frozen when it was made: what happens to the compile key later changes nothing.

    ``compile_key`` is the JSON form of its fields, for people; ``compile_key_digest`` is over its canonical bytes.
    """

    kernel: str
    compile_key: Mapping[str, Any]
    compile_key_digest: Digest
    target: Target
    source: Digest
    source_parts: Mapping[str, Digest]
    compile_options: str
    toolchain: Toolchain
    abi: str = ABI
    contract: int = CONTRACT_VERSION
    schema: int = KEY_SCHEMA_VERSION

    @classmethod
    def of(
        cls,
        *,
        kernel: str,
        compile_key: object,
        target: Target,
        source: Fingerprint,
        compile_options: str,
        toolchain: Toolchain,
    ) -> KeyPreimage:
        """Preimage of one compile key; ``EncodingError`` names a field that has no stable encoding."""
        where = f"{kernel}.CompileKey"
        return cls(
            kernel=kernel,
            compile_key=fields_json(compile_key, where=where),
            compile_key_digest=Digest.of(encode(compile_key, where=where)),
            target=target,
            source=source.digest,
            source_parts=source.parts,
            compile_options=compile_options,
            toolchain=toolchain,
        )

    def digest(self) -> Digest:
        """The key digest. JSON forms and source parts are left out: their digests are in it."""
        fields = {
            "schema": self.schema,
            "kernel": self.kernel,
            "compile key": self.compile_key_digest.hex,
            "target": str(self.target),
            "source": self.source.hex,
            "compile options": self.compile_options,
            "toolchain": self.toolchain.to_json(),
            "abi": self.abi,
            "contract": self.contract,
        }
        return Digest.of(labelled(fields, where=self.kernel))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, complete: ``from_json`` gives an equal preimage, and so the same digest."""
        return {
            "schema": self.schema,
            "kernel": self.kernel,
            "compile_key": dict(self.compile_key),
            "compile_key_digest": str(self.compile_key_digest),
            "target": str(self.target),
            "source": {
                "digest": str(self.source),
                "parts": {name: str(digest) for name, digest in self.source_parts.items()},
            },
            "compile_options": self.compile_options,
            "toolchain": self.toolchain.to_json(),
            "abi": self.abi,
            "contract": self.contract,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KeyPreimage:
        """Inverse of ``to_json``; raises ``InputError`` for anything else."""
        try:
            return cls(
                kernel=data["kernel"],
                compile_key=data["compile_key"],
                compile_key_digest=Digest.parse(data["compile_key_digest"]),
                target=Target.parse(data["target"]),
                source=Digest.parse(data["source"]["digest"]),
                source_parts={name: Digest.parse(text) for name, text in data["source"]["parts"].items()},
                compile_options=data["compile_options"],
                toolchain=Toolchain.from_json(data["toolchain"]),
                abi=data["abi"],
                contract=data["contract"],
                schema=data["schema"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"not a key preimage: {error!r}", hint="use what KeyPreimage.to_json returned") from error


def differences(old: _Json, new: _Json) -> list[str]:
    """Why two preimages (their JSON forms) have different digests, for people, the most specific reason first.

    Labels that only one of them has are passed over: an older record may know less. Empty if nothing differs.
    """
    return [
        *_source_differences(old, new),
        *_compile_key_differences(old, new),
        *_difference(old, new, "compile_options", "compile options", json.dumps),
        *_difference(old, new, "target", "target", str),
        *_toolchain_differences(old, new),
        *(
            reason
            for label in ("kernel", "abi", "contract", "schema")
            for reason in _difference(old, new, label, label, str)
        ),
    ]


def _source_differences(old: _Json, new: _Json) -> list[str]:
    if "source" not in old or "source" not in new or old["source"]["digest"] == new["source"]["digest"]:
        return []
    before, after = old["source"]["parts"], new["source"]["parts"]
    changed = [f"source {name} changed" for name in after if before.get(name, after[name]) != after[name]]
    added = [f"source {name} added" for name in after if name not in before]
    removed = [f"source {name} removed" for name in before if name not in after]
    return [*changed, *added, *removed] or ["the way in which sources are fingerprinted changed"]


def _compile_key_differences(old: _Json, new: _Json) -> list[str]:
    before, after = old.get("compile_key", {}), new.get("compile_key", {})
    fields = [
        # As JSON, in which 1, 1.0, true and "1" look different.
        f"compile key field {name} {_shown(before, name, json.dumps)} -> {_shown(after, name, json.dumps)}"
        for name in sorted({*before, *after})
        if _shown(before, name, json.dumps) != _shown(after, name, json.dumps)
    ]
    if not fields and any(_difference(old, new, "compile_key_digest", "", str)):
        return ["the class of the compile key changed, its fields did not"]
    return fields


def _toolchain_differences(old: _Json, new: _Json) -> Iterator[str]:
    before, after = old.get("toolchain", {}), new.get("toolchain", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield f"toolchain {name} {_shown(before, name, str)} -> {_shown(after, name, str)}"


def _difference(old: _Json, new: _Json, name: str, label: str, show: Callable[[Any], str]) -> list[str]:
    if name not in old or name not in new or old[name] == new[name]:
        return []
    return [f"{label} {show(old[name])} -> {show(new[name])}"]


def _shown(values: _Json, name: str, show: Callable[[Any], str]) -> str:
    return show(values[name]) if name in values else "(absent)"
