# SPDX-License-Identifier: Apache-2.0
"""Arguments of ``flash_attention_score`` in terms of ``flash_attention``, from shapes and dtypes alone."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from ms_custom_ops.errors import OpArgumentError, OpDtypeError, describe
from ms_custom_ops.registry.public import Operand
from ms_custom_ops.registry.spec import Shape

OP = "flash_attention_score"
UNLIMITED = 2147483647
COMPRESSED_MASK = (2048, 2048)
# Axes of (B, S, N, D) for each layout; BSH and SBH have N and D in one axis.
LAYOUTS = {
    "BNSD": "(B, N, S, D)", "BSND": "(B, S, N, D)", "BSH": "(B, S, N * D)", "SBH": "(S, B, N * D)", "TND": "(T, N, D)",
}  # fmt: skip
PACKED = "TND"
MODES = {0: "default mask", 1: "all mask", 2: "causal, upper left", 3: "causal, lower right", 4: "band, lower right"}


@dataclass(frozen=True)
class Sizes:
    """Axes of the call; packed sequences are one batch entry. ``dv``: head size of value."""

    b: int
    n1: int
    n2: int
    s1: int
    s2: int
    d: int
    dv: int = 0


def _refuse(argument: str, given: object, accepted: object) -> None:
    raise OpArgumentError(describe(OP, argument, given, accepted))


def _static_shape(name: str, shape: Shape) -> Shape:
    """``shape``; a dynamic one is refused."""
    if any(size is None or size < 0 for size in shape):
        _refuse(name, f"of shape {shape}", "a static shape; dynamic shapes are not supported")
    return shape


def _axes(name: str, operand: Operand, layout: str) -> tuple[int, int, int | None, int]:
    """(B, S, N or None, D or H) of one tensor."""
    shape = _static_shape(name, operand.shape or ())
    if len(shape) != LAYOUTS[layout].count(",") + 1:
        _refuse(f"rank of {name}", f"{len(shape)} (shape {shape})", f"shape {LAYOUTS[layout]} of input_layout {layout}")
    if layout == "BNSD":
        return shape[0], shape[2], shape[1], shape[3]
    if layout == "BSND":
        return shape[0], shape[1], shape[2], shape[3]
    if layout == PACKED:
        return 1, shape[0], shape[1], shape[2]
    b, s = (shape[0], shape[1]) if layout == "BSH" else (shape[1], shape[0])
    return b, s, None, shape[2]


def sizes(query: Operand, key: Operand, value: Operand, head_num: Any, layout: Any) -> Sizes:
    """Axes; dtypes and head sizes are checked by ``flash_attention``."""
    if layout not in LAYOUTS:
        _refuse("input_layout", repr(layout), ", ".join(LAYOUTS))
    if isinstance(head_num, bool) or not isinstance(head_num, Integral) or head_num < 1:
        _refuse("head_num", repr(head_num), "an int of at least 1, the number of query heads N1")
    n1 = int(head_num)
    b, s1, heads, last = _axes("query", query, layout)
    if heads is None:
        if last % n1:
            _refuse("head_num", n1, f"a divisor of the hidden size {last} of query")
        d = last // n1
    else:
        d = last
        if heads != n1:
            _refuse("head_num", n1, f"the {heads} heads of query in layout {layout}")
    _, s2, heads, last = _axes("key", key, layout)
    if heads is None:
        if d == 0 or last % d:
            _refuse("hidden size of key", last, f"a multiple of the head size D = {d} of query")
        heads = last // d
    return Sizes(b, n1, heads, s1, s2, d, _value_size(key, value, heads, layout))


def _value_size(key: Operand, value: Operand, heads: int, layout: str) -> int:
    """Head size of value, which else has the shape of key."""
    shape, wanted = _static_shape("value", value.shape or ()), key.shape or ()
    count = heads if layout in ("BSH", "SBH") else 1
    if shape[:-1] != wanted[:-1] or count == 0 or shape[-1] % count:
        _refuse("value", f"of shape {shape}", f"the shape of key {wanted}, but for the size of a head")
    return shape[-1] // count


def _check_mask(mask: Operand, mode: int, z: Sizes) -> None:
    if mask.shape is None:
        if mode == 1:
            _refuse("attn_mask", None, "a tensor: sparse_mode 1 is the complete mask")
        return
    if mask.dtype not in ("bool", "uint8"):
        raise OpDtypeError(describe(OP, "dtype of attn_mask", mask.dtype, "bool or uint8"))
    full = ((z.b, z.n1, z.s1, z.s2), (z.b, 1, z.s1, z.s2), (z.s1, z.s2))
    accepted = full if mode in (0, 1) else (COMPRESSED_MASK,)
    if _static_shape("attn_mask", mask.shape) not in accepted:
        _refuse("attn_mask", f"of shape {mask.shape}", " or ".join(map(str, accepted)) + f" in sparse_mode {mode}")


def _check_shift(shift: Operand, dtype: str | None, z: Sizes) -> None:
    if shift.shape is None:
        return
    if shift.dtype != dtype:
        raise OpDtypeError(describe(OP, "dtype of real_shift", shift.dtype, f"{dtype}, the dtype of query"))
    accepted = ((z.b, z.n1, z.s1, z.s2), (1, z.n1, z.s1, z.s2))
    if _static_shape("real_shift", shift.shape) not in accepted:
        _refuse(
            "real_shift",
            f"of shape {shift.shape}",
            " or ".join(map(str, accepted)) + "; the compressed form of 1024 rows is not supported",
        )


def _check_dropout(drop: Operand, keep_prob: Any, z: Sizes) -> None:
    if isinstance(keep_prob, bool) or not isinstance(keep_prob, Real) or not 0 < float(keep_prob) <= 1:
        _refuse("keep_prob", repr(keep_prob), "a probability, 0 < keep_prob <= 1")
    if drop.shape is None:
        if keep_prob < 1:
            _refuse("drop_mask", f"None with keep_prob {keep_prob}", "a uint8 tensor when keep_prob is below 1")
        return
    if keep_prob == 1:
        _refuse("drop_mask", "given with keep_prob 1.0", "None when keep_prob is 1.0")
    if drop.dtype != "uint8":
        raise OpDtypeError(describe(OP, "dtype of drop_mask", drop.dtype, "uint8, eight positions per element"))
    if z.s2 % 8 or _static_shape("drop_mask", drop.shape) != (z.b, z.n1, z.s1, z.s2 // 8):
        _refuse(
            "drop_mask",
            f"of shape {drop.shape}",
            f"(B, N1, S1, S2 // 8) with (B, N1, S1, S2) = {(z.b, z.n1, z.s1, z.s2)} and S2 a multiple of 8",
        )


def _tokens(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        _refuse(name, repr(value), "an int")
    return int(value)


def _check_lengths(lengths: dict[str, Operand], operands: dict[str, Operand], mode: Any, layout: str) -> Any:
    """The mode of packed sequences, whose masks are counted within each; lengths of other layouts are refused."""
    for name, operand in lengths.items():
        if layout != PACKED and operand.there:
            _refuse(f"{name} (layout TND)", "given", f"None in input_layout {layout}")
        if layout == PACKED and not operand.there:
            _refuse(name, None, "inclusive prefix sums of the lengths: input_layout TND needs them")
    if layout != PACKED:
        return mode
    for name in ("real_shift", "drop_mask"):
        if operands[name].there:
            _refuse(name, "given", "None in input_layout TND")
    if mode in (0, 1) and operands["attn_mask"].there:
        _refuse("attn_mask", "given", f"None in input_layout TND and sparse_mode {mode}")
    if mode == 2:
        known = [operand.values for operand in lengths.values()]
        if None in known or known[0] != known[1]:
            accepted = "lists of equal lengths for both sides, else mode 3, causal from the lower right"
            _refuse("sparse_mode 2 in input_layout TND", "lengths that differ or are tensors", accepted)
        return 3
    return mode


def band(mode: int, has_mask: bool, pre_tokens: Any, next_tokens: Any, z: Sizes) -> tuple[int, int, int]:
    """(sparse_mode, pre_tokens, next_tokens) of ``flash_attention``.

    Mode 0 counts tokens from the upper-left diagonal and only beside a mask; ours counts from the lower-right
    one, which is S2 - S1 keys further.
    """
    if mode not in MODES or isinstance(mode, bool):
        _refuse("sparse_mode", repr(mode), ", ".join(f"{m} ({text})" for m, text in MODES.items()))
    pre, following = _tokens("pre_tokens", pre_tokens), _tokens("next_tokens", next_tokens)
    offset = z.s2 - z.s1
    if mode == 1 or (mode == 0 and (not has_mask or (pre >= z.s1 - 1 and following >= z.s2 - 1))):
        return 0, UNLIMITED, UNLIMITED
    if mode == 3 or (mode == 2 and offset == 0):
        return 3, UNLIMITED, UNLIMITED
    if mode == 2:
        return 4, UNLIMITED, -offset
    if pre + following < 0 or (mode == 0 and (following <= -z.s1 or pre <= -z.s2)):
        _refuse("pre_tokens, next_tokens", f"{pre}, {following}", "a band that is not empty")
    if mode == 0:
        return 4, pre + offset, following - offset
    return 4, pre, following


def check(
    operands: dict[str, Operand],
    head_num: Any,
    keep_prob: Any,
    scalar_value: Any,
    layout: Any,
    sparse_mode: Any,
    pre_tokens: Any,
    next_tokens: Any,
    lengths: dict[str, Operand],
) -> tuple[Shape, tuple[int, int, int]]:
    """((B, N1, N2, S1, S2, D, Dv), (mode, pre, next)) of the call, or the error that says why it is refused."""
    for name, operand in operands.items():
        needed = name in ("query", "key", "value")
        if operand.other or operand.values is not None or not (operand.there or not needed):
            given = operand.other or (None if operand.values is None else list(operand.values))
            _refuse(name, given, "a tensor" if needed else "a tensor or None")
    z = sizes(operands["query"], operands["key"], operands["value"], head_num, layout)
    sparse_mode = _check_lengths(lengths, operands, sparse_mode, layout)
    mode = band(sparse_mode, operands["attn_mask"].shape is not None, pre_tokens, next_tokens, z)
    _check_mask(operands["attn_mask"], sparse_mode, z)
    _check_shift(operands["real_shift"], operands["query"].dtype, z)
    _check_dropout(operands["drop_mask"], keep_prob, z)
    if isinstance(scalar_value, bool) or not isinstance(scalar_value, Real):
        _refuse("scalar_value", repr(scalar_value), "a float")
    return (z.b, z.n1, z.n2, z.s1, z.s2, z.d, z.dv), mode
