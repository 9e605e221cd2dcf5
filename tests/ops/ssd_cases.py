# SPDX-License-Identifier: Apache-2.0
"""Cases of the scans at the primitive level, run without MindSpore: traced, executed, compared with the
golden."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from kernel_trace import traced

import ms_custom_ops as mco
from ms_custom_ops.op_impl.bwd_dtrap_ddt.golden import bwd_dtrap_ddt
from ms_custom_ops.op_impl.mamba3_chunk_scan import golden as golden3
from ms_custom_ops.op_impl.ssd_chunk_scan import golden

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
LIMIT = {"float16": 2e-3, "bfloat16": 1.5e-2}
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """Sizes at the primitive level: ``steps`` times ``rank`` is a multiple of ``chunk``, a multiple of 16; P
    and N are multiples of 16. ``chunks`` of each packed sequence, or () for a dense batch."""

    steps: int
    chunk: int
    size: int = 16
    state: int = 16
    batch: int = 1
    heads: int = 2
    groups: int = 2
    decay: float = 0.1
    chunks: tuple[int, ...] = ()
    rank: int = 1
    dtype: str = "float16"

    @property
    def id(self) -> str:
        """Readable test id."""
        extra = f"-packed{'_'.join(map(str, self.chunks))}" if self.chunks else ""
        extra += f"-R{self.rank}" if self.rank > 1 else ""
        return (
            f"B{self.batch}-S{self.steps}-C{self.chunk}-H{self.heads}g{self.groups}-P{self.size}-N{self.state}"
            f"-decay{self.decay:g}{extra}-{self.dtype}"
        )

    @property
    def owners(self) -> int:
        """Sequences with a state of their own."""
        return len(self.chunks) or self.batch


def rounded(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Normal numbers rounded to ``dtype``."""
    return rng.standard_normal(shape).astype(np.float32).astype(NUMPY[dtype])


def tensors_of(case: Case, seed: int = 0) -> Arrays:
    """Random operands of the Mamba-2 scan."""
    rng = np.random.default_rng(seed)
    b, s, h, p, n = case.batch, case.steps, case.heads, case.size, case.state
    return dict(
        x=rounded(rng, case.dtype, b, s, h, p),
        da=(-case.decay * rng.random((b, h, s))).astype(np.float32),
        B=rounded(rng, case.dtype, b, s, case.groups, n),
        C=rounded(rng, case.dtype, b, s, case.groups, n),
        initial_states=rng.standard_normal((case.owners, h, p, n)).astype(np.float32),
        dy=rounded(rng, case.dtype, b, s, h, p),
        d_final=rng.standard_normal((case.owners, h, p, n)).astype(np.float32),
    )


def first_chunks_of(case: Case) -> np.ndarray | None:
    """The input of packed batches, padded to whole blocks."""
    if not case.chunks:
        return None
    bounds = np.concatenate([[0], np.cumsum(case.chunks)]).astype(np.int32)
    return np.pad(bounds, (0, -len(bounds) % 8))


