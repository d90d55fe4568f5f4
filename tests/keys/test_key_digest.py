"""The key digest: pairs that must differ, pairs that must be equal, and what a miss is explained with."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelforge.contract import symbol_of
from kernelforge.digest import Digest
from kernelforge.errors import EncodingError, InputError
from kernelforge.fingerprint import Fingerprint, device_fingerprint
from kernelforge.keys.key_digest import KeyPreimage, differences
from kernelforge.keys.toolchain import Toolchain
from kernelforge.target import Target
from tests.keys.golden import FAMILY, KERNEL, TOOLCHAIN, preimages

REPOSITORY = Path(__file__).parents[2]


class Order(enum.Enum):
    ROW = 1
    COLUMN = 2


class OtherOrder(enum.Enum):
    ROW = 1


@dataclass(frozen=True)
class Swizzle:
    bits: int
    base: int = 4


class Family:
    @dataclass(frozen=True)
    class CompileKey:
        """Annotated with `Any`, so that any value can be tried in any field."""

        num_splits: Any = 2
        dtype: Any = "bfloat16"
        scale: Any = 0.0
        order: Any = Order.ROW
        swizzle: Any = Swizzle(3)
        shape: Any = (64, 128)


class OtherFamily:
    @dataclass(frozen=True)
    class CompileKey(Family.CompileKey):
        pass


SOURCE = Fingerprint(Digest.of(b"source"), {"m:f": Digest.of(b"f"), "m:g": Digest.of(b"g")})


def preimage(key: object = Family.CompileKey(), **changes: Any) -> KeyPreimage:
    """The baseline, with what a row varies."""
    made = KeyPreimage.of(
        kernel=changes.pop("kernel", "m:Family"),
        compile_key=key,
        target=changes.pop("target", Target("sm_90a")),
        source=changes.pop("source", SOURCE),
        compile_options=changes.pop("compile_options", ""),
        toolchain=changes.pop("toolchain", TOOLCHAIN),
    )
    return dataclasses.replace(made, **changes)


def key(**fields: Any) -> KeyPreimage:
    return preimage(Family.CompileKey(**fields))


def with_version(name: str, version: str) -> KeyPreimage:
    return preimage(toolchain=Toolchain(TOOLCHAIN.cuda, {**TOOLCHAIN.versions, name: version}))


MUST_DIFFER: dict[str, KeyPreimage] = {
    "int": key(num_splits=4),
    "int and bool": key(num_splits=True),
    "int and float": key(num_splits=2.0),
    "int and str": key(num_splits="2"),
    "int and none": key(num_splits=None),
    "int and bytes": key(num_splits=b"2"),
    "int and enum of that value": key(num_splits=Order.COLUMN),
    "str": key(dtype="float16"),
    "sign of zero": key(scale=-0.0),
    "float and int zero": key(scale=0),
    "float and false": key(scale=False),
    "float in its last digit": key(scale=math.nextafter(0.0, 1.0)),
    "infinity": key(scale=math.inf),
    "enum member": key(order=Order.COLUMN),
    "enum class": key(order=OtherOrder.ROW),
    "enum and its value": key(order=1),
    "nested field": key(swizzle=Swizzle(3, 5)),
    "nested field's type": key(swizzle=Swizzle(3, 4.0)),  # type: ignore[arg-type]
    "nested dataclass and tuple": key(swizzle=(3, 4)),
    "tuple order": key(shape=(128, 64)),
    "tuple and list": key(shape=[64, 128]),
    "tuple nesting": key(shape=((64,), 128)),
    "tuple length": key(shape=(64, 128, 1)),
    "two fields swapped": key(num_splits="bfloat16", dtype=2),
    "class of the key": preimage(OtherFamily.CompileKey()),
    "kernel": preimage(kernel="m:Other"),
    "arch": preimage(target=Target("sm_100a")),
    "arch family": preimage(target=Target("sm_100f")),
    "host": preimage(target=Target("sm_90a", host="aarch64-linux-gnu")),
    "cuda": preimage(target=Target("sm_90a", cuda="cu12")),
    "source": preimage(source=Fingerprint(Digest.of(b"other"), {})),
    "compile options": preimage(compile_options="--opt-level 2"),
    "compiler": with_version("nvidia-cutlass-dsl", "4.8.2"),
    "compiler's libraries": with_version("nvidia-cutlass-dsl-libs-cu13", "4.8.2"),
    "compiler's base": with_version("nvidia-cutlass-dsl-libs-base", "4.8.1.post1"),
    "another library": with_version("nvidia-cutlass-dsl-libs-cu12", "4.8.1"),
    "call interface": with_version("apache-tvm-ffi", "0.1.16"),
    "flavour": preimage(toolchain=Toolchain("cu12", TOOLCHAIN.versions)),
    "abi": preimage(abi="c"),
    "contract": preimage(contract=2),
    "schema": preimage(schema=3),
}


@pytest.mark.parametrize("other", MUST_DIFFER.values(), ids=MUST_DIFFER.keys())
def test_must_differ(other: KeyPreimage) -> None:
    """Cases A1 to A4: a key that lacks an input that changes bytes serves the wrong kernel."""
    assert other.digest() != preimage().digest()


def test_all_of_them_differ_from_each_other() -> None:
    """Two different changes must not meet in one digest either."""
    digests = {made.digest() for made in (preimage(), *MUST_DIFFER.values())}
    assert len(digests) == len(MUST_DIFFER) + 1


def test_every_field_is_digested() -> None:
    """A field added to the preimage and forgotten in the digest would be the fault of case A2."""
    explained_by_digests = {"compile_key", "source_parts"}
    baseline = preimage()
    for name in {f.name for f in dataclasses.fields(KeyPreimage)} - explained_by_digests:
        other = next(m for m in MUST_DIFFER.values() if getattr(m, name) != getattr(baseline, name))
        changed = dataclasses.replace(baseline, **{name: getattr(other, name)})
        assert changed.digest() != baseline.digest(), name


def test_six_values_are_six_keys() -> None:
    """Case A3: a key that kept `num_splits > 1` served the kernel for 2 splits where 4 were asked for."""
    values = (2, 4, True, 1, 1.0, "1")
    assert len({key(num_splits=value).digest() for value in values}) == 6
    assert len({symbol_of("m:Family", Family.CompileKey(num_splits=value)) for value in values}) == 6


def test_symbols_come_from_kernel_and_compile_key_alone() -> None:
    """Equal code must give equal bytes, and the symbol is in the bytes: nothing else of the preimage may be in it."""
    first = symbol_of("m:Family", Family.CompileKey())
    assert first == symbol_of("m:Family", Family.CompileKey())
    assert first != symbol_of("n:Family", Family.CompileKey())
    assert first.startswith("kf_Family_")
    assert first.isidentifier()


def test_object_without_a_stable_encoding_is_refused() -> None:
    """Case B1: the key held the repr of an option object, with its address: every process missed."""
    with pytest.raises(EncodingError) as caught:
        key(order=object())
    assert caught.value.where.endswith("CompileKey.order")


def test_order_of_toolchain_and_parts_does_not_count() -> None:
    """Case B3: the order of a dictionary must not change the key."""
    turned = Toolchain("cu13", dict(reversed(TOOLCHAIN.versions.items())))
    parts = dict(reversed(SOURCE.parts.items()))
    assert preimage(toolchain=turned, source=Fingerprint(SOURCE.digest, parts)).digest() == preimage().digest()


def test_key_is_frozen_when_it_is_made() -> None:
    """Case B9: an identity taken before and after a change of the options differed, and every load missed."""

    @dataclass(frozen=True)
    class Mutable:
        shape: list[int] = field(default_factory=lambda: [64, 128])

    value = Mutable()
    made = preimage(value)
    digest, document = made.digest(), json.dumps(made.to_json())
    value.shape.append(1)
    assert made.digest() == digest
    assert json.dumps(made.to_json()) == document


AXES = st.fixed_dictionaries(
    {
        "num_splits": st.integers() | st.booleans(),
        "dtype": st.text(),
        "scale": st.floats(allow_nan=False) | st.integers(-2, 2),
        "order": st.sampled_from(Order) | st.none(),
        "swizzle": st.builds(Swizzle, st.integers(0, 3), st.integers(0, 3)),
        "shape": st.lists(st.integers(0, 3), max_size=3).map(tuple),
    }
)


@settings(max_examples=200, deadline=None)
@given(first=AXES, other=AXES, name=st.sampled_from([f.name for f in dataclasses.fields(Family.CompileKey)]))
def test_one_parameter_is_enough(first: dict[str, Any], other: dict[str, Any], name: str) -> None:
    """Case A2: two entries that differ in one parameter shared a key, and which ran first decided what was served."""
    second = {**first, name: other[name]}
    is_same = type(first[name]) is type(second[name]) and repr(first[name]) == repr(second[name])
    one_way = [key(**first).digest(), key(**second).digest()]
    other_way = [key(**second).digest(), key(**first).digest()]
    assert (one_way[0] == one_way[1]) is is_same
    assert one_way == other_way[::-1]


def test_json_holds_everything() -> None:
    """A record must explain a later miss, and prove its own digest."""
    for made in (preimage(), *MUST_DIFFER.values()):
        document = json.loads(json.dumps(made.to_json()))
        assert KeyPreimage.from_json(document) == made
        assert KeyPreimage.from_json(document).digest() == made.digest()


@pytest.mark.parametrize("broken", [{}, {"kernel": "m:F"}, {**preimage().to_json(), "target": None}, "text"])
def test_broken_json_is_refused(broken: Any) -> None:
    """A damaged record is bad input and not a crash."""
    with pytest.raises(InputError):
        KeyPreimage.from_json(broken)


REASONS: dict[str, tuple[KeyPreimage, list[str]]] = {
    "nothing": (preimage(), []),
    "field": (key(num_splits=8), ["compile key field num_splits 2 -> 8"]),
    "field's type": (key(num_splits="2"), ['compile key field num_splits 2 -> "2"']),
    "class": (preimage(OtherFamily.CompileKey()), ["the class of the compile key changed, its fields did not"]),
    "version": (
        with_version("nvidia-cutlass-dsl", "4.9.0"),
        ["toolchain nvidia-cutlass-dsl 4.8.1 -> 4.9.0"],
    ),
    "new library": (with_version("nvidia-cutlass-dsl-libs-core", "4.8.1"),
                    ["toolchain nvidia-cutlass-dsl-libs-core (absent) -> 4.8.1"]),
    "target": (preimage(target=Target("sm_100a")),
               ["target sm_90a/x86_64-linux-gnu/cu13 -> sm_100a/x86_64-linux-gnu/cu13"]),
    "options": (preimage(compile_options="-O2"), ['compile options "" -> "-O2"']),
    "contract": (preimage(contract=2), ["contract 1 -> 2"]),
    "source": (
        preimage(source=Fingerprint(Digest.of(b"n"), {"m:f": Digest.of(b"new"), "m:h": Digest.of(b"h")})),
        ["source m:f changed", "source m:h added", "source m:g removed"],
    ),
    "source and version": (
        dataclasses.replace(with_version("apache-tvm-ffi", "0.2"), source=Digest.of(b"n"),
                            source_parts={**SOURCE.parts, "m:f": Digest.of(b"new")}),
        ["source m:f changed", "toolchain apache-tvm-ffi 0.1.15 -> 0.2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("other", "reasons"), REASONS.values(), ids=REASONS.keys())
def test_differences_are_told(other: KeyPreimage, reasons: list[str]) -> None:
    """Case H1: people compared debug dumps by hand to learn why a key missed."""
    assert differences(preimage().to_json(), other.to_json()) == reasons


def test_every_difference_in_digest_has_a_reason() -> None:
    """A miss without a reason helps nobody."""
    for name, other in MUST_DIFFER.items():
        assert differences(preimage().to_json(), other.to_json()), name


def test_older_records_may_know_less() -> None:
    """A lockfile that keeps fewer labels must not bring invented reasons."""
    old = preimage().to_json()
    for name in ("schema", "compile_key_digest", "contract"):
        del old[name]
    assert differences(old, key(num_splits=8).to_json()) == ["compile key field num_splits 2 -> 8"]


def digests_of_family() -> list[Digest]:
    return [made.digest() for _, made in preimages()]


def test_source_edit_reaches_the_key(family: Path) -> None:
    """Case A7, through the whole way: an edited helper gives new keys, an edited unrelated file does not."""
    before = digests_of_family()
    (family / FAMILY.name / "unrelated.py").write_text("class Tensor:\n    edited = True\n")
    assert digests_of_family() == before
    helper = family / FAMILY.name / "arith.py"
    helper.write_text(helper.read_text().replace("return 0", "return 1"))
    importlib.invalidate_caches()
    assert not set(digests_of_family()) & set(before)


def test_one_target_more_changes_no_key(family: Path) -> None:
    """Case H5: an object for archs {80, 90} was a miss for {90} alone."""
    assert len({made.digest() for _, made in preimages()}) == len(preimages())
    by_target: Mapping[Target, set[Digest]] = {}
    for _, made in preimages():
        by_target = {**by_target, made.target: {*by_target.get(made.target, set()), made.digest()}}
    alone = [
        dataclasses.replace(m, target=Target("sm_90a")).digest() for _, m in preimages() if m.target == Target("sm_90a")
    ]
    assert set(alone) == by_target[Target("sm_90a")]


SCRIPT = "from tests.keys.golden import preimages\nfor _, made in preimages(): print(made.digest())"


def in_a_fresh_process(folder: Path, **environment: str) -> str:
    path = os.pathsep.join((str(REPOSITORY), str(folder)))
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=environment.pop("cwd", str(folder)),
        env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_environment_does_not_count(family: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cases B3, B4: hash seed, user, home, host, working folder, checkout path and mtime made every restart compile."""
    expected = "".join(f"{digest}\n" for digest in digests_of_family())
    clone = tmp_path_factory.mktemp("another checkout")
    for file in sorted((family / FAMILY.name).glob("*.py"), reverse=True):
        copy = clone / FAMILY.name / file.name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(file.read_bytes())
        os.utime(copy, (1, 1))
    runs = {
        "hash seed 0": in_a_fresh_process(family, PYTHONHASHSEED="0"),
        "hash seed 1": in_a_fresh_process(family, PYTHONHASHSEED="1", HOME="/x", USER="x", POD_IP="10.0.0.1"),
        "clone": in_a_fresh_process(clone, PYTHONHASHSEED="2", HOME="/y", HOSTNAME="y", cwd="/", CUTE_DSL_ARCH="sm_80"),
    }
    assert all(run == expected for run in runs.values()), [name for name, run in runs.items() if run != expected]


def test_unread_device_fingerprint_is_in_the_preimage(family: Path) -> None:
    """The report names sources from the preimage's parts, so they must be the fingerprint's."""
    _, made = preimages()[0]
    assert (made.source, dict(made.source_parts)) == (
        device_fingerprint(KERNEL).digest,
        dict(device_fingerprint(KERNEL).parts),
    )
