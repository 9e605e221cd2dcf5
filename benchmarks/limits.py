# SPDX-License-Identifier: Apache-2.0
"""What one thread of this machine can do at most, beside what the engine's cases ask of it: multiply-adds of registers,
the engine's products and its exp by themselves. Part of ``run.py engine``."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ms_custom_ops import tik
from ms_custom_ops.ascendc.compile import compiler
from ms_custom_ops.engine import StepMeasure, native
from ms_custom_ops.tik.trace import trace

SOC = "Ascend910B1"
ADDS = 200_000  # rounds of the chains
PRODUCTS, EXPS = 400, 4000  # rounds
LANES = 64
EXP_REPEATS = 64  # 16 KiB, which stay in the first-level cache
SHAPES = {"128x64x128": (128, 64, 128), "128x128x64": (128, 128, 64)}  # of attention's tiles: m, k, n

# 12 chains hide what one multiply-add takes: registers of the widest kind, no memory.
CHAINS = r"""
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float v __attribute__((vector_size(BYTES)));
extern "C" int lanes() { return BYTES / 4; }
extern "C" float chains(long rounds, float x, float y) {
  v a[12];
  for (int i = 0; i < 12; ++i) a[i] = v{} + float(i);
  for (long k = 0; k < rounds; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) a[i] = a[i] * x + y;
  }
  v sum{};
  for (int i = 0; i < 12; ++i) sum += a[i];
  return sum[0];
}
"""

Least = Callable[[Callable[[], object]], float]


def multiply_adds(least: Least) -> float:
    """GFLOP/s of fused multiply-adds of float32 registers."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "chains.cpp", Path(folder) / "chains.so"
        source.write_text(CHAINS)
        flags = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
        subprocess.run(
            [compiler(), *flags, str(source), "-o", str(library)], check=True, capture_output=True, text=True
        )
        found = ctypes.CDLL(str(library))
        found.chains.argtypes, found.chains.restype = (ctypes.c_long, ctypes.c_float, ctypes.c_float), ctypes.c_float
        return 2 * 12 * found.lanes() * ADDS / least(lambda: found.chains(ADDS, 0.999, 1e-3)) / 1e9


def _products(m: int, k: int, n: int) -> Callable[[], None]:
    def kernel() -> None:
        t = tik.Tik()
        left, right = (t.Tensor("float16", (x * k,), tik.scope_gm, name) for x, name in ((m, "left"), (n, "right")))
        out = t.Tensor("float32", (m * n,), tik.scope_gm, "out")
        a, b = (t.Tensor("float16", (x * k,), tik.scope_cbuf, name) for x, name in ((m, "a"), (n, "b")))
        l0a, l0b = (
            t.Tensor("float16", (x * k,), scope, name)
            for x, scope, name in ((m, tik.scope_ca, "l0a"), (n, tik.scope_cb, "l0b"))
        )
        l0c = t.Tensor("float32", (m * n,), tik.scope_cc, "l0c")
        t.data_move(a, left, 0, 1, m * k // 16, 0, 0)
        t.data_move(b, right, 0, 1, n * k // 16, 0, 0)
        with t.for_range(0, PRODUCTS):
            t.load2dv2(l0a, a, 0, m * k // 256, 0, 1, 0, False)
            t.load2dv2(l0b, b, 0, n * k // 256, 0, 1, 0, False)
            t.mmad(l0c, l0a, l0b, m, k, n, 0)
            t.fixpipe(out, l0c, n // 16, m * 2, 0, 0)
        t.BuildCCE("products", [left, right], [out])

    return kernel


def product_rate(m: int, k: int, n: int, least: Least) -> float:
    """GFLOP/s of the engine's product of float16 that lies in caches, with unpacking it."""
    program = trace(_products(m, k, n), soc=SOC)
    feed = [np.full(x * k, 0.5, np.float16) for x in (m, n)]
    return 2 * m * k * n * PRODUCTS / least(native.runner(program, feed, threads=1)) / 1e9


def _exps() -> None:
    t = tik.Tik()
    count = LANES * EXP_REPEATS
    given, out = (t.Tensor("float32", (count,), tik.scope_gm, name) for name in ("given", "out"))
    x, y = (t.Tensor("float32", (count,), tik.scope_ubuf, name) for name in "xy")
    t.data_move(x, given, 0, 1, count // 8, 0, 0)
    with t.for_range(0, EXPS):
        t.vec_exp(LANES, y, x, EXP_REPEATS, 8, 8)
    t.data_move(out, y, 0, 1, count // 8, 0, 0)
    t.BuildCCE("exps", [given], [out])


def exp_rate(least: Least) -> float:
    """10^9 exp of float32 a second, of numbers in the first-level cache."""
    count = LANES * EXP_REPEATS
    feed = [np.linspace(-20, 0, count, dtype=np.float32)]
    return count * EXPS / least(native.runner(trace(_exps, soc=SOC), feed, threads=1)) / 1e9


def measure(least: Least) -> dict[str, Any]:
    """The rates of one thread."""
    return {
        "multiply-adds GFLOP/s": multiply_adds(least),
        "products GFLOP/s": {name: product_rate(*shape, least) for name, shape in SHAPES.items()},
        "exp G/s": exp_rate(least),
    }


def exps_of(steps: list[StepMeasure]) -> int:
    """Numbers of float32 that exp computes; those of 16 bits count half."""
    return sum(step.written for step in steps if step.name == "vexp") // 4


def least_ms(row: dict[str, Any], limits: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of one thread that a case's products and exp take at those rates, with nothing else."""
    return {
        "products": row["GFLOP"] / limits["multiply-adds GFLOP/s"] * 1e3,
        "exp": row["exps"] / 1e9 / limits["exp G/s"] * 1e3,
    }
