# SPDX-License-Identifier: Apache-2.0
"""What ``flash_attention`` has to do to its arguments before the primitive, decided from shapes and dtypes
alone.

All refusals are made here, in terms of the public arguments. Plain Python: it runs while a graph is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NoReturn

from ms_custom_ops.errors import OpArgumentError, OpDtypeError, describe

OP = "flash_attention"
D_MAX = 256
D_MULTIPLE = 16
ROW_MULTIPLE = 16
LENGTH_MULTIPLE = 8
QUERY_DTYPES = ("float16", "bfloat16")
MASK_DTYPES = ("bool", "uint8", "float16")
SHIFT_DTYPES = ("float16", "bfloat16", "float32")
LENGTH_DTYPES = ("int32", "int64")

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """Shape and dtype of an argument; ``values`` for lengths given as a list."""

    shape: Shape | None
    dtype: str | None
    values: tuple[int, ...] | None = None


def refuse(argument: str, given: object, accepted: object, op: str = OP) -> NoReturn:
    """Raises OpArgumentError in the package's order: op, argument, given, accepted."""
    raise OpArgumentError(describe(op, argument, given, accepted))


def static_shape(name: str, shape: Sequence[Any], op: str = OP) -> Shape:
    """``shape`` as a tuple of ints; a dynamic one is refused."""
    if any(size is None or size < 0 for size in shape):
        refuse(name, f"of shape {tuple(shape)}", "a static shape; dynamic shapes are not supported", op)
    return tuple(int(size) for size in shape)


def _check_dtype(name: str, dtype: str | None, accepted: Sequence[str], why: str = "") -> None:
    if dtype not in accepted:
        raise OpDtypeError(describe(OP, f"dtype of {name}", dtype, " or ".join(accepted) + why))


def check_qkv(query: Operand, key: Operand, value: Operand) -> tuple[int, int, int, int, int, int]:
    """(B, N1, N2, S1, S2, D) of BNSD tensors."""
    shapes = []
    for name, operand, text in (
        ("query", query, "(B, N1, S1, D)"),
        ("key", key, "(B, N2, S2, D)"),
        ("value", value, "(B, N2, S2, D)"),
    ):
        shape = static_shape(name, operand.shape or ())
        if len(shape) != 4:
            refuse(f"rank of {name}", f"{len(shape)} (shape {shape})", f"4, shape {text}")
        shapes.append(shape)
    _check_dtype("query", query.dtype, QUERY_DTYPES)
    _check_dtype("key", key.dtype, (str(query.dtype),), ", the dtype of query")
    _check_dtype("value", value.dtype, (str(query.dtype),), ", the dtype of query")
    (b, n1, s1, d), (_, n2, s2, _), _ = shapes
    if shapes[1] != (b, n2, s2, d):
        refuse("key", f"of shape {shapes[1]}", f"shape (B, N2, S2, D) with B = {b} and D = {d} of query {shapes[0]}")
    if shapes[2] != shapes[1]:
        refuse("value", f"of shape {shapes[2]}", f"the shape of key {shapes[1]}")
    if n1 and (n2 == 0 or n1 % n2):
        refuse("head count N1 of query", n1, f"a multiple of N2 = {n2} of key")
    if not 1 <= d <= D_MAX:
        refuse("head size D of query", d, f"1 to {D_MAX}")
    if s1 < 1 or s2 < 1:
        refuse("sequence lengths S1, S2", f"{s1}, {s2}", "at least 1 each")
    return b, n1, n2, s1, s2, d


