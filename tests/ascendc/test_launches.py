# SPDX-License-Identifier: Apache-2.0
"""Kinds of kernels of one source, calls that are made again, and memory that launches leave to each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

import ms_custom_ops as mco
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()
SOURCE = Path(__file__).with_name("launches.cpp")


def build(entry: str) -> mco.ascendc.Kernel:
    return mco.ascendc.build(SOURCE, entry=entry, soc="Ascend910B1")


@pytest.mark.parametrize(("entry", "ratios"), [("vector_only", [1, 1, 0, 0]), ("mixed", [2, 2, 2, 2])])
def test_the_code_that_an_entry_reaches_says_of_what_kind_it_is(entry: str, ratios: list[int]) -> None:
    cores = np.zeros(4, np.int32)
    build(entry)(2, cores)
    assert cores.tolist() == ratios


def test_a_product_may_run_into_memory_that_no_buffer_has_unless_it_is_checked() -> None:
    kernel, cores = build("mixed"), np.zeros(4, np.int32)
    kernel(2, cores)
    assert "of the A2 queue" in str(kernel.check(2, cores))
    with pytest.raises(AscendcError, match=r"Mmad: fm needs bytes \[0, 2048\) of the A2 queue .* it has 64"):
        build("crowded")(1, cores)


def test_a_call_that_is_made_again_takes_its_new_numbers() -> None:
    x, rows = np.arange(1, 129, dtype=np.float16), 63
    out = np.full((rows, 256), -1, np.float16)
    build("again")(1, x, out, rows)
    wanted = np.zeros((rows, 256), np.float16)
    for i in range(rows):
        wanted[i, : 16 + i % 3] = x[: 16 + i % 3] + i
        wanted[i, 128 : 129 + i % 5] = 2 * x[: 1 + i % 5]
    np.testing.assert_array_equal(out, wanted)


def test_a_launch_finds_nothing_of_earlier_ones() -> None:
    kernel = build("finds")
    for threads in (1, 2, 1):
        found = np.zeros((3, 2), np.int32)
        kernel(3, found, workspace=64, threads=threads)
        assert (found == -1).all()
        with pytest.raises(AscendcError, match="AIV core 1"):  # also after one that failed
            kernel(3, found[:1], workspace=64)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_cube_cores_at_the_barrier_of_vector_cores_meet_their_own_kind(reverse: bool) -> None:
    slots, seen = np.zeros(6, np.int32), np.zeros(6, np.int32)
    build("meets")(3, slots, seen, reverse=reverse)
    assert seen.tolist() == [12] * 6


def test_assertions_can_be_left_out_as_for_the_chip(tmp_path: Path) -> None:
    source = tmp_path / "asserts.cpp"
    source.write_text(
        '#include "kernel_operator.h"\n'
        'extern "C" __global__ __aicore__ void asserts(GM_ADDR x) {\n'
        "  ASCENDC_ASSERT((not_declared == 0), { KERNEL_LOG(KERNEL_ERROR, not_declared); });\n"
        "  reinterpret_cast<__gm__ int32_t*>(x)[0] = 1;\n}\n"
    )
    with pytest.raises(AscendcBuildError, match=r"asserts\.cpp:3: .*not_declared"):
        mco.ascendc.build(source, soc="Ascend910B1")
    x = np.zeros(1, np.int32)
    mco.ascendc.build(source, soc="Ascend910B1", defines="ASCENDC_ASSERT(...)=")(1, x)
    assert x[0] == 1


STAMPED = """
#include <string>
#include "kernel_operator.h"
#define NAME(T, N) copy_##T##_of_##N
#define DECLARE(T, N) \\
  extern "C" __global__ __aicore__ void NAME(T, N)(GM_ADDR x, GM_ADDR y, int count) { copy<T>(x, y, count); }
template <class T>
__aicore__ inline void copy(GM_ADDR x, GM_ADDR y, int count) {
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  pipe.InitBuffer(buffer, AscendC::TOTAL_VEC_LOCAL_SIZE);
  AscendC::GlobalTensor<T> from, to;
  from.SetGlobalBuffer((__gm__ T*)x), to.SetGlobalBuffer((__gm__ T*)y);
  if (count > 64) ASCENDC_REPORT_NOT_SUPPORT(false, std::to_string(count) + " is not supported.")
  const auto local = buffer.Get<T>(64);
  DataCopy(local, from, count);
  AscendC::PipeBarrier<PIPE_ALL>();
  DataCopy(to.template ReinterpretCast<int8_t>(), local.template ReinterpretCast<int8_t>(), 32);
}
DECLARE(half, 16)
DECLARE(int4b_t, 32)
void go(void* stream, GM_ADDR x, GM_ADDR y) {
#define GO(T, N) NAME(T, N)<<<1, nullptr, stream>>>(x, y, N); copy_##T##_of_##N<<<1, nullptr, stream>>>(x, y, N);
  GO(half, 16)
}
"""


def test_entries_that_a_macro_names_are_found_and_launched(tmp_path: Path) -> None:
    source = tmp_path / "stamped.cpp"
    source.write_text(STAMPED)
    x, y = np.arange(32, dtype=np.int8), np.zeros(32, np.int8)
    mco.ascendc.build(source, entry="copy_half_of_16", soc="Ascend910B1")(1, x, y, 16)
    np.testing.assert_array_equal(x, y)
    y[:] = 0  # 32 elements of 4 bits begin one block of 32 bytes
    kernel = mco.ascendc.build(source, entry="copy_int4b_t_of_32", soc="Ascend910B1")
    kernel(1, x, y, 32)
    np.testing.assert_array_equal(x, y)
    with pytest.raises(AscendcError, match=r"ASSERT: false does not hold .*stamped\.cpp:14"):
        kernel(1, x, y, 65)
    with pytest.raises(AscendcBuildError, match=r"entry is none in .*stamped\.cpp; accepted: a __global__"):
        mco.ascendc.build(source, soc="Ascend910B1")
