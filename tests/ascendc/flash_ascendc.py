# SPDX-License-Identifier: Apache-2.0
"""Cases of FlashAttention on the Ascend C kernels, both passes, as tests/ops/flash_cases.py runs those in TIK."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import ms_custom_ops as mco
from ms_custom_ops.compile_launch import op_of
from ms_custom_ops.compiler import Call, CompiledOp, compile_call, describe_call
from ms_custom_ops.lower.run import run_primitive
from ms_custom_ops.registry import get_op

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
from flash_cases import OPTIONAL, Case, attributes_of, d_statistics, prepare

SOC = "Ascend910B1"
Arrays = dict[str, np.ndarray]


def compiled(op: str, arrays: Arrays, attrs: dict[str, Any], impl: str = "ascendc") -> tuple[Call, CompiledOp]:
    """The call of these arrays on the kernel of ``impl``."""
    shapes, dtypes = ({name: of(x) for name, x in arrays.items()} for of in (np.shape, lambda x: x.dtype.name))
    with mco.use_impl(impl):
        call = describe_call(get_op(op), shapes, dtypes, attrs, SOC)
        found = compile_call(call)
    assert (found.launch is not None) == (impl == "ascendc")
    return call, found


def run(op: str, arrays: Arrays, attrs: dict[str, Any], impl: str = "ascendc") -> Arrays:
    call, found = compiled(op, arrays, attrs, impl)
    return run_primitive(call, arrays, compiled=found)


def bits(op: str, arrays: Arrays, attrs: dict[str, Any], threads: int, reverse: bool) -> bytes:
    """Of all results, with so many threads, blocks in order or in reverse."""
    call, found = compiled(op, arrays, attrs)
    assert found.launch is not None
    project = op_of(call.spec, SOC)
    given = [arrays.get(param.name) for param in project.inputs]
    return b"".join(x.tobytes() for x in project.run(found.launch, given, threads=threads, reverse=reverse))


def operands_of(case: Case, t: Arrays, impl: str = "ascendc") -> tuple[Arrays, Arrays, dict[str, Any]]:
    """Inputs of the forward op and of the gradient, which holds results of the forward kernel of ``impl``, and
    attributes."""
    p = prepare(case, t)
    attrs = attributes_of(case) | {"tiling_stgy_name": case.strategy, "high_precision": case.high_precision}
    optional = {name: p[name] for name in OPTIONAL if p[name] is not None}
    forward = {name: p[name] for name in ("query", "key", "value")} | optional
    out = run("flash_attention", forward, attrs, impl)
    rows = d_statistics(case, out["softmax_max"].shape)
    given = {"d_attention_out": p["d_out"], "d_softmax_max": rows[0], "d_softmax_sum": rows[1]}
    return forward, forward | out | given, attrs  # type: ignore


def run_ascendc(case: Case, t: Arrays) -> Arrays:
    """Results of both kernels, cut back to the shapes of the case."""
    _, gradient, attrs = operands_of(case, t)
    found = run("flash_attention_grad", gradient, attrs)
    out = {name: gradient[name] for name in ("attention_out", "softmax_max", "softmax_sum")} | found
    for name, x in out.items():
        if name.startswith("softmax"):
            out[name] = x[..., : case.s1]
        elif name == "d_real_shift":
            x = x[..., : case.s2]
            out[name] = x if len(t["real_shift"]) == len(x) else x.sum(0, keepdims=True)
        else:
            out[name] = x[..., : case.d]
    return out