def bounds_of(case: Case) -> np.ndarray | None:
    """cu_seqlens in steps."""
    if not case.chunks:
        return None
    return np.concatenate([[0], np.cumsum(case.chunks)]) * (case.chunk // case.rank)


def run_kernel(case: Case, t: Arrays, soc: str, engine: str = "native") -> Arrays:
    """Outputs of the forward and the backward kernel of the Mamba-2 scan."""
    ins = [t[name] for name in ("x", "da", "B", "C", "initial_states")]
    first = first_chunks_of(case)
    more = [] if first is None else [first]
    attrs = dict(chunk_size=case.chunk)
    program = traced("ssd_chunk_scan", [*ins, first], attrs, soc)
    y, final = mco.run(program, ins + more, engine=engine)
    ins += [t["dy"], t["d_final"]]
    program = traced("ssd_chunk_scan_grad", [*ins, first], attrs, soc)
    grads = mco.run(program, ins + more, engine=engine)
    return dict(y=y, final_states=final) | dict(
        zip(("d_x", "d_da", "d_B", "d_C", "d_initial_states"), grads, strict=True)
    )


def run_golden(case: Case, t: Arrays) -> Arrays:
    """The same in float64."""
    operands = {name: t[name].astype(np.float64) for name in ("x", "da", "B", "C", "initial_states")}
    bounds = bounds_of(case)
    y, final = golden.ssd_chunk_scan(**operands, cu_seqlens=bounds)
    grads = golden.ssd_chunk_scan_grad(
        **operands, dy=t["dy"].astype(np.float64), d_final=t["d_final"], cu_seqlens=bounds
    )
    return dict(y=y, final_states=final) | {f"d_{name}": d for name, d in grads.items()}


def tensors3_of(case: Case, seed: int = 0) -> Arrays:
    """Random operands of the Mamba-3 scan, as the public function takes them."""
    rng = np.random.default_rng(seed)
    b, s, r, h, p, n = case.batch, case.steps, case.rank, case.heads, case.size, case.state
    return dict(
        q=rounded(rng, case.dtype, b, s, r, case.groups, n),
        k=rounded(rng, case.dtype, b, s, r, case.groups, n),
        v=rounded(rng, case.dtype, b, s, r, h, p),
        da=(-case.decay * rng.random((b, h, s))).astype(np.float32),
        dt=np.log1p(np.exp(rng.standard_normal((b, h, s)) - 1)).astype(np.float32),
        trap=rng.standard_normal((b, h, s)).astype(np.float32),
        initial_states=rng.standard_normal((case.owners, h, p, n)).astype(np.float32),
        do=rounded(rng, case.dtype, b, s, r, h, p),
        d_final=rng.standard_normal((case.owners, h, p, n)).astype(np.float32),
    )


def _by_rows(case: Case, t: Arrays) -> Arrays:
    """The operands of the Mamba-3 primitive: one row per (step, rank)."""
    factor, gamma = golden3.trapezoid(t["dt"], t["trap"], bounds_of(case))

    def rows(x: np.ndarray) -> np.ndarray:
        return x.reshape(case.batch, case.steps * case.rank, *x.shape[3:])

    da = np.zeros((*t["da"].shape, case.rank), np.float32)
    da[..., 0] = t["da"]
    flat = {name: np.repeat(x, case.rank, -1).astype(np.float32) for name, x in (("factor", factor), ("gamma", gamma))}
    return dict(
        v=rows(t["v"]),
        da=da.reshape(*da.shape[:2], -1),
        **flat,
        k=rows(t["k"]),
        q=rows(t["q"]),
        initial_states=t["initial_states"],
        do=rows(t["do"]),
        d_final=t["d_final"],
    )


def run_kernel3(case: Case, t: Arrays, soc: str, engine: str = "native") -> Arrays:
    """Outputs of the Mamba-3 kernels; gradients of factor and gamma carried on to dt and trap."""
    w = _by_rows(case, t)
    ins = [w[name] for name in ("v", "da", "factor", "gamma", "k", "q", "initial_states")]
    first = first_chunks_of(case)
    more = [] if first is None else [first]
    attrs = dict(chunk_size=case.chunk, rank=case.rank)
    program = traced("mamba3_chunk_scan", [*ins, first], attrs, soc)
    o, final = mco.run(program, ins + more, engine=engine)
    ins += [w["do"], w["d_final"]]
    program = traced("mamba3_chunk_scan_grad", [*ins, first], attrs, soc)
    d_v, d_da, d_factor, d_gamma, d_k, d_q, d_h = mco.run(program, ins + more, engine=engine)

    def per_step(x: np.ndarray) -> np.ndarray:
        return x.reshape(*t["da"].shape, case.rank).astype(np.float64)

    d_dt, d_trap = bwd_dtrap_ddt(
        t["trap"], t["dt"], per_step(d_factor).sum(-1), per_step(d_gamma).sum(-1), bounds_of(case)
    )
    return dict(
        o=o.reshape(t["v"].shape),
        final_states=final,
        d_q=d_q.reshape(t["q"].shape),
        d_k=d_k.reshape(t["k"].shape),
        d_v=d_v.reshape(t["v"].shape),
        d_da=per_step(d_da)[..., 0],
        d_dt=d_dt,
        d_trap=d_trap,
        d_initial_states=d_h,
    )


def run_golden3(case: Case, t: Arrays) -> Arrays:
    """The same in float64."""
    names = ("q", "k", "v", "da", "dt", "trap", "initial_states")
    operands = {name: t[name].astype(np.float64) for name in names}
    bounds = bounds_of(case)
    o, final = golden3.mamba3_chunk_scan(**operands, cu_seqlens=bounds)
    grads = golden3.mamba3_chunk_scan_grad(
        **operands, do=t["do"].astype(np.float64), d_final=t["d_final"], cu_seqlens=bounds
    )
    return dict(o=o, final_states=final) | {f"d_{name}": d for name, d in grads.items()}
