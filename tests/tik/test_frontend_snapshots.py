# SPDX-License-Identifier: Apache-2.0
"""The text of traced kernels against stored snapshots. ``UPDATE_GOLDEN=1`` in the environment rewrites them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ms_custom_ops import tik
from ms_custom_ops.program.ir import Program
from ms_custom_ops.tik.trace import trace

SNAPSHOTS = Path(__file__).parent / "snapshots"


def control_flow() -> None:
    t = tik.Tik()
    x = t.Tensor("float32", (4, 64), tik.scope_gm, "x")
    y = t.Tensor("float32", (4, 64), tik.scope_gm, "y")
    n = t.InputScalar("int32", "n")
    with t.for_range(0, 4, block_num=4) as core:
        found = t.Scalar("int32", "found", 0)
        row = t.Tensor("float32", (64,), tik.scope_ubuf, "row")
        t.data_move(row, x[core, 0], 0, 1, 8, 0, 0)
        with t.for_range(0, n) as i:
            with t.if_scope(tik.all(row[0] > 1.0, i < 3)):
                found.set_as(i // 2 - 1)
                t.tik_break()
            with t.elif_scope(tik.any(i == 1, found != 0)):
                t.tik_continue()
            with t.else_scope():
                row[i] = 2.5
        with t.if_scope(tik.negate(found > 0)):
            t.tik_return()
        t.data_move(y[core, 0], row, 0, 1, 8, 0, 0)
    t.BuildCCE("control_flow", [x], [y], flowtable=[n])


def double_buffer() -> None:
    t = tik.Tik()
    x = t.Tensor("float16", (8, 128), tik.scope_gm, "x")
    y = t.Tensor("float32", (8, 128), tik.scope_gm, "y", is_atomic_add=True)
    with t.for_range(0, 8, thread_num=2) as i:
        half = t.Tensor("float16", (128,), tik.scope_ubuf, "half")
        single = t.Tensor("float32", (128,), tik.scope_ubuf, "single")
        t.data_move(half, x[i * 128], 0, 1, 8, 0, 0)
        t.vec_conv(64, "none", single, half, 2, 8, 4)
        t.set_atomic_add(1)
        t.data_move(y[i * 128], single, 0, 1, 16, 0, 0)
        t.set_atomic_add(0)
    t.BuildCCE("double_buffer", [x], [y])


def vectors() -> None:
    t = tik.Tik()
    x = t.Tensor("float16", (1024,), tik.scope_gm, "x")
    a = t.Tensor("float16", (1024,), tik.scope_ubuf, "a")
    b = t.Tensor("float32", (512,), tik.scope_ubuf, "b")
    bits = t.Tensor("uint8", (64,), tik.scope_ubuf, "bits")
    s = t.Scalar("float16", "s", 0.5)
    t.data_move(a, x, 0, 2, 8, 24, 8)
    t.vec_dup(128, a, s, 8, 8)
    t.vadd(64, a, a, a[512], 4, 1, 2, 0, 8, 16, 0)
    t.vmul([1, 0], a, a, a, 1, 1, 1, 1, 8, 8, 8, stride_unit=1)
    t.vec_muls(100, a, a, s, 3, 8, 8)
    t.vec_cmpv_gt(bits, a, a[512], 4, 8, 8)
    t.vec_sel(128, 0, a, bits, a[128], a[256], 1)
    t.vconv(64, "odd", a, b, 2, 1, 1, 4, 8)
    t.vcadd(64, b, b[64], 2, 1, 1, 8)
    t.vcmax(128, a, a[128], 4, 2, 1, 8)
    t.vnchwconv(False, False, [a[i * 16] for i in range(16)], [a[512 + i * 16] for i in range(16)], 1, 0, 0)
    t.data_move(x, a, 0, 1, 64, 0, 0)
    t.BuildCCE("vectors", [x], [])


def cube_fused() -> None:
    t = tik.Tik()
    x = t.Tensor("float16", (2, 32, 16), tik.scope_gm, "x")
    y = t.Tensor("float32", (2, 32, 16), tik.scope_gm, "y")
    l1 = t.Tensor("float16", (2, 32, 16), tik.scope_cbuf, "l1")
    l0a = t.Tensor("float16", (2, 2, 16, 16), tik.scope_ca, "l0a")
    l0b = t.Tensor("float16", (2, 2, 16, 16), tik.scope_cb, "l0b")
    l0c = t.Tensor("float32", (2, 32, 16), tik.scope_cc, "l0c")
    ub = t.Tensor("float32", (2, 32, 16), tik.scope_ubuf, "ub")
    out = t.Tensor("float16", (2, 32, 16), tik.scope_ubuf, "out")
    t.data_move(l1, x, 0, 1, 64, 0, 0)
    t.load2dv1(l0a, l1, 0, 2, 2, 0)
    t.load2dv1(l0b, l1, 0, 4, 1, 0, True)
    t.mmad(l0c, l0a, l0b, 32, 32, 32, 0)
    t.data_move(ub, l0c, 0, 2, 2, 0, 0)
    t.matmul(l0c, l1, l1, 32, 32, 32, init_l1out=False)
    t.tensor_mov(out, l0c, "m", 1, 4, 0, 0, relu=True)
    t.data_move(y, ub, 0, 1, 128, 0, 0)
    t.BuildCCE("cube_fused", [x], [y])


def cube_split() -> None:
    t = tik.Tik()
    x = t.Tensor("bfloat16", (30, 24), tik.scope_gm, "x")
    y = t.Tensor("float32", (2, 32, 16), tik.scope_gm, "y")
    l1 = t.Tensor("bfloat16", (2, 32, 16), tik.scope_cbuf, "l1")
    l0a = t.Tensor("bfloat16", (2, 2, 16, 16), tik.scope_ca, "l0a")
    l0b = t.Tensor("bfloat16", (2, 2, 16, 16), tik.scope_cb, "l0b")
    l0c = t.Tensor("float32", (2, 32, 16), tik.scope_cc, "l0c")
    tail = t.Tensor("bfloat16", (32,), tik.scope_ubuf, "tail")
    t.data_move_multi_nd2nz(l1, x, 1, 30, 24, 0, 24, 32, 1, 1)
    t.load2dv2(l0a, l1, 0, 4, 0, 1, 0)
    t.load2dv2(l0b, l1, 0, 4, 0, 1, 0, if_transpose=True)
    t.mmad(l0c, l0a, l0b, 30, 24, 30, 0)
    t.fixpipe(y, l0c, 2, 64, 0, 0)
    t.data_move_pad(tail, x, 1, 30, 0, 0, right_padding=1, padding_value=0)
    t.data_move_pad(x, tail, 1, 30, 0, 0)
    t.BuildCCE("cube_split", [x], [y])


CASES: list[tuple[Callable[[], None], str]] = [
    (control_flow, "Ascend910B1"),
    (double_buffer, "Ascend910A"),
    (vectors, "Ascend910A"),
    (cube_fused, "Ascend910A"),
    (cube_split, "Ascend910B1"),
]


@pytest.mark.parametrize(("kernel", "soc"), CASES, ids=[f"{k.__name__}-{s}" for k, s in CASES])
def test_snapshot(kernel: Callable[[], None], soc: str) -> None:
    text = trace(kernel, soc=soc).text().replace(str(Path(__file__).parent), "tests/tik")
    path = SNAPSHOTS / f"{kernel.__name__}.{soc}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize(("kernel", "soc"), CASES, ids=[f"{k.__name__}-{s}" for k, s in CASES])
def test_binary_form_round_trips(kernel: Callable[[], None], soc: str) -> None:
    program = trace(kernel, soc=soc)
    again = Program.from_bytes(program.to_bytes())
    assert again.text() == program.text()
    assert again.to_bytes() == program.to_bytes()
