"""A lockfile decides which native code a pod runs: one spelling per release, and nothing else passes for one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile
from kernelforge.digest import Digest
from kernelforge.errors import LockfileError
from kernelforge.lockfile import SIZE_LIMIT_BYTES, Lockfile
from tests.small_release import BLACKWELL, HOPPER, LOCK, OTHER, pack


def document() -> Any:
    return json.loads(LOCK.to_bytes())


def parse(changed: Any) -> Lockfile:
    return Lockfile.parse(json.dumps(changed).encode(), where="x.lock.json")


def words(value: Any) -> str:
    """The problem is what a case is called."""
    return value if isinstance(value, str) else ""


def test_round_trip() -> None:
    assert Lockfile.parse(LOCK.to_bytes()) == LOCK
    assert Lockfile.parse(LOCK.to_bytes()).to_bytes() == LOCK.to_bytes()


def test_bytes_are_for_review() -> None:
    """A line each, a final newline, and no bytes but ASCII: a diff in git shows what changed."""
    data = LOCK.to_bytes()
    assert data.endswith(b"}\n")
    assert data.isascii()
    assert b'\n   "symbol": "kf_K_1",\n' in data


def turned(value: Any) -> Any:
    """The same value with every mapping and list in the other order."""
    if isinstance(value, dict):
        return {name: turned(item) for name, item in reversed(value.items())}
    return [turned(item) for item in reversed(value)] if isinstance(value, list) else value


def test_no_order_reaches_the_bytes() -> None:
    """Case B3: the order of a manifest, of workers and of dictionaries left git unclean."""
    other_order = parse(turned(document()))
    assert other_order.entries != LOCK.entries
    assert other_order.to_bytes() == LOCK.to_bytes()
    assert other_order.digest == LOCK.digest


def with_entry(**changes: Any) -> Lockfile:
    return replace(LOCK, entries=(*LOCK.entries[:2], replace(LOCK.entries[2], **changes)))


def with_pack(**changes: Any) -> Lockfile:
    return replace(LOCK, packs={**LOCK.packs, "h200": replace(LOCK.packs["h200"], **changes)})


def with_kernel(**changes: Any) -> Lockfile:
    return replace(LOCK, kernels={"m:K": replace(LOCK.kernels["m:K"], **changes)})


CHANGED = {
    "name": replace(LOCK, name="other"),
    "abi": replace(LOCK, abi="other"),
    "contract": replace(LOCK, contract=2),
    "toolchains": replace(LOCK, toolchains={"cu13": {**LOCK.toolchains["cu13"], "nvidia-cutlass-dsl": "4.8.0"}}),
    "devices": replace(LOCK, devices={**LOCK.devices, "h200": DeviceProfile("h200", "sm_90a", {})}),
    "entries": replace(LOCK, entries=LOCK.entries[:2]),
    "launch_fingerprint": with_kernel(launch_fingerprint=OTHER),
    "source_fingerprint": with_kernel(source_fingerprint=OTHER),
    "sources": with_kernel(sources={}),
    "compile_options": with_kernel(compile_options=""),
    "compile_key": with_entry(compile_key={"eps": 1e-6, "tile": 8.0}),
    "compile_key_type": with_entry(compile_key={"eps": 1e-6, "tile": True}),
    "key_digest": with_entry(key_digest=OTHER),
    "symbol": with_entry(symbol="kf_K_3"),
    "object": with_entry(object=Descriptor.raw(b"other")),
    "entry_devices": with_entry(devices=("h100",)),
    "recipe": with_pack(recipe=OTHER),
    "blob": with_pack(blob=Descriptor.raw(b"other")),
    "linker": with_pack(linker="lld 2"),
    "needed": with_pack(needed=()),
    "undefined": with_pack(undefined=("a",)),
}


@pytest.mark.parametrize("changed", CHANGED.values(), ids=CHANGED)
def test_every_field_is_in_the_digest(changed: Lockfile) -> None:
    """A pod pins the digest: what it does not cover, anybody could change."""
    assert changed.digest != LOCK.digest
    assert Lockfile.parse(changed.to_bytes()) == changed


def test_entries_of_a_device() -> None:
    assert [found.symbol for found in LOCK.entries_for("h200")] == ["kf_K_1", "kf_K_2"]
    assert [found.target for found in LOCK.entries_for("b200")] == [BLACKWELL]
    assert LOCK.entries_for("l40s") == ()


def test_what_keys_share_is_joined_again() -> None:
    """A miss is explained by comparing with this: a part that is lost here is a reason that nobody sees."""
    preimage = LOCK.preimage_of(LOCK.entries[2])
    assert preimage["compile_key"] == {"eps": 1e-6, "tile": 8}
    assert preimage["target"] == "sm_90a/x86_64-linux-gnu/cu13"
    assert preimage["source"] == {"digest": str(Digest.of(b"source")), "parts": {"m:K.kernel": str(OTHER)}}
    assert preimage["toolchain"]["nvidia-cutlass-dsl"] == "4.8.1"
    assert (preimage["compile_options"], preimage["abi"], preimage["contract"]) == ("--opt-level 3", "tvm-ffi", 1)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (with_entry(kernel="m:Other"), "kf_K_2 is of an undescribed kernel m:Other"),
        (with_entry(devices=("l40s",)), "kf_K_2 is for 'l40s', which has no pack"),
        (with_entry(devices=()), "kf_K_2 is for no device"),
        (with_entry(devices=("h200", "h200")), "for one device twice: h200, h200"),
        (with_entry(devices=("b200",)), "kf_K_2 is for sm_90a/x86_64-linux-gnu/cu13, the pack of 'b200' for sm_100a"),
        (with_entry(symbol="kf_K_1"), "kf_K_1 appears twice for sm_90a"),
        (with_entry(symbol="kf_K_1", devices=("h200",)), "kf_K_1 appears twice for sm_90a"),
        (replace(LOCK, toolchains={}), "no toolchain of cu13 is described"),
        (replace(LOCK, packs={**LOCK.packs, "l40s": pack(HOPPER)}), "a pack for 'l40s', which has no profile"),
        (replace(LOCK, devices={**LOCK.devices, "h200": LOCK.devices["h100"]}), "under 'h200' is that of 'h100'"),
    ],
    ids=words,
)
def test_parts_that_contradict_each_other_are_refused(changed: Lockfile, problem: str) -> None:
    """Edited by hand or merged badly: the pod would find out at the first call."""
    with pytest.raises(LockfileError, match="not a lockfile of ours") as caught:
        Lockfile.parse(changed.to_bytes(), where="x.lock.json")
    assert problem in str(caught.value)
    assert caught.value.where == "x.lock.json"


def change(make: Callable[[Any], object]) -> bytes:
    changed = document()
    make(changed)
    return json.dumps(changed).encode()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not JSON"),
        (b"\x7fELF\x02\x01\x01", "not JSON"),
        (LOCK.to_bytes().decode().encode("utf-16"), "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"null", "None is not an object"),
        (b"{}", "its schema is None"),
        (LOCK.to_bytes().replace(b"lock/1", b"lock/2"), "its schema is 'kernelforge.lock/2', this version reads"),
        (b" " * (SIZE_LIMIT_BYTES + 1), f"at most {SIZE_LIMIT_BYTES} are read"),
        (LOCK.to_bytes().replace(b'"tile": 4', b'"tile": NaN'), "NaN is not a number"),
        (LOCK.to_bytes().replace(b'"tile": 4', b'"tile": 1e999'), "1e999 is not a number"),
        (LOCK.to_bytes().replace(b'"contract": 1', b'"contract": 1e999'), "1e999 is not a number"),
        (LOCK.to_bytes().replace(b'"tile": 4', b'"tile": 4, "tile": 8'), "a member appears twice"),
        (change(lambda lock: lock.update(contract=True)), "contract: True is not an integer"),
        (change(lambda lock: lock.update(contract="1")), "contract: '1' is not an integer"),
        (change(lambda lock: lock.update(seconds=3)), "no member seconds"),
        (change(lambda lock: lock.pop("packs")), "packs is missing"),
        (change(lambda lock: lock["entries"][1].pop("object")), "entries: [1]: object is missing"),
        (change(lambda lock: lock["entries"][1].update(target="sm_90")), "entries: [1]: target: 'sm_90' is not"),
        (change(lambda lock: lock["entries"][1].update(compile_key=[["tile", 4]])), "is not an object"),
        (change(lambda lock: lock["entries"][1].update(devices="h200")), "devices: 'h200' is not a list"),
        (change(lambda lock: lock["packs"]["h200"]["blob"].update(encoding="gzip")), "packs: h200: blob: 'gzip'"),
    ],
    ids=words,
)
def test_other_documents_are_refused(data: bytes, problem: str) -> None:
    """Whatever it is, it is a LockfileError that says where: the file comes from a disk, a registry or a human."""
    with pytest.raises(LockfileError) as caught:
        Lockfile.parse(data, where="x.lock.json")
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_truncated_lockfile_is_refused() -> None:
    data = LOCK.to_bytes()
    for size in range(0, len(data) - 2, 53):
        with pytest.raises(LockfileError):
            Lockfile.parse(data[:size])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all members of a document."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for name, item in below for found in places(item, (*path, name)))]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)


def without_order(value: Any) -> str:
    if isinstance(value, list):
        return json.dumps(sorted(map(without_order, value)))
    members = {name: without_order(item) for name, item in value.items()} if isinstance(value, dict) else value
    return json.dumps(members, sort_keys=True)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(places(document())[1:]), JSON, st.sampled_from(["replace", "remove", "add"]))
def test_no_value_anywhere_is_misunderstood(path: tuple[Any, ...], value: Any, how: str) -> None:
    """Every other value at every place is refused as a LockfileError, or is read as exactly what stands there."""
    changed = copy.deepcopy(document())
    *above, last = path
    holder = changed
    for name in above:
        holder = holder[name]
    if how == "replace":
        holder[last] = value
    elif how == "remove":
        del holder[last]
    elif isinstance(holder, dict):
        holder["added"] = value
    else:
        holder.append(value)
    try:
        lock = parse(changed)
    except LockfileError:
        return
    assert without_order(json.loads(lock.to_bytes())) == without_order(changed)
