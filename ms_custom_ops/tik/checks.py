# SPDX-License-Identifier: Apache-2.0
"""Checks that every family of instructions shares: parameters, masks, operands, extents, overlaps.

Only what is known while tracing is checked; a parameter that is a Scalar or an expression passes.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from ms_custom_ops.errors import TikAlignError, TikError, TikOverflowError, TikScopeError, TikSupportError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import FLOATS, SIZE
from ms_custom_ops.program.expr import COMPARE, Expr, as_expr, cast
from ms_custom_ops.program.isa import BLOCK_BYTES, MASK_BITS, MASK_COUNT, MASK_COUNTER
from ms_custom_ops.program.isa.row import start_align
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.tensor import Tensor, product
from ms_custom_ops.where import user_location

WORD = 1 << 64
VECTOR_SCOPES = (ir.UB,)


def number(value: Any, api: str, name: str) -> Any:
    """int of an integer parameter known while tracing, Expr of one known only at run time."""
    if value.__class__ is int:
        return value
    if isinstance(value, Expr):
        e = value.get()
        if e.dtype in FLOATS and not (e.op == "const" and float(e.value).is_integer()):
            raise TikError(describe(api, name, f"a {e.dtype} expression", "an integer"), user_location())
        return int(e.value) if e.op == "const" else e
    if isinstance(value, Tensor):
        raise TikError(
            describe(api, name, f"tensor {value.name}", "an integer or a Scalar (load the element with Scalar.set_as)"),
            user_location(),
        )
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise TikError(describe(api, name, repr(value), "an integer or an integer Scalar"), user_location()) from None


def ranged(value: Any, api: str, name: str, low: int, high: int) -> Any:
    """:func:`number`, and TikError unless ``low <= value <= high`` when it is known."""
    v = number(value, api, name)
    if v.__class__ is int and not low <= v <= high:
        raise TikError(describe(api, name, v, f"{low}..{high}"), user_location())
    return v


def flag(value: Any, api: str, name: str) -> bool:
    """Python truth of a trace-time switch."""
    if isinstance(value, (bool, int, np.integer, np.bool_)) and value in (0, 1):
        return bool(value)
    raise TikError(describe(api, name, repr(value), "True or False"), user_location())


def scalar_operand(b: Builder, value: Any, dtype: str, api: str, name: str = "scalar") -> Expr:
    """Scalar of an instruction: an immediate, Scalar or expression, converted to the dtype of the instruction."""
    if isinstance(value, Expr):
        e = value.get()
        if e.op != "const" and e.dtype != dtype:
            check_scalar_conversion(b, api, f"dtype of {name} on {b.soc.name}", e.dtype, dtype)
        return cast(e, dtype)
    if isinstance(value, Tensor):
        raise TikError(describe(api, name, f"tensor {value.name}", f"a number or a {dtype} Scalar"), user_location())
    if isinstance(value, (float, np.floating)):
        if dtype not in FLOATS and not float(value).is_integer():
            raise TikError(describe(api, name, value, f"an integer ({dtype})"), user_location())
        return b.immediate(float(value) if dtype in FLOATS else int(value), dtype)
    try:
        as_int = operator.index(value)
    except TypeError:
        raise TikError(describe(api, name, repr(value), f"a number or a {dtype} Scalar"), user_location()) from None
    return b.immediate(float(as_int) if dtype in FLOATS else as_int, dtype)


def check_scalar_conversion(b: Builder, api: str, what: str, src: str, dst: str) -> None:
    """TikSupportError where the scalar unit cannot convert: Ascend310 makes no float of an integer, and no float32
    of a float16."""
    if b.family != "310" or dst not in FLOATS or src in FLOATS and not (src == "float16" and dst == "float32"):
        return
    raise TikSupportError(describe(api, what, src, f"{dst}: the scalar unit has no conversion to it"), user_location())


class Mask(NamedTuple):
    """A canonical mask; ``lanes`` is the last selected lane + 1, None when known only at run time."""

    kind: int
    low: Any
    high: Any
    lanes: int | None


def mask_of(value: Any, lanes: int, api: str, mask_mode: str = "normal") -> Mask:
    """Mask of TIK's three forms: number of leading lanes, [high word, low word], total count in counter
    mode."""
    if mask_mode == "counter":
        count = ranged(value, api, "mask", 1, 2**32 - 1)
        return Mask(MASK_COUNTER, count, 0, count if count.__class__ is int else None)
    if mask_mode != "normal":
        raise TikError(describe(api, "mask_mode", repr(mask_mode), "'normal' or 'counter'"), user_location())
    if isinstance(value, (list, tuple)):
        return _mask_words(value, lanes, api)
    count = number(value, api, "mask")
    if count.__class__ is int:
        if not 1 <= count <= lanes:
            raise TikError(describe(api, "mask", count, f"1..{lanes} ({lanes} lanes per repeat)"), user_location())
        return Mask(MASK_COUNT, count, 0, count)
    return Mask(MASK_COUNT, count, 0, None)


def _mask_words(value: Any, lanes: int, api: str) -> Mask:
    if len(value) != 2:
        raise TikError(describe(api, "mask", f"a list of {len(value)}", "[mask_h, mask_l]"), user_location())
    high, low = (ranged(v, api, n, 0, WORD - 1) for v, n in zip(value, ("mask_h", "mask_l"), strict=False))
    if lanes <= 64:
        high = 0  # mask_l alone has the lanes
    if high.__class__ is int and low.__class__ is int:
        if high == 0 and low == 0:
            words = "mask_l alone" if lanes <= 64 else "mask_h, mask_l"
            accepted = f"a mask with a selected lane ({lanes} lanes per repeat: {words})"
            raise TikError(describe(api, "mask", f"[{value[0]}, {value[1]}]", accepted), user_location())
        last = (high << 64 | low).bit_length()
        if last > lanes:
            raise TikError(describe(api, "mask", f"[{high:#x}, {low:#x}]", f"bits 0..{lanes - 1}"), user_location())
        return Mask(MASK_BITS, low, high, last)
    return Mask(MASK_BITS, low, high, None)


def vector_need(lanes: int, repeat: int, blk: int, rep: int, size: int) -> int:
    """Bytes an operand reaches from its start: repeats ``rep`` bytes apart, blocks ``blk`` bytes apart."""
    per_block = BLOCK_BYTES // size
    blocks, tail = divmod(lanes - 1, per_block)
    last = BLOCK_BYTES if blk == 0 and blocks else (tail + 1) * size
    return (repeat - 1) * rep + blocks * blk + last


def as_tensor(value: Any, api: str, name: str) -> Tensor:
    """TikError unless the operand is a tensor."""
    if isinstance(value, Tensor):
        return value
    source = getattr(value, "address_of", None)
    if source is not None:
        raise TikSupportError(
            f"{api}: {name} is an address of TensorAddrList {source}; accepted: a Tensor (data_move, tensor_mov and "
            "data_move_pad take an address on one side; tensor.set_address_value places a GM tensor at it)",
            user_location(),
        )
    raise TikError(describe(api, name, type(value).__name__, "a Tensor"), user_location())


def check_scope(b: Builder, tensor: Tensor, api: str, name: str, scopes: tuple[str, ...]) -> None:
    """Liveness and buffer of an operand."""
    storage = tensor.storage
    if not storage.alive or storage.builder is not b:
        b.check_alive(storage, api)
    storage.used = True
    if storage.buffer.scope not in scopes:
        raise TikScopeError(
            describe(api, f"scope of {name} ({tensor.name})", storage.buffer.scope, ", ".join(scopes)), user_location()
        )


def check_start(tensor: Tensor, api: str, name: str, align: int | None = None) -> None:
    """Alignment of an operand's start address."""
    offset = tensor.offset
    if offset.__class__ is not int:
        return
    size = SIZE[tensor._dtype]
    need = start_align(tensor.storage.buffer.scope, size) if align is None else align
    if offset * size % need:
        raise TikAlignError(
            describe(
                api,
                f"start address of {name} ({tensor.name}[{offset}])",
                f"{offset * size} bytes",
                f"multiples of {need} bytes",
            ),
            user_location(),
        )


