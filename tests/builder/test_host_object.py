"""Symbols of objects: what a build checks before it publishes, and a pod before it opens."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelforge.builder.host_object import library_symbols, object_symbols
from kernelforge.errors import ToolchainError
from tests.cli.device_image import device_image
from tests.cli.released import object_file


@pytest.fixture(scope="module")
def compiled() -> bytes:
    """An object from a C compiler, with one callable."""
    return object_file("kf_K_1", device_image("sm_90a"))


def test_callables_lose_their_prefix(compiled: bytes) -> None:
    assert object_symbols(compiled).entries == {"kf_K_1"}
    assert "_GLOBAL_OFFSET_TABLE_" not in object_symbols(compiled).undefined


def test_an_object_is_no_library(compiled: bytes) -> None:
    """Without its table of dynamic symbols nothing could be opened; an empty answer would look like a good pack."""
    with pytest.raises(ToolchainError, match=r"has no \.dynsym"):
        library_symbols(compiled)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_damaged_object_is_an_error_of_ours(compiled: bytes, data: st.DataObject) -> None:
    """Case D2: half a file, or one with other bytes in it, never ends in an error that nobody expects."""
    damaged = bytearray(compiled[: data.draw(st.integers(0, len(compiled)))] if data.draw(st.booleans()) else compiled)
    offsets = st.integers(0, max(len(damaged) - 1, 0))
    for offset in data.draw(st.lists(offsets, max_size=4)) if damaged else ():
        damaged[offset] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ToolchainError):
        object_symbols(bytes(damaged))
