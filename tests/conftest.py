"""Fixtures that several rooms' tests use."""

from __future__ import annotations

import pytest

from kernelforge.device import DeviceProfile, Fact
from tests.seaweed import seaweed_server

__all__ = ["seaweed_server"]

# Here, because several rooms' tests import it: its assertions should say what they compared.
pytest.register_assert_rewrite("tests.store.conformance")


@pytest.fixture
def h200() -> DeviceProfile:
    """A profile like the H200's, with the one fact that the test kernels ask for."""
    return DeviceProfile("h200-test", "sm_90a", {"num_sms": Fact(132, "made up for a test")})


@pytest.fixture
def b200() -> DeviceProfile:
    """A profile like the B200's."""
    return DeviceProfile("b200-test", "sm_100a", {"num_sms": Fact(148, "made up for a test")})
