# SPDX-License-Identifier: Apache-2.0
"""trace(): what it finds, what it leaves behind, how fast it is."""

from __future__ import annotations

import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ms_custom_ops as mco
from ms_custom_ops import tik
from ms_custom_ops.soc import current_soc, use_soc
from ms_custom_ops.tik.trace import trace


def double(x: dict, y: dict, factor: float = 2.0, kernel_name: str = "double") -> None:
    """A kernel in the form public code has: dict arguments, a default name, no return value."""
    t = tik.Tik(tik.Dprofile())
    (count,) = x["shape"]
    src = t.Tensor(x["dtype"], x["shape"], tik.scope_gm, "src")
    dst = t.Tensor(y["dtype"], y["shape"], tik.scope_gm, "dst")
    u = t.Tensor(x["dtype"], x["shape"], tik.scope_ubuf, "u")
    t.data_move(u, src, 0, 1, count // 16, 0, 0)
    t.vec_muls(count, u, u, factor, 1, 8, 8)
    t.data_move(dst, u, 0, 1, count // 16, 0, 0)
    t.BuildCCE(kernel_name, [src], [dst])


ARRAY = {"shape": (64,), "dtype": "float16"}


def test_dict_arguments_and_default_name() -> None:
    program = trace(double, ARRAY, ARRAY, soc="Ascend910A")
    assert (program.name, program.soc, program.meta) == ("double", "Ascend910A", {"kernel": "double"})
    assert mco.trace(double, ARRAY, ARRAY, soc="Ascend910A", kernel_name="twice").name == "twice"


def test_the_chip_is_set_for_the_call_only() -> None:
    with use_soc("Ascend310"):
        assert trace(double, ARRAY, ARRAY, soc="Ascend910B1").soc == "Ascend910B1"
        assert current_soc().name == "Ascend310"
        assert trace(double, ARRAY, ARRAY).soc == "Ascend310"


def test_a_failing_kernel_leaves_tracing_usable() -> None:
    def broken(**_: Any) -> None:
        tik.Tik()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        trace(broken, soc="Ascend910A")
    assert trace(double, ARRAY, ARRAY, soc="Ascend910A").name == "double"


def test_threads_do_not_see_each_other() -> None:
    socs = ["Ascend310", "Ascend910A", "Ascend910B1", "Ascend310P3"] * 8
    with ThreadPoolExecutor(8) as pool:
        programs = list(
            pool.map(lambda n: trace(double, ARRAY, ARRAY, soc=socs[n], kernel_name=f"k{n}"), range(len(socs)))
        )
    assert [(p.name, p.soc) for p in programs] == [(f"k{n}", s) for n, s in enumerate(socs)]


def test_building_a_kernel_again_is_one_kernel() -> None:
    def kernel() -> None:
        t = tik.Tik()
        x, y = (t.Tensor("float16", (16,), tik.scope_gm, n) for n in "xy")
        t.BuildCCE("again", [x], [y])
        t.BuildCCE("again", [y], [x])

    program = trace(kernel, soc="Ascend910A")
    assert [(b.name, b.kind) for b in program.buffers] == [("x", "output"), ("y", "input")]


def test_the_example_of_the_documentation_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "tik.md").read_text()
    namespace: dict[str, Any] = {}
    exec(text.split("```python")[1].split("```")[0], namespace)
    assert namespace["program"].name == "double"


def unrolled(count: int) -> None:
    t = tik.Tik()
    x = t.Tensor("float16", (count * 64,), tik.scope_gm, "x")
    u = t.Tensor("float16", (8192,), tik.scope_ubuf, "u")
    f = t.Tensor("float32", (8192,), tik.scope_ubuf, "f")
    for n in range(count // 5):
        at = n % 32 * 128
        t.data_move(u[at], x[n * 256], 0, 1, 16, 0, 0)
        t.vec_adds(128, u[at], u[at], 1.5 + n, 2, 8, 8)
        t.vec_conv(64, "", f[at], u[at], 2, 8, 4)
        t.vec_add(64, f, f, f[4096], 2, 8, 8, 8)
        t.vec_muls(64, f, f, 0.5, 2, 8, 8)
    t.BuildCCE("unrolled", [x], [])


def test_hundred_thousand_instructions_in_three_seconds() -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.thread_time()  # of this thread alone: whatever else the process and the machine do
    program = trace(unrolled, 100_000, soc="Ascend910A")
    seconds = time.thread_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    assert len(program.body) == 100_000 + 2
    assert seconds <= 3, f"{seconds:.2f} s"
    assert grown <= 500, f"{grown:.0f} MB"