def round_up(value: int, multiple: int) -> int:
    """``value`` rounded up to a multiple."""
    return -(-value // multiple) * multiple


def _mask(mask: Operand, full: Shape) -> tuple[Shape, Shape] | None:
    """(rank-4 shape to reshape to, shape to broadcast to); the batch and head axes stay 1 where they are."""
    if mask.shape is None:
        return None
    shape = static_shape("attn_mask", mask.shape)
    _check_dtype("attn_mask", mask.dtype, MASK_DTYPES)
    if not 1 <= len(shape) <= 4:
        refuse(
            "rank of attn_mask", f"{len(shape)} (shape {shape})", f"1 to 4, broadcastable to (B, N1, S1, S2) = {full}"
        )
    shape4 = (1,) * (4 - len(shape)) + shape
    if any(size not in (1, wanted) for size, wanted in zip(shape4, full, strict=True)):
        refuse("attn_mask", f"of shape {shape}", f"a shape that broadcasts to (B, N1, S1, S2) = {full}")
    return shape4, shape4[:2] + full[2:]


def _check_shift(shift: Operand, full: Shape) -> None:
    if shift.shape is None:
        return
    shape = static_shape("real_shift", shift.shape)
    _check_dtype("real_shift", shift.dtype, SHIFT_DTYPES)
    b, n1, s1, s2 = full
    if len(shape) != 4 or shape[0] not in (1, b) or shape[1] != n1 or shape[2] not in (1, s1) or shape[3] != s2:
        refuse("real_shift", f"of shape {shape}", f"(1 or B, N1, 1 or S1, S2) with (B, N1, S1, S2) = {full}")


def _check_drop(drop: Operand, full: Shape) -> None:
    if drop.shape is None:
        return
    shape = static_shape("drop_mask", drop.shape)
    _check_dtype("drop_mask", drop.dtype, MASK_DTYPES)
    if shape != full:
        refuse("drop_mask", f"of shape {shape}", f"(B, N1, S1, S2) = {full}, 1 = kept")


def _check_lengths(name: str, lengths: Operand, b: int, longest: int) -> None:
    if lengths.values is not None:
        if len(lengths.values) != b:
            refuse(name, f"{len(lengths.values)} lengths", f"one per batch, B = {b}")
        if any(isinstance(n, bool) or not isinstance(n, Integral) or not 0 <= n <= longest for n in lengths.values):
            refuse(name, list(lengths.values), f"integers from 0 to {longest}")
        return
    if lengths.shape is None:
        return
    shape = static_shape(name, lengths.shape)
    _check_dtype(name, lengths.dtype, LENGTH_DTYPES)
    if shape != (b,):
        refuse(name, f"of shape {shape}", f"one length per batch, shape ({b},)")


def _scale(scale_value: Any, d: int) -> float:
    if scale_value is None:
        return float(d) ** -0.5
    if isinstance(scale_value, bool) or not isinstance(scale_value, Real):
        refuse("scale_value", f"{scale_value!r} ({type(scale_value).__name__})", "a float, or None for D^-0.5")
    return float(scale_value)


def _keep_prob(keep_prob: Any) -> None:
    if isinstance(keep_prob, bool) or not isinstance(keep_prob, Real) or not 0 < float(keep_prob) <= 1:
        refuse("keep_prob", repr(keep_prob), "a probability, 0 < keep_prob <= 1")


@dataclass(frozen=True)
class Plan:
    """Static decisions for one call.

    ``pad_d``, ``pad_s2`` and ``pad_b`` are elements to append to the last axis of query/key/value, of masks
    and of lengths, ``pad_s1`` those the primitive appends to statistics. ``mask`` holds the shapes of
    :func:`_mask`.
    """

    empty: bool
    stats_shape: Shape
    head_dim: int
    pad_d: int
    pad_s1: int
    pad_s2: int
    pad_b: int
    scale: float
    mask: tuple[Shape, Shape] | None


def plan_call(
    query: Operand,
    key: Operand,
    value: Operand,
    attn_mask: Operand,
    real_shift: Operand,
    drop_mask: Operand,
    q_lengths: Operand,
    kv_lengths: Operand,
    scale_value: Any,
    keep_prob: Any,
) -> Plan:
    """Plan of one call; OpArgumentError or OpDtypeError for what is refused."""
    b, n1, _, s1, s2, d = check_qkv(query, key, value)
    full = (b, n1, s1, s2)
    _keep_prob(keep_prob)
    _check_shift(real_shift, full)
    _check_drop(drop_mask, full)
    _check_lengths("actual_seq_qlen", q_lengths, b, s1)
    _check_lengths("actual_seq_kvlen", kv_lengths, b, s2)
    return Plan(
        empty=b == 0 or n1 == 0,
        stats_shape=(b, n1, s1),
        head_dim=d,
        pad_d=round_up(d, D_MULTIPLE) - d,
        pad_s1=round_up(s1, ROW_MULTIPLE) - s1,
        pad_s2=round_up(s2, ROW_MULTIPLE) - s2,
        pad_b=round_up(b, LENGTH_MULTIPLE) - b,
        scale=_scale(scale_value, d),
        mask=_mask(attn_mask, full),
    )