def check_same_dtype(b: Builder, api: str, dst: Any, other: Any, name: str = "src") -> None:
    """TikError unless an operand has the dtype of dst."""
    if other.dtype != dst.dtype:
        raise b.fail(TikError, api, f"dtype of {name}", other.dtype, f"dtype of dst, {dst.dtype}")


def check_dense(b: Builder, tensor: Tensor, api: str, name: str, need: int) -> None:
    """TikError or TikOverflowError unless the operand is contiguous and holds ``need`` elements."""
    if not tensor.dense:
        raise b.fail(TikError, api, name, "a non-contiguous slice", "a contiguous tensor or slice")
    have = product(tensor.shape)
    if have.__class__ is int and have < need:
        hint = "; t[i] is one element here: pass t[i:] or a slice" if tensor.point else ""
        raise TikOverflowError(
            f"{api}: {name} ({tensor.name}) overflow: elements needed {need}, elements there {have}" + hint,
            user_location(),
        )
    check_extent(tensor, need * SIZE[tensor.dtype], api, name)


def check_extent(tensor: Tensor, need: int | None, api: str, name: str, moves_blocks: bool = False) -> None:
    """TikOverflowError when an operand needs more bytes than lie between its start and the end of its memory.

    A local tensor occupies whole 32-byte blocks. The device allocates ALIGN_UP(n, 32) + 32 bytes for a GM tensor,
    which only a move of whole blocks (``moves_blocks``) may reach.
    """
    if need is None:
        return
    left = tensor.bytes_left()
    if left is not None and need > left:
        size = SIZE[tensor._dtype]
        assert tensor.total is not None
        spare = -tensor.total * size % BLOCK_BYTES
        if tensor.storage.buffer.scope == ir.GM:
            spare = spare + BLOCK_BYTES if moves_blocks else 0
        if need <= left + spare:
            return
        raise TikOverflowError(
            f"{api}: {name} ({tensor.name}) overflow: elements needed {-(-need // size) + tensor.offset}, "
            f"elements there {tensor.total}",
            user_location(),
        )


