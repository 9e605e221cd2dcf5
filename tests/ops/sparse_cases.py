# SPDX-License-Identifier: Apache-2.0
"""Cases of the sparse-attention ops at the primitive level, run without MindSpore and compared with the goldens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from kernel_trace import traced

import ms_custom_ops as mco
from ms_custom_ops.op_impl.sparse_flash_attention import golden
from ms_custom_ops.registry import get_op

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
LIMIT = {"float16": 1e-3, "bfloat16": 5e-3}
D_STATISTICS = ("d_softmax_max", "d_softmax_sum")


@dataclass(frozen=True)
class Case:
    """One call. ``q_lengths``/``kv_lengths``: counts (BSND), prefix sums (TND, ``packed``) or None."""

    s1: int = 5
    s2: int = 40
    n1: int = 8
    k: int = 16
    d: int = 64
    dv: int | None = None
    rope: int = 16
    block: int = 1
    mode: int = 3
    batch: int = 1
    n2: int = 1
    dtype: str = "float16"
    packed: bool = False
    q_lengths: tuple[int, ...] | None = None
    kv_lengths: tuple[int, ...] | None = None
    sinks: bool = False
    merged: bool = False
    full_rows: bool = False
    statistics: bool = False
    page: int = 0
    note: str = ""

    @property
    def id(self) -> str:
        """Readable test id."""
        layout = "TND" if self.packed else "BSND"
        flags = "".join(f"-{n}" for n in ("sinks", "merged", "full_rows", "statistics") if getattr(self, n))
        flags += f"-page{self.page}" if self.page else ""
        dv = f"v{self.dv}" if self.dv else ""
        return (
            f"{layout}-B{self.batch}-S{self.s1}x{self.s2}-N{self.n1}g{self.n2}-K{self.k}b{self.block}-D{self.d}{dv}"
            f"r{self.rope}-mode{self.mode}{flags}-{self.dtype}" + (f"-{self.note}" if self.note else "")
        )

    @property
    def value_dim(self) -> int:
        """Dv."""
        return self.d if self.dv is None else self.dv


def random_indices(case: Case, rng: np.random.Generator, lead: tuple[int, ...]) -> np.ndarray:
    """Unique random block ids per row; a random -1 tail unless ``full_rows``."""
    blocks = -(-case.s2 // case.block)
    ids = np.full((int(np.prod(lead)) * case.n2, case.k), -1, np.int32)
    for i, row in enumerate(ids):
        count = min(case.k, blocks)
        row[:count] = rng.permutation(blocks)[:count]
        if not case.full_rows:
            row[rng.integers(0 if i % 5 == 4 else count // 2, count + 1) :] = -1
    return ids.reshape(*lead, case.n2, case.k)


def tensors_of(case: Case, seed: int = 0) -> dict[str, Any]:
    """Random inputs in the natural layout of the case."""
    rng = np.random.default_rng(seed)
    kind = NUMPY[case.dtype]

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32).astype(kind)

    lead_q = (case.s1,) if case.packed else (case.batch, case.s1)
    lead_k = (case.s2,) if case.packed else (case.batch, case.s2)
    out: dict[str, Any] = {
        "query": normal(*lead_q, case.n1, case.d),
        "key": normal(*lead_k, case.n2, case.d),
        "value": None if case.merged else normal(*lead_k, case.n2, case.value_dim),
        "sparse_indices": random_indices(case, rng, lead_q),
        "d_out": normal(*lead_q, case.n1, case.value_dim),
    }
    if case.rope:
        out["query_rope"] = normal(*lead_q, case.n1, case.rope)
        out["key_rope"] = normal(*lead_k, case.n2, case.rope)
    if case.sinks:
        out["sinks"] = rng.standard_normal(case.n1).astype(np.float32)
    if case.statistics:
        shape = (*lead_q[:-1], case.n2, lead_q[-1], case.n1 // case.n2)
        out |= {n: rng.standard_normal(shape).astype(np.float32) for n in D_STATISTICS}
    return out


def pad_last(x: np.ndarray, multiple: int, value: float = 0) -> np.ndarray:
    """The last axis padded to a multiple."""
    extra = -x.shape[-1] % multiple
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, extra)], constant_values=value)


def lengths_of(values: tuple[int, ...] | None, packed: bool) -> np.ndarray | None:
    """int32 lengths padded to whole blocks; prefix sums repeat the last one."""
    if values is None:
        return None
    array = np.asarray(values, np.int32)
    return np.pad(array, (0, -len(array) % 8), mode="edge") if packed else pad_last(array, 8)


def batched(x: np.ndarray | None, packed: bool) -> np.ndarray | None:
    """TND tensors get a batch axis of 1."""
    return x[None] if packed and x is not None else x


def primitive_tensors(case: Case, t: dict[str, Any]) -> dict[str, np.ndarray | None]:
    """The tensors as the primitive takes them."""
    out = {n: batched(t.get(n), case.packed) for n in ("query", "key", "value", "d_out", "query_rope", "key_rope")}
    if case.merged:
        out["value"] = out["key"]
    out["sparse_indices"] = batched(pad_last(t["sparse_indices"], 8, -1), case.packed)
    out["actual_seq_lengths_query"] = lengths_of(case.q_lengths, case.packed)
    out["actual_seq_lengths_kv"] = lengths_of(case.kv_lengths, case.packed)
    for name in D_STATISTICS:
        out[name] = batched(pad_last(t[name], 16), case.packed) if case.statistics else None
    out["sinks"] = None
    if case.sinks:
        groups = pad_last(t["sinks"].reshape(case.n2, -1), 16)
        lead = (1, case.s1) if case.packed else (case.batch, case.s1)
        out["sinks"] = np.ascontiguousarray(
            np.broadcast_to(groups[None, :, None], (lead[0], case.n2, lead[1], groups.shape[-1]))
        )
    return out


def execute(program: Any, inputs: list[np.ndarray | None], engine: str = "native") -> list[np.ndarray]:
    """Outputs of a program for the inputs that are there."""
    return mco.run(program, [x for x in inputs if x is not None], engine=engine)


FORWARD_INPUTS = (
    "query",
    "key",
    "value",
    "sparse_indices",
    "block_table",
    "actual_seq_lengths_query",
    "actual_seq_lengths_kv",
    "query_rope",
    "key_rope",
    "sinks",
)


def run_forward(case: Case, p: dict[str, Any], soc: str, engine: str = "native") -> list[np.ndarray]:
    """attention_out, softmax_max, softmax_sum as the primitive gives them."""
    layout = "TND" if case.packed else "BSND"
    inputs = [p.get(n) for n in FORWARD_INPUTS]
    attrs = dict(
        scale_value=(case.d + case.rope) ** -0.5,
        sparse_block_size=case.block,
        layout_query=layout,
        layout_kv="PA_BSND" if case.page else layout,
        sparse_mode=case.mode,
        rope_dim=case.rope,
        kv_merged=case.merged,
    )
    program = traced("sparse_flash_attention", inputs, attrs, soc)
    return execute(program, inputs, engine)


def run_backward(
    case: Case,
    p: dict[str, Any],
    forward: list[np.ndarray],
    soc: str,
    engine: str = "native",
    deterministic: bool = False,
) -> dict[str, np.ndarray]:
    """Gradients as the primitive gives them, by name."""
    names = ("query", "key", "value", "sparse_indices", "d_out")
    tail = ("sinks", "actual_seq_lengths_query", "actual_seq_lengths_kv", "query_rope", "key_rope", *D_STATISTICS)
    inputs = [*[p[n] for n in names], *forward, *[p.get(n) for n in tail]]
    attrs = dict(
        scale_value=(case.d + case.rope) ** -0.5,
        sparse_block_size=case.block,
        layout="TND" if case.packed else "BSND",
        sparse_mode=case.mode,
        rope_dim=case.rope,
        deterministic=deterministic,
        kv_merged=case.merged,
    )
    program = traced("sparse_flash_attention_grad", inputs, attrs, soc)
    found = {"d_query", "d_key", "d_value"} | {
        f"d_{n}" for n in ("query_rope", "key_rope", "sinks") if p[n] is not None
    }
    outputs = [ret.name for ret in get_op("sparse_flash_attention_grad").returns if ret.name in found]
    return dict(zip(outputs, execute(program, inputs, engine), strict=True))


def statistics_of(case: Case, x: np.ndarray) -> np.ndarray:
    """Statistics of the primitive in the natural layout."""
    x = x[..., : case.n1 // case.n2]
    return x[0] if case.packed else x


def run_kernels(
    case: Case, t: dict[str, Any], soc: str, engine: str = "native", deterministic: bool = False
) -> dict[str, np.ndarray]:
    """Forward and backward, in the natural layout."""
    p = primitive_tensors(case, t)
    forward = run_forward(case, p, soc, engine)
    out = {
        "attention_out": forward[0][0] if case.packed else forward[0],
        "softmax_max": statistics_of(case, forward[1]),
        "softmax_sum": statistics_of(case, forward[2]),
    }
    for name, value in run_backward(case, p, forward, soc, engine, deterministic).items():
        if name == "d_sinks":
            out[name] = value[..., : case.n1 // case.n2].astype(np.float64).sum(axis=(0, 2)).reshape(-1)
        elif not (case.merged and name == "d_value"):
            out[name] = value[0] if case.packed else value
    return out


def run_golden(case: Case, t: dict[str, Any], attention_out: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """The same quantities in float64; the gradients from ``attention_out`` as the gradient op takes it, if given."""
    layout = "TND" if case.packed else "BSND"
    wide = {n: None if x is None else x.astype(np.int64 if n == "sparse_indices" else np.float64) for n, x in t.items()}
    d_out = wide.pop("d_out")
    d_statistics = {n: wide.pop(n) for n in D_STATISTICS if n in wide}
    common = dict(
        wide,
        scale_value=(case.d + case.rope) ** -0.5,
        sparse_block_size=case.block,
        sparse_mode=case.mode,
        actual_seq_lengths_query=case.q_lengths,
        actual_seq_lengths_kv=case.kv_lengths,
    )
    out, top, total = golden.sparse_flash_attention(**common, layout_query=layout)
    grads = golden.sparse_flash_attention_grad(
        **common, **d_statistics, d_out=d_out, layout=layout, attention_out=attention_out
    )
    result = {"attention_out": out, "softmax_max": top, "softmax_sum": total}
    return result | {n: x for n, x in vars(grads).items() if x is not None}
