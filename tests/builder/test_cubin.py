"""What a device image says of itself, against images from the real compiler for several targets."""

from __future__ import annotations

import contextlib
import io

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelforge.builder.cubin import CubinFacts, read_cubin
from kernelforge.builder.job import CUBIN_FILE
from kernelforge.contract import Choices
from kernelforge.device import DeviceProfile, Fact
from kernelforge.errors import ToolchainError
from kernelforge.request import KernelRequest
from kernelforge.target import CUDA_FLAVOURS
from tests.builder.compiling import compile_all, requests_of
from tests.cli.device_image import device_image

ARCHITECTURES = ("sm_90a", "sm_100a", "sm_100f")
STUBBORN = KernelRequest("tests.builder.stubborn_kernel:Stubborn", {"width": Choices((32,))})


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], bytes]:
    """Images of one kernel by (class, flavour, architecture that was asked for)."""
    found = {}
    profiles = [DeviceProfile(arch, arch, {"num_sms": Fact(1, "made up for a test")}) for arch in ARCHITECTURES]
    for cuda in CUDA_FLAVOURS:
        results = compile_all([*requests_of("Copy"), STUBBORN], profiles, tmp_path_factory.mktemp(cuda), cuda=cuda)
        for (name, arch), one in results.items():
            assert one.failure is None, one.failure
            found[name, cuda, arch] = (one.folder / CUBIN_FILE).read_bytes()
    return found


def header_of(image: bytes) -> int:
    return int(ELFFile(io.BytesIO(image)).header["e_flags"])


@pytest.mark.slow
def test_the_architecture_is_the_one_asked_for(images: dict[tuple[str, str, str], bytes]) -> None:
    """Cases C1 and C3: from both flavours, suffix included, and whatever the kernel's own options say."""
    assert {asked: read_cubin(image).arch for asked, image in images.items()} == {asked: asked[2] for asked in images}


@pytest.mark.slow
def test_a_family_target_is_told_apart_where_the_header_does_not(images: dict[tuple[str, str, str], bytes]) -> None:
    """Case C3: sm_100a and sm_100f have equal headers, so an architecture must never be inferred from them."""
    exact, family = images["Copy", "cu13", "sm_100a"], images["Copy", "cu13", "sm_100f"]
    assert header_of(exact) == header_of(family)
    assert (read_cubin(exact).arch, read_cubin(family).arch) == ("sm_100a", "sm_100f")


@pytest.mark.slow
@pytest.mark.parametrize(("cuda", "major"), [("cu13", "13"), ("cu12", "12")])
def test_each_flavours_own_ptxas_made_it(images: dict[tuple[str, str, str], bytes], cuda: str, major: str) -> None:
    """With both installed the compiler takes the newest; the image tells."""
    versions = {read_cubin(image).ptxas for (_, flavour, _), image in images.items() if flavour == cuda}
    assert {version.partition(".")[0] for version in versions} == {major}


@pytest.mark.slow
def test_numbers_are_those_of_a_small_copy(images: dict[tuple[str, str, str], bytes]) -> None:
    for image in images.values():
        facts = read_cubin(image)
        assert 0 < facts.registers <= 32
        assert (facts.spill_bytes, facts.static_shared_memory_bytes) == (0, 0)
        assert facts.code_bytes % 128 == 0
        assert facts.code_bytes > 0


@pytest.mark.slow
def test_a_kernels_own_options_are_heeded(images: dict[tuple[str, str, str], bytes]) -> None:
    """They are in the key: an option that the compiler never saw would make two keys of one object."""
    assert images["Stubborn", "cu13", "sm_90a"] != images["Copy", "cu13", "sm_90a"]
    assert b"-O 1 -arch sm_90a" in images["Stubborn", "cu13", "sm_90a"]


def test_facts_of_an_image_made_by_hand() -> None:
    image = device_image("sm_100a", registers=40, spill_bytes=16, code=bytes(256))
    assert read_cubin(image) == CubinFacts("sm_100a", "13.1.0", 40, 16, 0, 256)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (device_image("sm_90a").replace(b"-arch", b"-ARCH"), "its tool note names no architecture"),
        (device_image("sm_90a").replace(b".note.nv.tkinfo", b".note.nv.absent"), "no architecture in its ELF flags"),
    ],
)
def test_an_image_that_does_not_say_what_made_it_is_refused(image: bytes, why: str) -> None:
    """Guessing here would undo the check that the right architecture was compiled."""
    with pytest.raises(ToolchainError, match=why):
        read_cubin(image)


IMAGE = device_image("sm_90a")


@settings(deadline=None, max_examples=300)
@given(st.integers(0, len(IMAGE)), st.dictionaries(st.integers(0, len(IMAGE) - 1), st.integers(0, 255), max_size=4))
def test_a_damaged_image_is_an_error_of_ours(size: int, changes: dict[int, int]) -> None:
    """Case D2: a compiler that was killed leaves half a file; whatever is in it, only `ToolchainError` comes out."""
    damaged = bytearray(IMAGE)
    for offset, value in changes.items():
        damaged[offset] = value
    with contextlib.suppress(ToolchainError):
        read_cubin(bytes(damaged[:size]))
    with contextlib.suppress(ToolchainError):
        read_cubin(bytes(damaged))
