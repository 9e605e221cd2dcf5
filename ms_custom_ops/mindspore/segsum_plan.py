# SPDX-License-Identifier: Apache-2.0
"""Argument checks and static decisions of the segment-sum functions; needs no MindSpore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ms_custom_ops.errors import OpDtypeError, describe
from ms_custom_ops.mindspore.attention_plan import Operand, refuse, static_shape
from ms_custom_ops.op_impl.segsum.chunks import slot_count
from ms_custom_ops.tiling.segsum import MAX_CHUNK, MIN_CHUNK

FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class ChunkPlan:
    """Static decisions for one call over (B, H, S) in chunks.

    ``slots`` chunk slots; ``fill`` zeros make S a whole number of chunks; ``widen`` steps make a chunk the
    smallest that the kernels take. ``short``: some chunks may hold fewer steps than C. ``sequences``: packed
    sequences, 0 without cu_seqlens. ``through_float32``: the (B, H, S) operand is 16-bit and is moved around,
    which is done in float32.
    """

    empty: bool
    steps: int
    chunk: int
    slots: int
    fill: int
    widen: int
    short: bool
    sequences: int
    through_float32: bool = False

    @property
    def wide_chunk(self) -> int:
        """Steps per chunk at the primitive."""
        return self.chunk + self.widen


def check_chunk(op: str, chunk_size: Any) -> int:
    """``chunk_size`` as an int from 1 to 256."""
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, Integral) or not 1 <= int(chunk_size) <= MAX_CHUNK:
        refuse("chunk_size", repr(chunk_size), f"an int from 1 to {MAX_CHUNK}", op)
    return int(chunk_size)


def check_vectors(op: str, operands: dict[str, Operand], dtypes: Sequence[str] = ("float32",)) -> tuple[int, int, int]:
    """(B, H, S) of operands that all have the shape of the first one, and a dtype of ``dtypes``."""
    first, shape = next(iter(operands)), None
    for name, operand in operands.items():
        given = static_shape(name, operand.shape or (), op)
        if len(given) != 3:
            refuse(f"rank of {name}", f"{len(given)} (shape {given})", "3, shape (B, H, S)", op)
        shape = shape or given
        if given != shape:
            refuse(name, f"of shape {given}", f"{shape}, the shape of {first}", op)
        if operand.dtype not in dtypes:
            raise OpDtypeError(describe(op, f"dtype of {name}", operand.dtype, " or ".join(dtypes)))
    assert shape is not None
    return shape


def sequences_of(op: str, cu_seqlens: Operand, steps: int) -> int | None:
    """Number of packed sequences; None without cu_seqlens."""
    if cu_seqlens.values is not None:
        bounds = list(cu_seqlens.values)
        whole = all(isinstance(b, Integral) and not isinstance(b, bool) for b in bounds)
        if not whole or len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != steps or sorted(bounds) != bounds:
            refuse("cu_seqlens", bounds, f"at least 2 integers that do not fall, the first 0, the last S = {steps}", op)
        return len(bounds) - 1
    if cu_seqlens.shape is None:
        return None
    shape = static_shape("cu_seqlens", cu_seqlens.shape, op)
    if len(shape) != 1 or shape[0] < 2:
        refuse("cu_seqlens", f"of shape {shape}", "(sequences + 1,)", op)
    if cu_seqlens.dtype not in ("int32", "int64"):
        raise OpDtypeError(describe(op, "dtype of cu_seqlens", cu_seqlens.dtype, "int32 or int64"))
    return shape[0] - 1


def plan_vectors(op: str, operands: dict[str, Operand], chunk_size: Any, cu_seqlens: Operand) -> ChunkPlan:
    """Plan of an op over (B, H, S) operands; OpArgumentError or OpDtypeError for what is refused."""
    chunk = check_chunk(op, chunk_size)
    b, h, s = check_vectors(op, operands)
    sequences = sequences_of(op, cu_seqlens, s)
    slots = slot_count(s, chunk, sequences)
    return ChunkPlan(
        0 in (b, h, s),
        s,
        chunk,
        slots,
        slots * chunk - s if sequences is None else 0,
        max(MIN_CHUNK - chunk, 0),
        sequences is not None or s % chunk != 0,
        sequences or 0,
    )


def plan_matrices(
    op: str,
    matrices: dict[str, Operand],
    vectors: dict[str, Operand],
    chunk_size: Any,
    cu_seqlens: Operand,
    vector_dtypes: Sequence[str] | None = None,
) -> ChunkPlan:
    """Plan of an op over two (B, H, N, C, C) and some (B, H, S) operands.

    ``vector_dtypes``: accepted dtypes of the latter; None is float32 or that of the matrices.
    """
    chunk = check_chunk(op, chunk_size)
    (first_name, first), (second_name, second) = matrices.items()
    shape = static_shape(first_name, first.shape or (), op)
    if len(shape) != 5:
        refuse(f"rank of {first_name}", f"{len(shape)} (shape {shape})", "5, shape (B, H, N, C, C)", op)
    if shape[3:] != (chunk, chunk):
        refuse(first_name, f"of shape {shape}", f"(B, H, N, C, C) with C = {chunk} of chunk_size", op)
    if static_shape(second_name, second.shape or (), op) != shape:
        refuse(second_name, f"of shape {second.shape}", f"{shape}, the shape of {first_name}", op)
    if first.dtype not in FLOATS:
        raise OpDtypeError(describe(op, f"dtype of {first_name}", first.dtype, " or ".join(FLOATS)))
    if second.dtype != first.dtype:
        raise OpDtypeError(
            describe(op, f"dtype of {second_name}", second.dtype, f"{first.dtype}, that of {first_name}")
        )
    accepted = vector_dtypes or (("float32",) if first.dtype == "float32" else ("float32", str(first.dtype)))
    b, h, s = check_vectors(op, vectors, accepted)
    sequences = sequences_of(op, cu_seqlens, s)
    slots = slot_count(s, chunk, sequences)
    if shape[:3] != (b, h, slots):
        refuse(
            next(iter(vectors)),
            f"of shape {(b, h, s)}",
            f"one that fits {first_name}: B = {shape[0]}, H = "
            f"{shape[1]} and S steps in {shape[2]} chunk slots of {chunk}; {s} steps make {slots}",
            op,
        )
    fill = slots * chunk - s if sequences is None else 0
    widen = max(MIN_CHUNK - chunk, 0)
    half = next(iter(vectors.values())).dtype != "float32"
    return ChunkPlan(
        0 in (b, h, s),
        s,
        chunk,
        slots,
        fill,
        widen,
        sequences is not None or fill > 0,
        sequences or 0,
        half and (fill > 0 or widen > 0 or sequences is not None),
    )
