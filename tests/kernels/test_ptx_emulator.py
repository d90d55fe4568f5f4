"""The emulator judges the kernels, so it must itself notice what would go wrong on a card."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.emulated_memory import Memory
from tests.kernels.ptx_emulator import run
from tests.kernels.ptx_program import Program

# Each thread copies one 16-byte vector; the hole is for what a test wants in between.
_COPY = """
.visible .entry copy(
	.param .u64 copy_param_0,
	.param .u64 copy_param_1
)
.reqntid 32, 1, 1
{{
	.reg .b32 	%r<9>;
	.shared .align 16 .b8 __static_shmem__0[128];
	ld.param.b64 	%rd1, [copy_param_0];
	ld.param.b64 	%rd2, [copy_param_1];
	mov.u32 	%r1, %tid.x;
	mul.wide.u32 	%rd3, %r1, 16;
	add.s64 	%rd4, %rd1, %rd3;
	add.s64 	%rd5, %rd2, %rd3;
	{hole}
	ld.global.v4.b32 	{{%r2, %r3, %r4, %r5}}, [%rd4];
$L__end:
	st.global.v4.b32 	[%rd5], {{%r2, %r3, %r4, %r5}};
	ret;
}}
"""


def _copy(hole: str = "") -> Memory:
    memory = Memory()
    source = memory.place("source", np.arange(128, dtype=np.uint32))
    target = memory.place("target", np.zeros(128, np.uint32))
    parameters = [address.to_bytes(8, "little") for address in (source, target)]
    run(Program.parse(_COPY.format(hole=hole)), memory, parameters, blocks=1, threads=32)
    return memory


def test_each_thread_does_its_part() -> None:
    """The rest of this module means nothing if a plain copy does not work."""
    memory = _copy()
    assert (memory.content("target", np.uint32) == np.arange(128)).all()
    assert (memory.store_counts("target") == 1).all()


@pytest.mark.parametrize(
    ("hole", "refusal"),
    [
        ("add.s64 %rd4, %rd4, 8;", "misaligned"),
        ("add.s64 %rd5, %rd5, 16;", "outside"),
        ("setp.lt.u32 %p1, %r1, 7;\n@%p1 bra $L__end;\nshfl.sync.bfly.b32 %r6, %r1, 1, 31, -1;", "lane is missing"),
        ("setp.lt.u32 %p1, %r1, 7;\n@%p1 bra $L__end;\nbar.sync 0;", "does not reach the barrier"),
        ("$L__back:\nbra $L__back;", "loops"),
        ("st.shared.b32 [__static_shmem__0], %r1;\nld.shared.b32 %r6, [__static_shmem__0];", "before a barrier"),
    ],
)
def test_what_would_fail_on_a_card_is_refused(hole: str, refusal: str) -> None:
    """Lock step on a CPU forgives what a card does not, unless it is checked."""
    with pytest.raises(AssertionError, match=refusal):
        _copy(hole)


def test_two_stores_to_one_byte_are_counted() -> None:
    """Two threads that own the same element would go unnoticed: they store the same value."""
    memory = _copy("mov.b64 %rd5, %rd2;")
    assert (memory.store_counts("target")[:16] == 32).all()


def test_an_unknown_instruction_is_refused() -> None:
    """Skipping what it does not know would make every result meaningless."""
    with pytest.raises(AttributeError, match="_popc"):
        _copy("popc.b32 %r6, %r1;")
