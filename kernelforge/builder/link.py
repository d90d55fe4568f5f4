"""Objects -> one shared library that loads with no compiler: the pack.

The linker decides bytes, so it is pinned (LLD from the ``ziglang`` wheel), driven without a compiler driver around it,
and named in the recipe together with everything else that enters: ordered objects, NVIDIA's static runtime, our C code.
Nothing of this machine gets in: the libraries that the pod provides are linked as stubs made here, by name only.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from kernelforge.builder.host_object import ENTRY_PREFIX, library_symbols
from kernelforge.builder.preload_code import PRELOAD_CODE, PRELOAD_ENTRY, preload_source, preload_symbol
from kernelforge.digest import Digest
from kernelforge.encoding import labelled
from kernelforge.errors import ToolchainError
from kernelforge.target import Target

LINK_RECIPE_VERSION = 2
_RUNTIME = "libcuda_dialect_runtime_static.a"
_SHIM = Path(__file__).with_name("runtime_shim.c")
# Debug information is stripped: it holds nothing but the paths of the machine that linked.
_FLAGS = ("-shared", "--gc-sections", "--strip-debug", "--build-id=none", "-z", "now", "-z", "noexecstack")


@dataclass(frozen=True)
class Linked:
    """A pack's bytes and what the process that loads it must provide."""

    library: bytes
    needed: tuple[str, ...]
    undefined: tuple[str, ...]


@dataclass(frozen=True)
class Linker:
    """The linker and the runtime that it links in; equal linkers make equal bytes from equal objects."""

    target: Target
    identity: str
    runtime: Path

    def recipe(self, objects: Sequence[tuple[str, Digest]]) -> Digest:
        """Digest of everything that decides the pack's bytes; ``objects`` are (symbol, content digest)."""
        parts = {
            "version": LINK_RECIPE_VERSION,
            "linker": self.identity,
            "flags": _FLAGS,
            "target": str(self.target),
            "runtime": str(Digest.of(self.runtime.read_bytes())),
            "shim": str(Digest.of(_SHIM.read_bytes())),
            "preload": str(Digest.of(PRELOAD_CODE.read_bytes())),
            "objects": tuple((symbol, str(digest)) for symbol, digest in _ordered(objects)),
        }
        return Digest.of(labelled(parts, where="link recipe"))

    def link(self, objects: Sequence[tuple[str, bytes]], folder: Path) -> Linked:
        """Link objects, given as (symbol, bytes), inside ``folder``; ``ToolchainError`` carries the linker's words."""
        inputs = [*self._own_code([symbol for symbol, _ in objects], folder), str(self.runtime)]
        for symbol, data in objects:
            (folder / f"{symbol}.o").write_bytes(data)
        inputs = [str(folder / f"{symbol}.o") for symbol, _ in _ordered(objects)] + inputs
        exports = self._export_list([symbol for symbol, _ in objects], folder)
        output = folder / "pack.so"
        self._lld([*_FLAGS, exports, "-o", str(output), *inputs])
        undefined = library_symbols(output.read_bytes()).undefined
        stubs = self._stubs(undefined, folder)
        self._lld([*_FLAGS, exports, "-o", str(output), *inputs, *stubs.values()])
        library = output.read_bytes()
        missing = {PRELOAD_ENTRY, *(symbol for symbol, _ in objects)} - library_symbols(library).entries
        # A shared library may be linked with symbols that nobody has.
        missing |= {preload_symbol(symbol) for symbol, _ in objects} & undefined
        if missing:
            raise ToolchainError(f"the pack lacks {sorted(missing)}", hint="run kernelforge doctor, and report this")
        return Linked(library, needed=tuple(stubs), undefined=tuple(sorted(undefined)))

    def _own_code(self, symbols: Sequence[str], folder: Path) -> list[str]:
        """Compiled inside ``folder``: what NVIDIA's runtime lacks, and the callable that preloads these kernels."""
        preload = folder / "preload.c"
        preload.write_text(preload_source(symbols))
        compiled = []
        for source in (_SHIM, preload):
            output = str(folder / f"{source.stem}.o")
            self._cc(["-c", "-O2", "-fPIC", "-ffreestanding", str(source), "-o", output], folder)
            compiled.append(output)
        return compiled

    def _export_list(self, symbols: Sequence[str], folder: Path) -> str:
        """Only entries are visible: a pack must not offer the runtime's symbols to other packs of the process."""
        names = "".join(f"{ENTRY_PREFIX}{symbol};" for symbol in sorted([*symbols, PRELOAD_ENTRY]))
        script = folder / "exports.map"
        script.write_text(f"{{ global: {names} local: *; }};\n")
        return f"--version-script={script}"

    def _stubs(self, undefined: frozenset[str], folder: Path) -> dict[str, str]:
        """Name of a library the pod provides -> a stub of it with just the symbols that the pack needs."""
        owners = {"libtvm_ffi.so": "TVMFFI", _cuda_runtime(self.target): "cuda"}
        stubs = {}
        for library, prefix in sorted(owners.items()):
            names = sorted(name for name in undefined if name.startswith(prefix))
            if names:
                stubs[library] = self._stub(library, names, folder)
        return stubs

    def _stub(self, library: str, names: Sequence[str], folder: Path) -> str:
        source, compiled, stub = (folder / f"{library}.stub{suffix}" for suffix in (".S", ".o", ""))
        lines = [f".globl {name}\n.type {name}, @function\n{name}:\n" for name in names]
        source.write_text(".text\n" + "".join(lines) + '.section .note.GNU-stack,"",@progbits\n')
        self._cc(["-c", str(source), "-o", str(compiled)], folder)
        self._lld(["-shared", f"--soname={library}", "--build-id=none", "-o", str(stub), str(compiled)])
        return str(stub)

    def _cc(self, arguments: Sequence[str], folder: Path) -> None:
        triple = self.target.host
        _run(
            ["cc", f"--target={triple}", *arguments],
            {"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)},
        )

    def _lld(self, arguments: Sequence[str]) -> None:
        _run(["ld.lld", *arguments], {})


def cuda_stub(folder: Path, target: Target) -> Path:
    """Where a link in ``folder`` leaves a library with the CUDA runtime's names that the pack needs, and no code."""
    return folder / f"{_cuda_runtime(target)}.stub"


def find_linker(target: Target) -> Linker:
    """The pinned linker and the compiler's static runtime; ``ToolchainError`` says which of them is missing."""
    try:
        identity = f"ziglang {metadata.version('ziglang')} ld.lld"
    except metadata.PackageNotFoundError as error:
        raise ToolchainError("the linker is not installed", hint="pip install 'kernelforge[build]'") from error
    return Linker(target=target, identity=identity, runtime=_runtime_archive(target))


def _cuda_runtime(target: Target) -> str:
    return f"libcudart.so.{target.cuda.removeprefix('cu')}"


def _runtime_archive(target: Target) -> Path:
    spec = util.find_spec("nvidia_cutlass_dsl")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        archive = Path(place, target.cuda, "lib", _RUNTIME)
        if archive.exists():
            return archive
    raise ToolchainError(f"{_RUNTIME} for {target.cuda} is not installed", hint="pip install 'kernelforge[build]'")


def _ordered(objects: Sequence[tuple[str, object]]) -> list[tuple[str, object]]:
    return sorted(objects, key=lambda pair: pair[0])


def _run(arguments: Sequence[str], environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "ziglang", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise ToolchainError(
            f"{arguments[0]} failed with {done.returncode}: {' | '.join(words[:5])}", hint="run kernelforge doctor"
        )
