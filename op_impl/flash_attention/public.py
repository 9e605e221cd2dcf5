# SPDX-License-Identifier: Apache-2.0
"""From calls of flash_attention to its primitive: rows in whole 32-byte blocks, heads of one size, masks broadcast
along S1 and S2, packed sequences as one batch entry whose rows have bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ms_custom_ops.lower.steps import Chain, Computed, Lowering, Steps, missing

_DIM, _ROWS, _LENGTHS = 16, 16, 8  # values of 2 and of 4 bytes in whole blocks


def _masks(of: Lowering, b: int, s1: int, s2: int) -> dict[str, Chain | None]:
    """The primitive's masks have the rank 4, batch and head axes of 1 where they were broadcast."""
    mask, shift, drop = (of.tensor(name) for name in ("attn_mask", "real_shift", "drop_mask"))
    if mask is not None:
        mask = mask.stop().flags().reshape((1,) * (4 - len(mask.shape)) + mask.shape)
        mask = mask.broadcast((*mask.shape[:2], s1, s2)).pad(-1, missing(s2, _ROWS), 1.0)
    if shift is not None:
        # In float32, so that the gradient is summed over a batch axis of 1 before it is rounded.
        shift = shift.cast("float32").broadcast((b, *shift.shape[1:])) if shift.shape[0] < b else shift
        shift = shift.cast(of.need("query").dtype).pad(-1, missing(s2, _ROWS))
    if drop is not None:
        drop = drop.stop().flags().pad(-1, missing(s2, _ROWS))
    return {"attn_mask": mask, "real_shift": shift, "drop_mask": drop}


def _lengths(of: Lowering, b: int) -> dict[str, Chain | None]:
    found = {}
    for name in ("actual_seq_qlen", "actual_seq_kvlen"):
        lengths = of.constant(name)
        found[name] = lengths if lengths is None else lengths.pad(0, missing(b, _LENGTHS))
    return found


def _bounds(of: Lowering) -> tuple[dict[str, Chain | None], Computed]:
    """Bounds of the rows of packed sequences in place of lengths and mode."""
    t1, t2, mode = of["T1"], of["T2"], of["sparse_mode"]
    most = t1 + t2
    upper = 0 if mode == 3 else max(min(of["next_tokens"], most), -most) if mode == 4 else most
    lower = max(min(of["pre_tokens"], most), -most) if mode == 4 else most
    sources = tuple(of.need(name).source for name in ("actual_seq_qlen", "actual_seq_kvlen"))
    computed = Computed(
        "ms_custom_ops.op_impl.flash_attention.packed:row_bounds", ("row_bounds",), sources, (t1, t2, upper, lower)
    )
    chain = Chain("row_bounds", (2, t1 + missing(t1, _ROWS)), "int32")
    return {"actual_seq_qlen": None, "actual_seq_kvlen": None, "row_bounds": chain}, computed


def _attributes(attrs: Mapping[str, Any], d: int, packed: bool) -> dict[str, Any]:
    found = {name: value for name, value in attrs.items() if name != "layout"}
    if found["scale_value"] is None:
        found["scale_value"] = float(d) ** -0.5
    return found | {"sparse_mode": 0} if packed else found


def lower(of: Lowering) -> Steps:
    """Of query, key and value the narrower heads are padded with zeros: that changes no score and is cut off again."""
    packed = of["layout"] == "TND"
    n1, d, dv = (of[name] for name in ("N1", "D", "DV"))
    b, s1, s2 = (1, of["T1"], of["T2"]) if packed else (of["B"], of["S1"], of["S2"])
    zeros = of.zeros()
    if 0 in (b, n1, s1, s2):
        return Steps({}, {}, {}, empty=True, answers=zeros)
    wide = max(d, dv)
    wide += missing(wide, _DIM)

    def heads(name: str) -> Chain:
        chain = of.need(name)
        chain = chain.pad(-1, wide - chain.shape[-1])
        return chain.swap().batch(True) if packed else chain

    inputs: dict[str, Chain | None] = {name: heads(name) for name in ("query", "key", "value")}
    inputs |= _masks(of, b, s1, s2)
    inputs["seed_words"] = of.constant("seed_words")
    computed: tuple[Computed, ...] = ()
    if packed:
        bounds, made = _bounds(of)
        inputs, computed = inputs | bounds, (made,)
    else:
        inputs |= {**_lengths(of, b), "row_bounds": None}
    rows = s1 + missing(s1, _ROWS)
    out = Chain("attention_out", (b, n1, s1, wide), of.need("query").dtype).cut(-1, dv)
    stats = {name: Chain(name, (b, n1, rows), "float32").cut(-1, s1) for name in ("softmax_max", "softmax_sum")}
    if packed:
        out, stats = out.unbatch(True).swap(), {name: chain.unbatch(True) for name, chain in stats.items()}
    attributes = _attributes(of.call.attrs, d, packed)
    return Steps(inputs, attributes, {"attention_out": out, **stats}, computed)
