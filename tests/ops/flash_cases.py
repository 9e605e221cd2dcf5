# SPDX-License-Identifier: Apache-2.0
"""Cases of FlashAttention at the primitive level, run without MindSpore: traced, executed, compared with the golden."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
from kernel_trace import traced

import ms_custom_ops as mco
from ms_custom_ops.op_impl.flash_attention import golden

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
OPTIONAL = ("attn_mask", "real_shift", "drop_mask", "actual_seq_qlen", "actual_seq_kvlen")
LIMIT = {"float16": 2e-3, "bfloat16": 1.5e-2}


@dataclass(frozen=True)
class Case:
    """Shapes, mask mode (comma separated parts), dtype and attributes of one call."""

    s1: int
    s2: int
    d: int
    mode: str = "none"
    batch: int = 1
    n1: int = 2
    n2: int = 2
    dtype: str = "float16"
    strategy: str = "auto"
    high_precision: bool = True
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Readable test id."""
        extra = "" if self.strategy == "auto" else f"-{self.strategy}"
        extra += "" if self.high_precision else "-half"
        return f"B{self.batch}-N{self.n1}g{self.n2}-S{self.s1}x{self.s2}-D{self.d}-{self.mode}-{self.dtype}{extra}"


def attributes_of(case: Case) -> dict[str, Any]:
    """Keyword attributes that the case's mode stands for."""
    out: dict[str, Any] = dict(scale_value=case.d**-0.5)
    for part in case.mode.split(","):
        if part == "causal":
            out.update(sparse_mode=3)
        elif part == "band":
            out.update(sparse_mode=4, pre_tokens=max(case.s2 // 3, 1), next_tokens=max(case.s2 // 5, 1))
        elif part == "blocks":
            out.update(prev_block_num=1, next_block_num=0)
        elif part == "dropout":
            out.update(keep_prob=0.8, seed=1234567890123)
        elif part == "drop_mask":
            out.update(keep_prob=0.75)
    out.update(case.attrs)
    return out


def tensors_of(case: Case, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs; optional ones only where the mode asks for them."""
    rng = np.random.default_rng(seed)
    kind = NUMPY[case.dtype]

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32).astype(kind)

    q_shape, kv_shape = (case.batch, case.n1, case.s1, case.d), (case.batch, case.n2, case.s2, case.d)
    out = dict(query=normal(*q_shape), key=normal(*kv_shape), value=normal(*kv_shape), d_out=normal(*q_shape))
    parts = case.mode.split(",")
    if "mask" in parts:
        out["attn_mask"] = rng.random((1, 1, case.s1, case.s2)) < 0.3
    if "mask_batch" in parts:
        out["attn_mask"] = rng.random((case.batch, case.n1, case.s1, case.s2)) < 0.3
        out["attn_mask"][0, 0, case.s1 // 2] = True  # one fully masked row
    if "shift" in parts:
        out["real_shift"] = normal(1, case.n1, case.s1, case.s2)
    if "alibi" in parts:
        slopes = 2.0 ** -np.arange(1, case.n1 + 1)
        out["real_shift"] = (slopes[None, :, None, None] * np.arange(case.s2)[None, None, None] / case.s2).astype(kind)
    if "drop_mask" in parts:
        out["drop_mask"] = rng.random((case.batch, case.n1, case.s1, case.s2)) < 0.75
    if "lengths" in parts:
        out["actual_seq_qlen"] = rng.integers(0, case.s1 + 1, case.batch)
        out["actual_seq_kvlen"] = rng.integers(0, case.s2 + 1, case.batch)
    return out


def _pad_last(x: np.ndarray, multiple: int, value: float = 0) -> np.ndarray:
    extra = -x.shape[-1] % multiple
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, extra)], constant_values=value)


def prepare(case: Case, t: dict[str, np.ndarray]) -> dict[str, np.ndarray | None]:
    """The tensors as the primitive takes them: D, mask rows and lengths padded to whole blocks."""
    kind = NUMPY[case.dtype]
    out: dict[str, np.ndarray | None] = {n: _pad_last(t[n], 16) for n in ("query", "key", "value", "d_out")}
    for name, value, dtype in (("attn_mask", 1, np.float16), ("real_shift", 0, kind), ("drop_mask", 0, np.float16)):
        out[name] = _pad_last(t[name].astype(dtype), 16, value) if name in t else None
    if out["real_shift"] is not None:
        out["real_shift"] = np.repeat(out["real_shift"], case.batch // len(out["real_shift"]), 0)
    for name in ("actual_seq_qlen", "actual_seq_kvlen"):
        out[name] = _pad_last(t[name].astype(np.int32), 8) if name in t else None
    return out


def d_statistics(case: Case, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Gradients of softmax_max and softmax_sum: of a loss on both in modes that say so, else 0."""
    scale = 1.0 if "statistics" in case.mode.split(",") else 0.0
    rng = np.random.default_rng(5)
    return [(rng.standard_normal(shape) * scale).astype(np.float32) for _ in range(2)]


def run_kernel(case: Case, t: dict[str, np.ndarray], soc: str, engine: str = "native") -> dict[str, np.ndarray]:
    """Outputs of the forward and the backward kernel, cut back to the shapes of the case."""
    p = prepare(case, t)
    optional = [p[n] for n in OPTIONAL]
    attrs = attributes_of(case) | dict(tiling_stgy_name=case.strategy, high_precision=case.high_precision)
    operands = [p["query"], p["key"], p["value"]]
    program = traced("flash_attention", [*operands, *optional], attrs, soc)
    present = [x for x in optional if x is not None]
    out, top, total = mco.run(program, [*operands, *present], engine=engine)
    operands += [out, p["d_out"], top, total, *d_statistics(case, top.shape)]
    program = traced("flash_attention_grad", [*operands, *optional], attrs, soc)
    dq, dk, dv, *shift = mco.run(program, [*operands, *present], engine=engine)
    d, s1 = case.d, case.s1
    shift = [x[..., : case.s2] if len(t["real_shift"]) == len(x) else x[..., : case.s2].sum(0, keepdims=True)
             for x in shift]  # fmt: skip
    return dict(
        zip(("d_real_shift",), shift, strict=False),
        attention_out=out[..., :d],
        softmax_max=top[..., :s1],
        softmax_sum=total[..., :s1],
        d_query=dq[..., :d],
        d_key=dk[..., :d],
        d_value=dv[..., :d],
    )


def run_golden(case: Case, t: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same quantities in float64."""
    attrs = attributes_of(case)
    wide = {
        n: (x.astype(np.float64) if n in ("query", "key", "value", "d_out", "real_shift") else x) for n, x in t.items()
    }
    optional = {n: wide[n] for n in OPTIONAL if n in wide}
    out, top, total = golden.flash_attention(wide["query"], wide["key"], wide["value"], **optional, **attrs)
    rows = [
        x[..., : case.s1].astype(np.float64) for x in d_statistics(case, (case.batch, case.n1, -(-case.s1 // 16) * 16))
    ]
    dq, dk, dv, *shift = golden.flash_attention_grad(
        wide["query"], wide["key"], wide["value"], wide["d_out"], **optional, **attrs,
        d_softmax_max=rows[0], d_softmax_sum=rows[1],
    )  # fmt: skip
    return dict(
        zip(("d_real_shift",), shift, strict=False),
        attention_out=out,
        softmax_max=top,
        softmax_sum=total,
        d_query=dq,
        d_key=dk,
        d_value=dv,
    )


def with_dtype(case: Case, dtype: str) -> Case:
    """The case in another dtype."""
    return replace(case, dtype=dtype)
