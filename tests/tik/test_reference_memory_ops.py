# SPDX-License-Identifier: Apache-2.0
"""Moves, transposes and the cube of the reference engine against plain array formulas."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from programs import Builder, ref, reference, values

from ms_custom_ops.program.dtypes import DTYPES, SIZE


def move_program(
    dst_scope: str,
    dtype: str,
    src_count: int,
    dst_count: int,
    op: str,
    attrs: dict | None = None,
    dst_dtype: str | None = None,
    saturate: bool = True,
    **args,
) -> np.ndarray:
    """GM -> (op) -> UB or L1 -> GM, the destination starting as zeros; src counts 0, 1, 2, ..."""
    b = Builder(saturate)
    out_dtype = dst_dtype or dtype
    src, zero = b.gm("src", dtype, src_count, "input"), b.gm("zero", out_dtype, dst_count, "input")
    out, local = (b.gm("out", out_dtype, dst_count, "output"), b.local("local", dst_scope, out_dtype, dst_count))
    b.move(local, zero)
    b.instr(op, {"dst": ref(local), "src": ref(src)}, attrs, **args)
    b.move(out, local)
    x = np.arange(src_count).astype(DTYPES[dtype].numpy)
    return reference(b.program, [x, np.zeros(dst_count, DTYPES[out_dtype].numpy)])[0]


def test_data_move_gaps_run_from_burst_to_burst():
    got = move_program("ub", "float16", 200, 100, "data_move", nburst=3, burst=34, src_gap=66, dst_gap=6)
    want = np.zeros(100)
    for n in range(3):
        want[n * 20 : n * 20 + 17] = np.arange(n * 50, n * 50 + 17)
    assert got.tolist() == want.tolist()


def test_data_move_bursts_run_in_order():
    b = Builder()
    x, y, u = (b.gm("x", "int32", 64, "input"), b.gm("y", "int32", 64, "output"), b.local("u", "ub", "int32", 64))
    b.move(u, x)
    b.instr("data_move", {"dst": ref(u, 8), "src": ref(u)}, nburst=7, burst=32)
    b.move(y, u)
    assert reference(b.program, [np.arange(64, dtype=np.int32)])[0].tolist() == list(range(8)) * 8


@pytest.mark.parametrize("burst", [2, 30, 34, 66])
def test_data_move_pad_into_ub(burst):
    got = move_program(
        "ub",
        "int16",
        200,
        192,
        "data_move_pad",
        nburst=3,
        burst=burst,
        src_gap=4,
        dst_gap=32,
        left_pad=1,
        right_pad=2,
        pad_value=-3,
    )
    count, run = burst // 2, -(-(burst + 6) // 32) * 16 + 16
    want = np.zeros(192, np.int16)
    for n in range(3):
        row = [-3, *range(n * (count + 2), n * (count + 2) + count), -3, -3]
        want[n * run : n * run + len(row)] = row
    assert got.tolist() == want.tolist()


def test_data_move_pad_out_of_ub_writes_exactly_its_bytes():
    b = Builder()
    x, y, u = (b.gm("x", "int16", 64, "input"), b.gm("y", "int16", 64, "output"), b.local("u", "ub", "int16", 64))
    b.move(u, x)
    b.instr("data_move_pad", {"dst": ref(y, 1), "src": ref(u)}, nburst=2, burst=6, src_gap=32, dst_gap=2)
    want = np.zeros(64)
    want[1:4], want[5:8] = [0, 1, 2], [32, 33, 34]
    assert reference(b.program, [np.arange(64, dtype=np.int16)])[0].tolist() == want.tolist()


@pytest.mark.parametrize("n, d", [(1, 1), (15, 17), (17, 40), (3, 16)])
def test_nd2nz(n, d):
    n16 = -(-n // 16) * 16
    d16 = -(-d // 16) * 16
    got = move_program(
        "l1",
        "float16",
        2 * n * d,
        2 * d16 * n16,
        "nd2nz",
        nd_num=2,
        nd_n=n,
        nd_d=d,
        src_nd_stride=n * d,
        src_n_stride=d,
        dst_c0_stride=n16,
        dst_n_stride=1,
        dst_nd_stride=d16 * n16,
    )
    x = np.zeros((2, n16, d16), np.float16)
    x[:, :n, :d] = np.arange(2 * n * d, dtype=np.float16).reshape(2, n, d)
    assert np.array_equal(got.reshape(2, d16 // 16, n16, 16), x.reshape(2, n16, d16 // 16, 16).transpose(0, 2, 1, 3))


@pytest.mark.parametrize("transpose", [0, 1])
def test_load2d(transpose):
    got = move_program(
        "l1", "int16", 6 * 256, 6 * 256, "load2d", {"transpose": transpose}, index=1, repeat=2, src_stride=3, dst_gap=1
    ).reshape(6, 16, 16)
    x = np.arange(6 * 256, dtype=np.int16).reshape(6, 16, 16)
    want = np.zeros_like(x)
    want[0], want[2] = (x[1].T, x[4].T) if transpose else (x[1], x[4])
    assert np.array_equal(got, want)


def test_vtranspose_in_place():
    b = Builder()
    x, y, u = (b.gm("x", "int16", 256, "input"), b.gm("y", "int16", 256, "output"), b.local("u", "ub", "int16", 256))
    b.move(u, x)
    b.instr("vtranspose", {"dst": ref(u), "src": ref(u)})
    b.move(y, u)
    image = np.arange(256, dtype=np.int16)
    assert np.array_equal(reference(b.program, [image])[0].reshape(16, 16), image.reshape(16, 16).T)


@pytest.mark.parametrize("dtype, high", [("int16", 0), ("int32", 0), ("uint8", 0), ("uint8", 1)])
def test_vnchwconv(dtype, high):
    size, repeat = SIZE[dtype], 3
    per_block = 32 // size
    count = repeat * 16 * per_block
    b = Builder()
    x, y = b.gm("x", dtype, count, "input"), b.gm("y", dtype, count, "output")
    u, v = b.local("u", "ub", dtype, count), b.local("v", "ub", dtype, count)
    b.move(u, x)
    b.move(v, x)
    tensors = [ref(t, i * per_block) for t in (v, u) for i in range(16)]
    b.instr("vnchwconv", tensors, {"dst_high": high, "src_high": 1 - high}, repeat=repeat, dst_rep=512, src_rep=512)
    b.move(y, v)
    image = np.arange(count).astype(DTYPES[dtype].numpy)
    rows = image.reshape(repeat, 16, per_block)
    got = reference(b.program, [image])[0].reshape(repeat, 16, per_block)
    if size == 1:
        want = rows.copy()
        used = rows[:, :, 0 if high else 16 :][:, :, :16]
        want[:, :, 16 * high : 16 * high + 16] = used.transpose(0, 2, 1)
    else:
        want = rows.transpose(0, 2, 1).reshape(repeat, 16, per_block)
    assert np.array_equal(got, want)


def l0c_round_trip(src: str, dst: str, attrs: dict, x: np.ndarray, saturate: bool = True, **args) -> np.ndarray:
    """UB -> L0C as fractals, then L0C -> UB by the attributes of the test."""
    b = Builder(saturate)
    gm, out = b.gm("x", src, x.size, "input"), b.gm("y", dst, x.size, "output")
    u, c, v = (b.local("u", "ub", src, x.size), b.local("c", "l0c", src, x.size), b.local("v", "ub", dst, x.size))
    b.move(u, gm)
    b.instr("data_move_l0c", {"dst": ref(c), "src": ref(u)}, nburst=1, burst=x.size // 256)
    b.instr("data_move_l0c", {"dst": ref(v), "src": ref(c)}, attrs, **args)
    b.move(out, v)
    return reference(b.program, [x])[0]


def test_l0c_to_ub_converts_and_clamps():
    x = np.linspace(-3, 3, 512).astype(np.float32)
    got = l0c_round_trip("float32", "float16", {"relu": 1}, x, nburst=1, burst=2)
    assert np.array_equal(got, np.maximum(x.astype(np.float16), 0))
    x[0] = 1e6
    assert l0c_round_trip("float32", "float16", {}, x, nburst=1, burst=2)[0] == 65504
    assert l0c_round_trip("float32", "float16", {}, x, saturate=False, nburst=1, burst=2)[0] == np.inf


def test_l0c_to_ub_scales_int32():
    x = np.arange(-256, 256, dtype=np.int32)
    got = l0c_round_trip("int32", "float16", {}, x, nburst=1, burst=2, deqscale=0.5)
    assert np.array_equal(got, (x * 0.5).astype(np.float16))


def test_l0c_row_mode_takes_the_first_16_of_each_fractal():
    x = np.arange(1024, dtype=np.float32)
    got = l0c_round_trip("float32", "float32", {"block_mode": 1}, x, nburst=2, burst=1, src_gap=1024, dst_gap=64)
    assert got[:16].tolist() == list(range(16))
    assert got[32:48].tolist() == list(range(512, 528))
    got = l0c_round_trip("float32", "float32", {"block_mode": 1}, x, nburst=1, burst=3)
    assert got[:48].tolist() == [*range(16), *range(256, 272), *range(512, 528)]


def cube(
    a: np.ndarray, b_matrix: np.ndarray, dtype: str, out: str, accumulate: int = 0, op: str = "mmad"
) -> np.ndarray:
    """C[m, n] of the instruction after laying out the operands by hand; C starts as ones."""
    (m, k), n = a.shape, b_matrix.shape[1]
    k0 = 32 // SIZE[dtype]
    m16, n16, k16 = -(-m // 16) * 16, -(-n // 16) * 16, -(-k // k0) * k0
    full_a, full_b = np.zeros((m16, k16), a.dtype), np.zeros((k16, n16), a.dtype)
    full_a[:m, :k], full_b[:k, :n] = a, b_matrix
    if op == "mmad":
        left = full_a.reshape(m16 // 16, 16, k16 // k0, k0).transpose(0, 2, 1, 3)
        right = full_b.reshape(k16 // k0, k0, n16 // 16, 16).transpose(0, 2, 3, 1)
        if m == 1:
            left = full_a[:1]
    else:
        left = full_a.reshape(m16, k16 // k0, k0).transpose(1, 0, 2)
        right = full_b.reshape(k16 // k0, k0, n16).transpose(0, 2, 1)
    b = Builder()
    left, right = (np.ascontiguousarray(v).reshape(-1) for v in (left, right))
    ones = np.ones(m16 * n16, DTYPES[out].numpy)
    ga, gb = b.gm("a", dtype, left.size, "input"), b.gm("b", dtype, right.size, "input")
    gc, gy = b.gm("c", out, ones.size, "input"), b.gm("y", out, ones.size, "output")
    la = b.local("la", "l0a" if op == "mmad" else "l1", dtype, left.size)
    lb = b.local("lb", "l0b" if op == "mmad" else "l1", dtype, right.size)
    u, lc = b.local("u", "ub", out, ones.size), b.local("lc", "l0c", out, ones.size)
    for local, gm in ((la, ga), (lb, gb), (u, gc)):
        b.move(local, gm)
    b.instr("data_move_l0c", {"dst": ref(lc), "src": ref(u)}, nburst=1, burst=ones.size // 256)
    if op == "mmad":
        b.instr("mmad", {"dst": ref(lc), "fm": ref(la), "filter": ref(lb)}, {"accumulate": accumulate}, m=m, k=k, n=n)
    else:
        b.instr(
            "matmul", {"dst": ref(lc), "a": ref(la), "b": ref(lb)}, {"m": m, "k": k, "n": n, "init": 1 - accumulate}
        )
    b.instr("data_move_l0c", {"dst": ref(u), "src": ref(lc)}, nburst=1, burst=ones.size // 256)
    b.move(gy, u)
    y = reference(b.program, [left, right, ones])[0]
    return y.reshape(n16 // 16, m16, 16).transpose(1, 0, 2).reshape(m16, n16)[:m, :n]


@pytest.mark.parametrize("op", ["mmad", "matmul"])
@pytest.mark.parametrize("m, k, n", [(1, 17, 15), (16, 16, 16), (17, 33, 40), (2, 1, 1)])
@pytest.mark.parametrize(
    "dtype, out",
    [
        ("float16", "float32"),
        ("float16", "float16"),
        ("bfloat16", "float32"),
        ("float32", "float32"),
        ("int8", "int32"),
        ("uint8", "uint32"),
    ],
)
def test_products(op, m, k, n, dtype, out):
    rng = np.random.default_rng(m + k)
    a, b = (rng.integers(0, 9, shape).astype(DTYPES[dtype].numpy) for shape in ((m, k), (k, n)))
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(cube(a, b, dtype, out, 0, op).astype(np.int64), exact)
    assert np.array_equal(cube(a, b, dtype, out, 1, op).astype(np.int64), exact + 1)


def test_float16_results_saturate():
    a, b = np.full((2, 2), 300, np.float16), np.full((2, 1), 300, np.float16)
    assert cube(a, b, "float16", "float16")[0, 0] == 65504


def test_sums_run_in_ascending_k():
    # Each 2**-12 is lost beside 1; summed among themselves first they would count.
    a, b = np.full((2, 3), 1, np.float16), np.array([[4096.0], [2.0**-12], [2.0**-12]], np.float16)
    assert cube(a, b, "float16", "float32")[0, 0] == 4096
    assert cube(a, b[::-1].copy(), "float16", "float32")[0, 0] == np.float32(4096 + 2.0**-11)


def test_bfloat16_products_below_float32_are_fused():
    tiny = np.array([[2.0**-130]]).astype(ml_dtypes.bfloat16)
    huge = np.array([[2.0**120]]).astype(ml_dtypes.bfloat16)
    assert cube(tiny, huge, "bfloat16", "float32")[0, 0] == 2.0**-10
    assert cube(tiny, tiny, "bfloat16", "float32", 1)[0, 0] == 1.0


@pytest.mark.parametrize(
    "quantize, src, dst", [(0, "float32", "float32"), (1, "float32", "float16"), (2, "int32", "float16")]
)
def test_fixpipe(quantize, src, dst):
    x = np.arange(-512, 512).astype(DTYPES[src].numpy)
    b = Builder()
    gm, out = b.gm("x", src, 1024, "input"), b.gm("y", dst, 1024, "output")
    u, c = b.local("u", "ub", src, 1024), b.local("c", "l0c", src, 1024)
    b.move(u, gm)
    b.instr("data_move_l0c", {"dst": ref(c), "src": ref(u)}, nburst=1, burst=4)
    b.instr(
        "fixpipe",
        {"dst": ref(out), "src": ref(c)},
        {"quantize": quantize, "relu": int(quantize > 0)},
        cburst_num=2,
        burst_len=1024,
        src_gap=1024,
        dst_gap=64,
        deqscale=0.25,
    )
    got = reference(b.program, [x])[0].astype(np.float64)
    scaled = x[:256] * (0.25 if quantize == 2 else 1), x[512:768] * (0.25 if quantize == 2 else 1)
    first, second = (np.maximum(v, 0) if quantize else v for v in scaled)
    gap = 256 + 64 // SIZE[dst]
    assert np.array_equal(got[:256], first)
    assert np.array_equal(got[gap : gap + 256], second)


@pytest.mark.parametrize(
    "dtype, mode", [("float32", 1), ("float16", 2), ("int16", 3), ("int32", 4), ("int8", 5), ("bfloat16", 6)]
)
def test_atomic_add(dtype, mode):
    b = Builder()
    x, y = b.gm("x", dtype, 64, "input"), b.gm("y", dtype, 64, "output", atomic_init=True)
    u = b.local("u", "ub", dtype, 64)
    b.move(u, x)
    b.instr("set_atomic_add", [], {"mode": mode})
    b.move(y, u)
    b.move(y, u)
    b.instr("set_atomic_add", [], {"mode": 0})
    b.instr("data_move", {"dst": ref(y), "src": ref(u)}, nburst=1, burst=SIZE[dtype])
    image = values(np.random.default_rng(1), "int8", 64).astype(DTYPES[dtype].numpy)
    got = reference(b.program, [image])[0]
    with np.errstate(over="ignore"):
        want = image + image
    want[0] = image[0]
    assert np.array_equal(got, want)
