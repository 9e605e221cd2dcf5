# SPDX-License-Identifier: Apache-2.0
"""From calls of flash_attention to its primitive: rows in whole 32-byte blocks, masks broadcast along S1 and S2."""

from __future__ import annotations

from ms_custom_ops.lower.steps import Chain, Lowering, Steps, missing

_DIM, _ROWS, _LENGTHS = 16, 16, 8  # values of 2 and of 4 bytes in whole blocks


def lower(of: Lowering) -> Steps:
    """The primitive's masks have the rank 4, batch and head axes of 1 where they were broadcast."""
    b, n1, s1, s2, d = (of[name] for name in ("B", "N1", "S1", "S2", "D"))
    zeros = of.zeros()
    if 0 in (b, n1, s1, s2):
        return Steps({}, {}, {}, empty=True, answers=zeros)
    inputs: dict[str, Chain | None] = {
        name: of.need(name).pad(-1, missing(d, _DIM)) for name in ("query", "key", "value")
    }
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
    inputs |= {"attn_mask": mask, "real_shift": shift, "drop_mask": drop}
    for name in ("actual_seq_qlen", "actual_seq_kvlen"):
        lengths = of.constant(name)
        inputs[name] = lengths if lengths is None else lengths.pad(0, missing(b, _LENGTHS))
    inputs["seed_words"] = of.constant("seed_words")
    rows = s1 + missing(s1, _ROWS)
    stats = {name: Chain(name, (b, n1, rows), "float32").cut(-1, s1) for name in ("softmax_max", "softmax_sum")}
    out = Chain("attention_out", (b, n1, s1, d + missing(d, _DIM)), of.need("query").dtype).cut(-1, d)
    scale = of["scale_value"]
    attributes = {**of.call.attrs, "scale_value": float(d) ** -0.5 if scale is None else scale}
    return Steps(inputs, attributes, {"attention_out": out, **stats})
