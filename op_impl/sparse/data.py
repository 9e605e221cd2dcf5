# SPDX-License-Identifier: Apache-2.0
"""Case data of the sparse-attention family: lengths, pages and index rows that fit together, and the way from the
tensors of a primitive (batch axis of 1 for TND, padded lengths, weights and statistics) to those of a golden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import Arrays, Symbols
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.errors import OpArgumentError, describe

_PAGED = "PA_BSND"
_STATISTICS = ("softmax_max", "softmax_sum")
_KEY_LENGTHS = ("actual_seq_lengths_kv", "actual_seq_lengths_key")
_PER_TOKEN = ("query", "key", "value", "query_rope", "key_rope", "query_index", "key_index", "weights",
              "sparse_indices", "d_out", "attention_out")  # fmt: skip
"""Tensors that have no batch axis in TND."""
_OF_KEYS = ("key", "value", "key_rope")


@dataclass(frozen=True)
class SparseCall:
    """A call of any op of the family; ``paged``: keys in pages."""

    arrays: Mapping[str, np.ndarray]
    attrs: Mapping[str, Any]
    symbols: Symbols

    @property
    def layout(self) -> str:
        return self.attrs.get("layout", self.attrs.get("layout_query", "BSND"))

    @property
    def packed(self) -> bool:
        return self.layout == "TND"

    @property
    def layout_kv(self) -> str:
        return self.attrs.get("layout_kv", self.attrs.get("layout_key", self.layout))

    @property
    def paged(self) -> bool:
        return self.layout_kv == _PAGED

    @property
    def key_lengths(self) -> str | None:
        """Name of the lengths of keys, None without."""
        return next((n for n in _KEY_LENGTHS if n in self.arrays), None)

    @property
    def sequences(self) -> int:
        """Sequences of the call; lengths are padded beyond them."""
        if not self.packed:
            return self.symbols["B"]
        return len(self.arrays["block_table" if self.paged else "actual_seq_lengths_query"])

    @property
    def block(self) -> int:
        return self.attrs.get("sparse_block_size", 1)

    def natural(self, name: str) -> np.ndarray:
        """The tensor as a golden takes it."""
        x = self.arrays[name]
        if name == "block_table" or name.startswith("actual_seq_lengths"):
            return x[: self.sequences]
        if name == "weights":
            x = x[..., : self.symbols.get("NI", self.symbols["N1"])]
        keeps_axis = not self.packed or name not in _PER_TOKEN or (self.paged and name in _OF_KEYS)
        return x if keeps_axis else x[0]

    def batched(self, x: np.ndarray) -> np.ndarray:
        """A result of a golden with the batch axis of the primitive."""
        return x[None] if self.packed else x

    def same(self, *names: str) -> dict[str, Any]:
        """Arguments that golden and op call the same, those that are there."""
        return {name: self.natural(name) for name in names if name in self.arrays}


def attention_arguments(call: SparseCall) -> dict[str, Any]:
    """What the goldens of attention and of its gradient share; value None where key is the value."""
    given = call.same("query", "key", "value", "sparse_indices", "actual_seq_lengths_query", "actual_seq_lengths_kv",
                      "query_rope", "key_rope")  # fmt: skip
    if call.attrs.get("kv_merged", False) or "value" not in given:
        given["value"] = None
    if "sinks" in call.arrays:
        given["sinks"] = _sinks_of_heads(call)
    return {**given, "scale_value": call.attrs.get("scale_value", 1.0), "sparse_block_size": call.block,
            "sparse_mode": call.attrs.get("sparse_mode", 3)}  # fmt: skip


def _sinks_of_heads(call: SparseCall) -> np.ndarray:
    """Sinks (N1,) from their rows (B, N2, S1, G padded)."""
    rows = call.arrays["sinks"][..., : call.symbols["N1"] // call.symbols["N2"]]
    if (rows != rows[:1, :, :1]).any():
        raise OpArgumentError(describe("cases", "sinks", "different in different rows", "one per head"))
    return rows[0, :, 0].reshape(-1)


def forward_outputs(call: SparseCall, golden: Callable[..., Any]) -> tuple[np.ndarray, ...]:
    """attention_out, softmax_max and softmax_sum of the golden, with the batch axis of the primitive."""
    table = call.same("block_table")
    found = golden(**attention_arguments(call), **table, layout_query=call.layout, layout_kv=call.layout_kv)
    return tuple(call.batched(x) for x in found)


def single_rows(indices: np.ndarray) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """(place of a query row, indices with the entries of that row alone)."""
    for place in np.ndindex(indices.shape[:-2]):
        alone = np.full_like(indices, -1)
        alone[place] = indices[place]
        yield place, alone


def heads_only(outputs: Arrays, case: PlannedCase) -> Arrays:
    """Statistics and gradients of sinks and weights without padding of the heads."""
    heads = case.symbols["N1"] // case.symbols["N2"]
    sizes = {**dict.fromkeys((*_STATISTICS, "d_sinks"), heads), "d_weights": case.symbols.get("NI")}
    return {n: x[..., : sizes[n]] if n in sizes else x for n, x in outputs.items()}


# ---- tensors that follow from others ----
def complete(case: PlannedCase, rng: np.random.Generator, arrays: Arrays) -> None:
    """Lengths, pages, index rows, sinks, and what the forward op gives, in this order, as each follows from those
    before it. Values that a case file gives stay."""
    from ms_custom_ops.op_impl.sparse_flash_attention.golden import sparse_flash_attention

    call = SparseCall(arrays, case.attrs, case.symbols)
    made: Arrays = {}
    if "block_table" in arrays:
        made["block_table"] = _pages(call, rng)
    made.update(_lengths(call, rng))
    _take(case, arrays, made)
    if "sinks" in arrays:
        _take(case, arrays, {"sinks": np.broadcast_to(arrays["sinks"][:1, :, :1], arrays["sinks"].shape)})
    if "sparse_indices" in arrays:
        _take(case, arrays, {"sparse_indices": _index_rows(call, rng)})
    if "softmax_max" in arrays:
        wide = {n: a if a.dtype.kind in "iub" else a.astype(np.float64) for n, a in arrays.items()}
        out, *statistics = forward_outputs(SparseCall(wide, case.attrs, case.symbols), sparse_flash_attention)
        pad = [(0, 0)] * 3 + [(0, arrays["softmax_max"].shape[-1] - statistics[0].shape[-1])]
        made = {n: np.pad(x, pad) for n, x in zip(_STATISTICS, statistics, strict=True)}
        _take(case, arrays, {**made, "attention_out": out} if "attention_out" in arrays else made)


def _take(case: PlannedCase, arrays: Arrays, made: Arrays) -> None:
    for name, array in made.items():
        if name not in case.fills:
            kind = arrays[name].dtype
            array = array if kind.kind in "iub" else array.astype(np.float32)
            arrays[name] = np.ascontiguousarray(array.astype(kind))


def _pages(call: SparseCall, rng: np.random.Generator) -> np.ndarray:
    """Pages of each sequence, no page of two sequences where there are two for each; -1 behind."""
    table = np.full(call.arrays["block_table"].shape, -1)
    pages, each = call.symbols["BK"], _pages_each(call)
    table[:, :each] = np.resize(rng.permutation(pages), (len(table), each))
    return table


def _pages_each(call: SparseCall) -> int:
    rows, width = call.arrays["block_table"].shape
    return min(width, call.symbols["BK"], max(call.symbols["BK"] // rows, 2))


def _lengths(call: SparseCall, rng: np.random.Generator) -> Arrays:
    """Counts from 0 to all tokens, half of them at least in the first sequence; or, packed, inclusive prefix sums up
    to all tokens, cut at least once where there is place for two sequences, padded by the last. Packed queries and
    keys are cut at about the same shares, so that most rows of a causal mask see keys."""
    made: Arrays = {}
    tokens = {"actual_seq_lengths_query": call.symbols["S1"]}
    if call.key_lengths is not None:
        tokens[call.key_lengths] = call.symbols["S2"] * (_pages_each(call) if call.paged else 1)
    count = int(rng.integers(min(1, call.sequences - 1), call.sequences)) if call.packed else 0
    shares = rng.random(count)
    for name, most in tokens.items():
        if name not in call.arrays:
            continue
        shape = call.arrays[name].shape
        if call.packed and not (call.paged and name == call.key_lengths):
            cuts = np.sort(np.clip(shares + rng.normal(0, 0.05, shares.shape), 0, 1))
            made[name] = np.full(shape, most)
            made[name][: len(cuts)] = np.rint(cuts * most)
        else:
            made[name] = rng.integers(0, most + 1, shape)
            made[name][0] = rng.integers((most + 1) // 2, most + 1)
    return made


def _index_rows(call: SparseCall, rng: np.random.Generator) -> np.ndarray:
    """Unique ids among the visible blocks of each row, a partial last block in the last slot, then -1. Half of the
    rows and the last of a sequence are as long as they can be. Rows beyond a length hold ids that must not be read."""
    from ms_custom_ops.op_impl.sparse_flash_attention.selection import sequences

    ids, size = call.natural("sparse_indices"), call.block
    rows = rng.integers(0, -(-call.symbols["S2"] // size), (int(np.prod(ids.shape[:-2])), *ids.shape[-2:]))
    sides = [call.natural(n) if n in call.arrays else None
             for n in ("actual_seq_lengths_query", "actual_seq_lengths_kv", "block_table")]  # fmt: skip
    for sequence in sequences("cases", call.natural("query").shape, call.natural("key").shape, call.layout, sides[0],
                              sides[1], call.layout_kv, sides[2]):  # fmt: skip
        for i, row in enumerate(sequence.q_rows):
            visible = sequence.visible(i, call.attrs.get("sparse_mode", 3))
            blocks = -(-visible // size)
            most = min(ids.shape[-1], blocks)
            for head in range(ids.shape[-2]):
                full = i == sequence.q_len - 1 or rng.random() < 0.5
                count = most if full else int(rng.integers(0, most + 1))
                chosen = rng.permutation(blocks)[:count]
                if visible % size:
                    chosen = chosen[np.argsort(chosen == blocks - 1, kind="stable")]
                rows[row, head] = -1
                rows[row, head, :count] = chosen
    return call.batched(rows.reshape(ids.shape))


# ---- values ----
def latent_query(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols,
                  attrs: Mapping[str, Any]) -> np.ndarray:  # fmt: skip
    """Normal, times (D + rope)**-0.5 where the call does not scale the scores: those of normal keys are near 1."""
    width = symbols["D"] + attrs.get("rope_dim", symbols.get("R", 0))
    return rng.standard_normal(shape) * (1.0 if "scale_value" in attrs else width**-0.5)
