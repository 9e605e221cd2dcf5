# SPDX-License-Identifier: Apache-2.0
"""Cases of lightning_indexer and of the KL loss at the primitive level, run without MindSpore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sparse_cases as sc
from kernel_trace import traced

from ms_custom_ops.op_impl.indexer_kl_loss import golden as kl_golden
from ms_custom_ops.op_impl.lightning_indexer import golden


@dataclass(frozen=True)
class IndexCase:
    """One call of lightning_indexer."""

    s1: int = 3
    s2: int = 40
    n1: int = 4
    d: int = 16
    count: int = 8
    mode: int = 3
    batch: int = 1
    dtype: str = "float16"
    packed: bool = False
    q_lengths: tuple[int, ...] | None = None
    kv_lengths: tuple[int, ...] | None = None
    ties: bool = False
    page: int = 0

    @property
    def id(self) -> str:
        """Readable test id."""
        flags = ("-ties" if self.ties else "") + (f"-page{self.page}" if self.page else "")
        return (
            f"{'TND' if self.packed else 'BSND'}-B{self.batch}-S{self.s1}x{self.s2}-N{self.n1}-D{self.d}-K{self.count}"
            f"-mode{self.mode}{flags}-{self.dtype}"
        )

    def leads(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Axes of query and key before heads."""
        if self.packed:
            return (self.s1,), (self.s2,)
        return (self.batch, self.s1), (self.batch, self.s2)


def index_tensors(case: IndexCase, seed: int = 0) -> list[np.ndarray]:
    """query, key, weights in the natural layout; small integers where ties are wanted."""
    rng = np.random.default_rng(seed)
    lead_q, lead_k = case.leads()
    shapes = ((*lead_q, case.n1, case.d), (*lead_k, 1, case.d), (*lead_q, case.n1))
    draw = (lambda s: rng.integers(-1, 2, s)) if case.ties else rng.standard_normal
    return [draw(shape).astype(np.float32).astype(sc.NUMPY[case.dtype]) for shape in shapes]


