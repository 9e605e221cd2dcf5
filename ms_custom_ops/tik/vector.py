# SPDX-License-Identifier: Apache-2.0
"""Element-wise vector instructions: one table row per API method, one method per template.

Templates: BIN (two sources), UN (one source), SC (a source and a scalar), each in the ``vec_`` form (block
stride 1, head-to-head repeat strides) and in the ``v`` form (block strides and ``stride_unit``). Every
method becomes one instruction of :mod:`ms_custom_ops.program.isa` with strides in bytes.

stride_unit: 0 block and repeat strides are distances from head to head in 32-byte units; 1 the repeat stride
is the gap between repeats; 2 the block stride is the gap between blocks and all strides count elements; 3 is
1 and 2 together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ms_custom_ops.errors import TikError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.isa import BLOCK_BYTES, MASK_COUNTER, VECTOR_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    VECTOR_SCOPES,
    Mask,
    as_tensor,
    check_extent,
    check_overlap,
    check_scope,
    check_start,
    mask_of,
    ranged,
    scalar_operand,
    vector_need,
)
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.where import user_location

MAX_REPEAT = 255
NO_SCALAR = object()
COUNTER_FAMILIES = ("310P", "310PV", "910B")


class Row(NamedTuple):
    """An API method: its instruction, the support-table row ("" when the caller checks dtypes), its stride
    ranges."""

    api: str
    op: str
    instruction: str
    max_blk: int
    max_rep: int
    mixed: bool = False  # float32 destination with float16 sources
    names: tuple[str, ...] = ("dst", "src0", "src1")


class Plan(NamedTuple):
    """Everything of a call that does not depend on where its tensors are: checked once, then shared."""

    head: tuple
    tail: tuple
    attrs: tuple
    needs: tuple
    shapes: tuple
    repeat: Any
    args: tuple  # head and tail: one object for every call that has no scalar between them


def canonical_strides(blk: Any, rep: Any, stride_unit: int, blocks: int, size: int) -> tuple[Any, Any]:
    """Block and repeat stride in bytes, head to head; ``blocks`` is the operand's number of blocks per
    repeat."""
    unit = BLOCK_BYTES if stride_unit < 2 else size
    blk_bytes = blk * unit if stride_unit < 2 else blk * unit + BLOCK_BYTES
    rep_bytes = rep * unit
    if stride_unit & 1:
        rep_bytes = rep_bytes + (blocks - 1) * blk_bytes + BLOCK_BYTES
    return blk_bytes, rep_bytes


def check_dtypes(b: Builder, row: Row, dtypes: tuple[str, ...]) -> None:
    """dtype rules: equal dtypes that the chip has, or float32 from float16 for the mixed instructions."""
    first = dtypes[0]
    if row.mixed and first == "float32" and all(d == "float16" for d in dtypes[1:]):
        require(b, row.api, row.instruction, "f32f16f16", "float32 from float16")
        return
    for name, dtype in zip(row.names[1:], dtypes[1:], strict=False):
        if dtype != first:
            raise TikError(describe(row.api, f"dtype of {name}", dtype, f"dtype of dst, {first}"), user_location())
    code = SHORT[first]
    if row.mixed:
        code = code * 3
    require(b, row.api, row.instruction, code, first)


def make_plan(
    b: Builder,
    row: Row,
    dtypes: tuple[str, ...],
    mask: Any,
    repeat: Any,
    blks: tuple,
    reps: tuple,
    stride_unit: Any,
    mask_mode: str,
    extra_attrs: tuple = (),
) -> Plan:
    """Check and canonicalise the parameters of a masked instruction."""
    api = row.api
    if row.instruction:
        check_dtypes(b, row, dtypes)
    if mask_mode == "counter" and b.family not in COUNTER_FAMILIES:
        raise b.fail(TikError, api, f"mask_mode on {b.soc.name}", "'counter'", "'normal'")
    lanes = VECTOR_BYTES // max(SIZE[d] for d in dtypes)
    m = mask_of(mask, lanes, api, mask_mode)
    r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
    su = ranged(stride_unit, api, "stride_unit", 0, 3)
    if su.__class__ is not int:
        raise b.fail(TikError, api, "stride_unit", "a Scalar", "0..3")
    return assemble(row, dtypes, m, r, blks, reps, su, lanes, extra_attrs)


def assemble(
    row: Row,
    dtypes: tuple[str, ...],
    m: Mask,
    r: Any,
    blks: tuple,
    reps: tuple,
    su: int,
    lanes: int,
    extra_attrs: tuple,
) -> Plan:
    """Strides in bytes, extents and shapes of a call whose mask and repeat are checked."""
    tail: list = []
    needs: list = []
    shapes: list = []
    last, repeats = m.lanes, r
    if m.kind == MASK_COUNTER and last is not None:
        repeats = -(-last // lanes)
        last = min(last, lanes)
    for name, dtype, blk, rep in zip(row.names, dtypes, blks, reps, strict=False):
        size = SIZE[dtype]
        blk = ranged(blk, row.api, f"{name}_blk_stride", 0, row.max_blk)
        rep = ranged(rep, row.api, f"{name}_rep_stride", 0, row.max_rep)
        if name == "dst" and blk.__class__ is int and blk == 0 and len(row.names) < 3:
            blk = 1  # the unary and scalar forms read 0 as contiguous
        blk_b, rep_b = canonical_strides(blk, rep, su, lanes * size // BLOCK_BYTES, size)
        tail += [blk_b, rep_b]
        if last is None or repeats.__class__ is not int or blk_b.__class__ is not int or rep_b.__class__ is not int:
            needs.append(None)
            shapes.append(None)
            continue
        need = vector_need(last, repeats, blk_b, rep_b, size)
        if m.kind == MASK_COUNTER:
            need = _counter_need(m.low, lanes, blk_b, rep_b, size)
        needs.append(need)
        shapes.append((-(-last * size // BLOCK_BYTES), blk_b, rep_b, need))
    head = (m.low, m.high, r)
    return Plan(head, tuple(tail), (m.kind, *extra_attrs), tuple(needs), tuple(shapes), repeats, (*head, *tail))


def _counter_need(count: int, lanes: int, blk: int, rep: int, size: int) -> int:
    """:func:`vector_need` in counter mode, where only the last repeat may be partial."""
    repeats = -(-count // lanes)
    need = vector_need(count - (repeats - 1) * lanes, repeats, blk, rep, size)
    return max(need, vector_need(lanes, repeats - 1, blk, rep, size)) if repeats > 1 else need


def plan_for(
    b: Builder,
    row: Row,
    dtypes: tuple,
    mask: Any,
    repeat: Any,
    blks: tuple,
    reps: tuple,
    stride_unit: Any,
    mask_mode: str,
    extra_attrs: tuple = (),
) -> Plan:
    """:func:`make_plan`, remembered for calls whose parameters are all Python ints (an Expr is no dict
    key)."""
    if mask.__class__ is int and repeat.__class__ is int and stride_unit.__class__ is int:
        for v in blks:
            if v.__class__ is not int:
                break
        else:
            for v in reps:
                if v.__class__ is not int:
                    break
            else:
                key = (row.api, dtypes, mask, repeat, blks, reps, stride_unit, mask_mode, extra_attrs)
                plan = b.plans.get(key)
                if plan is None:
                    plan = b.plans[key] = make_plan(
                        b, row, dtypes, mask, repeat, blks, reps, stride_unit, mask_mode, extra_attrs
                    )
                return plan
    return make_plan(b, row, dtypes, mask, repeat, blks, reps, stride_unit, mask_mode, extra_attrs)


def check_operands(b: Builder, row: Row, tensors: tuple[Tensor, ...], plan: Plan) -> None:
    """Scope, start, extent of each operand and the overlap of the destination with each source."""
    api = row.api
    for tensor, name, need in zip(tensors, row.names, plan.needs, strict=False):
        storage = tensor.storage
        if not storage.alive or storage.builder is not b or storage.buffer.scope != ir.UB:
            check_scope(b, tensor, api, name, VECTOR_SCOPES)
        offset = tensor.offset
        if offset.__class__ is int:
            start = offset * SIZE[tensor._dtype]
            if start % BLOCK_BYTES:
                check_start(tensor, api, name)
            if need is not None and tensor.total is not None and start + need > tensor.total * SIZE[tensor._dtype]:
                check_extent(tensor, need, api, name)
    dst = tensors[0]
    for k in range(1, len(tensors)):
        src = tensors[k]
        if (
            src.storage is dst.storage
            and plan.shapes[0] is not None
            and plan.shapes[k] is not None
            and plan.repeat.__class__ is int
            and (src is not dst or plan.shapes[k] != plan.shapes[0])
        ):
            check_overlap(api, dst, src, row.names[k], plan.shapes[0], plan.shapes[k], plan.repeat)


def emit_vector(
    b: Builder,
    row: Row,
    mask: Any,
    tensors: tuple,
    repeat: Any,
    blks: tuple,
    reps: tuple,
    stride_unit: Any = 0,
    scalar: Any = NO_SCALAR,
    mask_mode: str = "normal",
    extra_attrs: tuple = (),
    scalar_dtype: str | None = None,
) -> None:
    """Record one masked vector instruction of a table row."""
    if b.dead:
        return
    for tensor, name in zip(tensors, row.names, strict=False):
        if tensor.__class__ is not Tensor:
            as_tensor(tensor, row.api, name)
    dtypes = tuple([t._dtype for t in tensors])
    plan = plan_for(b, row, dtypes, mask, repeat, blks, reps, stride_unit, mask_mode, extra_attrs)
    check_operands(b, row, tensors, plan)
    if scalar is NO_SCALAR:
        args = plan.args
    else:
        value = scalar_operand(b, scalar, scalar_dtype or dtypes[-1], row.api)
        args = (*plan.head, value, *plan.tail)
    b.body.append(ir.Instr(row.op, tuple([t.ref() for t in tensors]), args, plan.attrs, b.loc()))
