"""The host triple: what a pack's native code must agree with before it is opened."""

from __future__ import annotations

import os
import platform
import sysconfig

import pytest

from kernelforge.loader.host import host_triple
from kernelforge.loader.select import Rejected, judge
from kernelforge.target import HOSTS, Target
from tests.loader.fake_release import H200, locked_pack, profile


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this machine has another C library")
def test_this_machine_has_a_triple_that_packs_are_built_for() -> None:
    assert host_triple() in HOSTS
    assert host_triple().startswith(platform.machine())


@pytest.mark.parametrize(
    ("abi", "triple"), [("cpython-312-x86_64-linux-musl", "linux-musl"), ("cpython-312", "linux-other")]
)
def test_a_machine_with_another_c_library_fits_no_pack(monkeypatch: pytest.MonkeyPatch, abi: str, triple: str) -> None:
    """On Alpine the dynamic linker would fail on glibc's symbols, or worse find others of the same names."""

    def unknown(name: str) -> str:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "confstr", unknown)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: abi)
    found = host_triple()
    assert found == f"{platform.machine()}-{triple}"
    gnu = locked_pack(b"", target=Target("sm_90a", "x86_64-linux-gnu"))
    assert judge(profile("h200-sxm"), gnu, H200, found) == Rejected(
        "h200-sxm", (f"its pack is for x86_64-linux-gnu, this machine is {found}",)
    )