def paged_keys(key: np.ndarray, page: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys (B,S2,1,D) in shuffled pages (blocks, page, 1, D), S2 filled up with NaN, and their table (B, pages)."""
    batch, s2, _, d = key.shape
    count = -(-s2 // page)
    table = np.random.default_rng(7).permutation(batch * count).reshape(batch, count).astype(np.int32)
    full = np.pad(key.astype(np.float32), ((0, 0), (0, count * page - s2), (0, 0), (0, 0)), constant_values=np.nan)
    pages = np.empty((batch * count, page, 1, d), key.dtype)
    pages[table] = full.reshape(batch, count, page, 1, d).astype(key.dtype)
    return pages, sc.pad_last(table, 8)


def trace_indexer(case: IndexCase, tensors: list[np.ndarray], soc: str) -> tuple[Any, list[np.ndarray | None]]:
    """Program of the kernel and its inputs."""
    query, key, weights = (sc.batched(x, case.packed) for x in tensors)
    weights = sc.pad_last(weights.astype(np.float32), 16)
    q_lengths, kv_lengths = (sc.lengths_of(x, case.packed) for x in (case.q_lengths, case.kv_lengths))
    table = None
    if case.page:
        key, table = paged_keys(key, case.page)
    layout = "TND" if case.packed else "BSND"
    inputs = [query, key, weights, q_lengths, kv_lengths, table]
    attrs = dict(
        layout_query=layout,
        layout_key="PA_BSND" if case.page else layout,
        sparse_count=case.count,
        sparse_mode=case.mode,
    )
    program = traced("lightning_indexer", inputs, attrs, soc)
    return program, inputs


def run_indexer(case: IndexCase, tensors: list[np.ndarray], soc: str, engine: str = "native") -> list[np.ndarray]:
    """indices and values of the kernel, cut to the count."""
    outputs = sc.execute(*trace_indexer(case, tensors, soc), engine)
    assert (outputs[0][..., case.count :] == -1).all() and not outputs[1][..., case.count :].any()
    return [x[0, ..., : case.count] if case.packed else x[..., : case.count] for x in outputs]


def golden_indexer(case: IndexCase, tensors: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """indices and values in float64."""
    return golden.lightning_indexer(
        *[x.astype(np.float64) for x in tensors],
        sparse_count=case.count,
        actual_seq_lengths_query=case.q_lengths,
        actual_seq_lengths_key=case.kv_lengths,
        layout_query="TND" if case.packed else "BSND",
        sparse_mode=case.mode,
    )


@dataclass(frozen=True)
class KlCase:
    """The main attention's case, and heads and head size of the indexer."""

    main: sc.Case
    heads: int = 4
    dim: int = 32
    weight: float = 1.0

    @property
    def id(self) -> str:
        """Readable test id."""
        return f"{self.main.id}-Ni{self.heads}-Di{self.dim}" + ("" if self.weight == 1 else f"-w{self.weight}")


def kl_tensors(case: KlCase) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Tensors of the main attention; query_index, key_index and weights."""
    rng, main = np.random.default_rng(5), case.main
    lead_q, lead_k = ((main.s1,), (main.s2,)) if main.packed else ((main.batch, main.s1), (main.batch, main.s2))
    shapes = ((*lead_q, case.heads, case.dim), (*lead_k, 1, case.dim), (*lead_q, case.heads))
    index = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    index[2] = index[2] * case.weight
    return sc.tensors_of(main), [x.astype(sc.NUMPY[main.dtype]) for x in index]


def run_kl(
    case: KlCase,
    t: dict[str, Any],
    index: list[np.ndarray],
    soc: str,
    engine: str = "native",
    deterministic: bool = False,
) -> dict[str, Any]:
    """Gradients and loss of the kernel."""
    main, p = case.main, sc.primitive_tensors(case.main, t)
    _, top, total = sc.run_forward(main, p, soc, engine)
    qi, ki, w = (sc.batched(x, main.packed) for x in index)
    w = sc.pad_last(w.astype(np.float32), 16)
    inputs = [
        p["query"],
        p["key"],
        qi,
        ki,
        w,
        p["sparse_indices"],
        top,
        total,
        p["query_rope"],
        p["key_rope"],
        p["actual_seq_lengths_query"],
        p["actual_seq_lengths_kv"],
    ]
    attrs = dict(
        scale_value=(main.d + main.rope) ** -0.5,
        layout="TND" if main.packed else "BSND",
        sparse_mode=main.mode,
        deterministic=deterministic,
    )
    program = traced("sparse_lightning_indexer_grad_kl_loss", inputs, attrs, soc)
    d_qi, d_ki, d_w, loss = sc.execute(program, inputs, engine)
    out = {"d_query_index": d_qi, "d_key_index": d_ki, "d_weights": d_w[..., : case.heads]}
    return {n: x[0] if main.packed else x for n, x in out.items()} | {
        "loss": float(loss[..., 0].astype(np.float64).sum())
    }


def golden_kl(case: KlCase, t: dict[str, Any], index: list[np.ndarray]) -> kl_golden.KlGradients:
    """The same in float64."""
    main = case.main
    wide = {n: t[n].astype(np.float64) for n in ("query", "key", "query_rope", "key_rope") if n in t}
    qi, ki, w = (x.astype(np.float64) for x in index)
    return kl_golden.sparse_lightning_indexer_grad_kl_loss(
        **wide,
        query_index=qi,
        key_index=ki,
        weights=w,
        sparse_indices=t["sparse_indices"],
        scale_value=(main.d + main.rope) ** -0.5,
        actual_seq_lengths_query=main.q_lengths,
        actual_seq_lengths_kv=main.kv_lengths,
        layout="TND" if main.packed else "BSND",
        sparse_mode=main.mode,
    )