def _block_starts(base: int, blk: int, blocks: int) -> np.ndarray:
    return base + np.arange(max(blocks, 1), dtype=np.int64) * blk


def _touch(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether any 32-byte block of ``a`` overlaps one of ``b``."""
    return bool((np.abs(a[:, None] - b[None, :]) < BLOCK_BYTES).any())


def check_overlap(
    api: str,
    dst: Tensor,
    src: Tensor,
    src_name: str,
    dst_shape: tuple[int, int, int, int],
    src_shape: tuple[int, int, int, int],
    repeat: int,
) -> None:
    """Rules for operands of one tensor; shapes are (blocks, block stride, repeat stride, bytes needed).

    Identical address, strides and dtype is allowed (so is the accumulating form with both repeat strides 0).
    With one repeat a partial overlap is an error; with more, the destination of a repeat must not reach the
    source of the next.
    """
    if dst.storage is not src.storage or dst.offset.__class__ is not int or src.offset.__class__ is not int:
        return
    d0, s0 = dst.offset * SIZE[dst._dtype], src.offset * SIZE[src._dtype]
    d_blocks, d_blk, d_rep, d_need = dst_shape
    s_blocks, s_blk, s_rep, s_need = src_shape
    if d0 >= s0 + s_need or s0 >= d0 + d_need:
        return
    same = SIZE[dst._dtype] == SIZE[src._dtype] and d0 == s0 and d_blk == s_blk
    if same and (d_rep == s_rep or repeat == 1):
        return
    d, s = _block_starts(d0, d_blk, d_blocks), _block_starts(s0, s_blk, s_blocks)
    if repeat == 1:
        clash = _touch(d, s)
    else:
        clash = any(_touch(d + n * d_rep, s + (n + 1) * s_rep) for n in range(repeat - 1))
    if clash:
        rule = (
            "dst and src are identical or apart"
            if repeat == 1
            else "dst of one repeat and src of the next are identical or apart"
        )
        raise TikError(
            f"{api}: dst and {src_name} overlap in tensor {dst.name}: dst bytes {d0}..{d0 + d_need - 1} "
            f"(block stride {d_blk}, repeat stride {d_rep}), {src_name} bytes {s0}..{s0 + s_need - 1} "
            f"(block stride {s_blk}, repeat stride {s_rep}); accepted: {rule}",
            user_location(),
        )


def check_apart(api: str, dst: Tensor, src: Tensor, dst_need: int | None, src_need: int | None) -> None:
    """TikError when two contiguous operands of one tensor overlap without being the same range."""
    if dst.storage is not src.storage or dst_need is None or src_need is None:
        return
    if dst.offset.__class__ is not int or src.offset.__class__ is not int:
        return
    d0, s0 = dst.offset * SIZE[dst._dtype], src.offset * SIZE[src._dtype]
    if d0 < s0 + src_need and s0 < d0 + dst_need and (d0, dst_need) != (s0, src_need):
        raise TikError(
            f"{api}: dst and src overlap in tensor {dst.name}: dst bytes {d0}..{d0 + dst_need - 1}, src "
            f"bytes {s0}..{s0 + src_need - 1}; accepted: ranges that are apart or identical",
            user_location(),
        )


def as_scalar(value: Any, api: str, name: str) -> Expr:
    """Expression of a number, Scalar or expression operand."""
    try:
        return as_expr(value)
    except TikError:
        raise TikError(
            describe(api, name, type(value).__name__, "a number, Scalar or expression"), user_location()
        ) from None


def check_condition(b: Builder, api: str, e: Expr) -> None:
    """TikSupportError when an expression compares or computes in a float dtype the chip's scalar unit
    lacks."""
    stack = [e]
    no_compare = ("float16", "bfloat16", "float32") if b.family == "310" else ("float16", "bfloat16")
    while stack:
        node = stack.pop()
        if node.a is None:
            continue
        dtype = node.a.dtype
        if node.op in COMPARE and dtype in no_compare:
            raise TikSupportError(
                describe(
                    api,
                    f"dtype of comparison {node.op} on {b.soc.name}",
                    dtype,
                    "integers" if b.family == "310" else "integers, float32",
                ),
                user_location(),
            )
        if dtype == "bfloat16" and node.op not in ("cast", "bitcast"):
            raise TikSupportError(
                describe(api, f"dtype of operator {node.op}", dtype, "other dtypes (cast with astype)"), user_location()
            )
        stack.append(node.a)
        if node.b is not None:
            stack.append(node.b)
