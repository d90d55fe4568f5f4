"""What a serving process holds: look-ups, bindings and refusals."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import CallRefused, KernelMissing, LaunchCodeDiffers, UsageError
from kernelforge.fingerprint import launch_fingerprint
from kernelforge.loader.trust import PinnedDigest
from tests.loader.conftest import Release
from tests.loader.fake_release import KEYS
from tests.loader.scale import Other, Scale

SCALE = "tests.loader.scale:Scale"


def test_the_same_key_gives_the_same_callable(release: Release) -> None:
    kernels = release.load()
    assert kernels[KEYS[0]] is kernels[Scale.CompileKey(head_dim=64)]


def test_a_key_that_only_looks_equal_is_missing(release: Release) -> None:
    """1 == True == 1.0: a memo over the dataclass would hand out the other kernel once that had been asked for."""
    kernels = release.load()
    kernels[KEYS[0]](1)
    for look_alike in (
        Scale.CompileKey(head_dim=64.0),  # type: ignore[arg-type]
        Scale.CompileKey(head_dim=64, has_offset=0),  # type: ignore[arg-type]
        Scale.CompileKey(head_dim=64, eps=0),
        Scale.CompileKey(head_dim=64, eps=-0.0),
    ):
        assert look_alike == KEYS[0]
        with pytest.raises(KernelMissing):
            kernels[look_alike]


def test_a_missing_key_names_the_nearest_and_the_field(release: Release) -> None:
    with pytest.raises(KernelMissing, match=r"(?s)head_dim=96.*near: head_dim is 64 \(asked for 96\)"):
        release.load()[Scale.CompileKey(head_dim=96)]


def test_a_key_of_a_kernel_that_the_lockfile_lacks_says_what_it_has(release: Release) -> None:
    with pytest.raises(KernelMissing, match=f"no kernel tests.loader.scale:Other; it has {SCALE}"):
        release.load()[Other.CompileKey(head_dim=64)]


def test_a_class_with_other_launch_code_is_refused_with_both_fingerprints(release: Release) -> None:
    built = Digest.of(b"the launch code of last week")
    kernel = replace(release.lock.kernels[SCALE], launch_fingerprint=built)
    kernels = release.load(replace(release.lock, kernels={SCALE: kernel}))
    with pytest.raises(LaunchCodeDiffers, match=str(built)) as refusal:
        Scale(kernels)
    assert str(launch_fingerprint(SCALE).digest) in str(refusal.value)
    assert "build again" in str(refusal.value)


def test_a_class_that_the_lockfile_lacks_cannot_be_bound(release: Release) -> None:
    with pytest.raises(KernelMissing, match=f"it has {SCALE}"):
        Other(release.load())


def test_a_refused_class_is_refused_again(release: Release) -> None:
    """The memo of checked classes must not learn from a failure."""
    kernel = replace(release.lock.kernels[SCALE], launch_fingerprint=Digest.of(b"other"))
    kernels = release.load(replace(release.lock, kernels={SCALE: kernel}))
    for _ in range(2):
        with pytest.raises(LaunchCodeDiffers):
            kernels.bind(Scale)


def test_arguments_that_the_object_refuses_are_a_refused_call(release: Release) -> None:
    kernel = release.load()[KEYS[1]]
    with pytest.raises(CallRefused, match=r"Expects 1 integer; nothing was launched.*head_dim=128") as refusal:
        kernel(1, 2)
    assert isinstance(refusal.value.__cause__, TypeError)
    with pytest.raises(CallRefused):
        kernel("one")


def test_errors_of_the_launch_itself_are_not_called_a_refusal(release: Release) -> None:
    """A lost device is no wrong argument; whoever retries or restarts must see the difference."""
    with pytest.raises(RuntimeError, match="device lost"):
        release.load()[KEYS[0]](-1)


def test_required_keys_must_belong_to_the_kernel_they_are_listed_under(release: Release) -> None:
    with pytest.raises(UsageError, match=r"tests\.loader\.scale:Other"):
        release.load().require({Scale: [Other.CompileKey(head_dim=64)]})


def test_requirements_tell_look_alikes_apart(release: Release) -> None:
    with pytest.raises(KernelMissing, match="has_offset=0"):
        release.load().require({Scale: [Scale.CompileKey(head_dim=64, has_offset=0)]})  # type: ignore[arg-type]


def test_threads_that_ask_first_all_get_the_right_kernel(release: Release) -> None:
    kernels = release.load()
    barrier = threading.Barrier(8)
    results: list[list[int]] = []

    def ask() -> None:
        barrier.wait()
        results.append([kernels[key](1) for key in KEYS])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[1, 2, 3]] * 8


def test_a_second_load_is_independent_of_the_first(release: Release) -> None:
    first = release.load()
    fewer = replace(release.lock, entries=release.lock.entries[:1])
    second = release.load(fewer)
    assert (len(first), len(second)) == (3, 1)


def test_launch_code_is_read_once_however_often_it_is_bound(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight models in one process are eight kernel sets with the same classes: 15 ms each, for the same answer."""
    Scale(release.load())
    monkeypatch.setattr("kernelforge.fingerprint.launch_fingerprint", None)
    Scale(release.load())


def test_a_kernel_class_launches_what_dispatch_says_every_time(release: Release) -> None:
    """What is remembered of the last call must not leak into the next one."""
    scale = Scale(release.load())
    for _ in range(2):
        assert [scale(head_dim=head_dim, number=10) for head_dim in (64, 128)] == [10, 20]


def test_a_look_up_neither_reads_the_entries_nor_needs_them(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    data = release.lock.to_bytes()
    kernels = release.load(trust=PinnedDigest(Digest.of(data)))
    monkeypatch.setattr("kernelforge.lockfile.Lockfile.parse", None)
    assert [kernels[key](10) for key in KEYS] == [10, 20, 30]
    assert (len(kernels), kernels.stats().kernels, kernels.stats().kernel_classes) == (3, 3, 1)


def test_a_pinned_lockfile_names_the_nearest_keys_too(release: Release) -> None:
    kernels = release.load(trust=PinnedDigest(release.lock.digest))
    with pytest.raises(KernelMissing, match=r"(?s)head_dim=96.*near: head_dim is 64 \(asked for 96\)"):
        kernels[Scale.CompileKey(head_dim=96)]
    assert {"head_dim": 128, "dtype": "bfloat16", "has_offset": False, "eps": 1e-6} in [key for _, key in kernels]
