# SPDX-License-Identifier: Apache-2.0
"""What the h_ methods share: operands as strided views, loops over them, and the 16 KiB of UB they work in.

A call becomes loops over the outer dimensions around instructions in counter mode, each on one run of elements that is
contiguous in every operand. A scalar operand is a 32-byte block of the work space that is read again and again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from ms_custom_ops.errors import TikCapacityError, TikError, TikScopeError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import FLOATS, SIZE
from ms_custom_ops.program.expr import Expr, as_expr, binary, cast
from ms_custom_ops.program.isa import BLOCK_BYTES, MASK_COUNT, MASK_COUNTER, VECTOR_BYTES
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_tensor, check_extent, check_scope, scalar_operand
from ms_custom_ops.tik.tensor import Tensor

RESERVED_BYTES = 16 * 1024
MAX_RANK = 8
# Place of scalar operands in the work space; the rest of it is tiles.
_SCALAR_BYTES = 128
TILE = 512  # elements of a tile
TILES = 7


class Run(NamedTuple):
    """One operand of a run: element offset, and the distance of its repeats in bytes."""

    buffer: ir.Buffer
    dtype: str
    offset: Any
    rep: int
    blk: int = BLOCK_BYTES

    def moved(self, elements: Any) -> Run:
        """The operand some elements further on; a repeated block stays."""
        return self if self.blk == 0 else self._replace(offset=self.offset + elements)


class Work:
    """The 16 KiB at the end of UB that the first h_ method of a kernel takes."""

    def __init__(self, b: Builder, api: str):
        free = b.capacity[ir.UB] - b.pointers[ir.UB]
        if free < RESERVED_BYTES:
            raise b.fail(
                TikCapacityError,
                api,
                "scope_ubuf bytes reserved by the h_ methods",
                RESERVED_BYTES,
                f"at most {free} bytes free on {b.soc.name}",
            )
        b.capacity[ir.UB] -= RESERVED_BYTES
        size = RESERVED_BYTES
        self.buffer = ir.Buffer(len(b.program.buffers), "h_work", ir.UB, "uint8", (size,), size, b.capacity[ir.UB])
        b.program.buffers.append(self.buffer)
        b.prologue.append(ir.Alloc(self.buffer, 0))

    def scalar(self, dtype: str, number: int) -> Run:
        """The block of scalar operand ``number``."""
        return Run(self.buffer, dtype, number * BLOCK_BYTES // SIZE[dtype], 0, 0)

    def tile(self, dtype: str, number: int) -> Run:
        """A tile of TILE elements of at most 4 bytes."""
        first = _SCALAR_BYTES + number * TILE * 4
        return Run(self.buffer, dtype, first // SIZE[dtype], VECTOR_BYTES)


def work_of(b: Builder, api: str) -> Work:
    """The work space, reserved at the first call."""
    if b.h_work is None:
        b.h_work = Work(b, api)
    return b.h_work


def check_h_scope(b: Builder, api: str) -> None:
    """h_ methods cannot stand where synchronisation is off."""
    if any(f.disable_sync for f in b.frames):
        raise b.fail(TikScopeError, api, "scope", "new_stmt_scope(disable_sync=True)", "scopes with synchronisation")


def operand(b: Builder, api: str, name: str, value: Any, scopes: tuple = (ir.UB,)) -> Tensor:
    """A tensor operand: scope, rank, and bytes of its view."""
    t = as_tensor(value, api, name)
    check_scope(b, t, api, name, scopes)
    if not 1 <= len(t.shape) <= MAX_RANK:
        raise b.fail(TikError, api, f"rank of {name}", len(t.shape), f"1..{MAX_RANK}")
    if all(v.__class__ is int for v in (*t.shape, *t.strides)):
        span = sum((n - 1) * s for n, s in zip(t.shape, t.strides, strict=True)) + 1
        check_extent(t, span * SIZE[t.dtype], api, name)
    return t


def same_shape(b: Builder, api: str, dst: Tensor, others: dict[str, Tensor]) -> None:
    """Operands of one shape; dimensions known only at run time are taken on trust."""
    for name, t in others.items():
        known = [x for x in zip(dst.shape, t.shape, strict=False) if all(v.__class__ is int for v in x)]
        if len(t.shape) != len(dst.shape) or any(x != y for x, y in known):
            raise b.fail(TikError, api, f"shape of {name}", list(t.shape), f"shape of dst, {list(dst.shape)}")


def check_alias(b: Builder, api: str, dst: Tensor, others: dict[str, Tensor]) -> None:
    """Operands of one tensor are the same view or apart."""
    for name, t in others.items():
        if t.storage is not dst.storage or any(v.offset.__class__ is not int for v in (dst, t)):
            continue
        if any(x.__class__ is not int for v in (dst, t) for x in (*v.shape, *v.strides)):
            continue
        (d0, d1), (s0, s1) = _span(dst), _span(t)
        same = d0 == s0 and dst.strides == t.strides and SIZE[dst.dtype] == SIZE[t.dtype]
        if d0 < s1 and s0 < d1 and not same and not _apart(dst, t):
            raise b.fail(
                TikError,
                api,
                f"bytes of {name} in tensor {t.name}",
                f"{s0}..{s1 - 1}",
                f"those of dst ({d0}..{d1 - 1}) exactly, or bytes apart from them",
            )


def _apart(a: Tensor, c: Tensor) -> bool:
    """Whether two slices of one shape of columns interleave without touching (equal strides)."""
    if a.strides != c.strides or a.dtype != c.dtype or len(a.shape) < 2:
        return False
    row = a.strides[-2]
    return (
        row > 0
        and all(t.offset % row + (t.shape[-1] - 1) * t.strides[-1] < row for t in (a, c))
        and (
            a.offset % row + (a.shape[-1] - 1) * a.strides[-1] < c.offset % row
            or c.offset % row + (c.shape[-1] - 1) * c.strides[-1] < a.offset % row
        )
    )


def _span(t: Tensor) -> tuple[int, int]:
    size = SIZE[t.dtype]
    last = sum((n - 1) * s for n, s in zip(t.shape, t.strides, strict=True))
    return t.offset * size, (t.offset + last + 1) * size


def _equal(a: Any, c: Any) -> bool:
    return a is c or a.__class__ is int and c.__class__ is int and a == c


def merged(shape: tuple, strides: list[tuple]) -> tuple[list, list[list]]:
    """Dimensions from the outermost on, neighbours joined where every operand is contiguous across them."""
    dims: list = []
    steps: list[list] = []
    for k, n in enumerate(shape):
        mine = [s[k] for s in strides]
        if n.__class__ is int and n == 1 and (dims or k + 1 < len(shape)):
            continue
        if dims and all(
            _equal(up, n * s if n.__class__ is int and s.__class__ is int else None)
            for up, s in zip(steps[-1], mine, strict=True)
        ):
            dims[-1] = dims[-1] * n
            steps[-1] = mine
        else:
            dims.append(n)
            steps.append(mine)
    return dims or [1], steps or [[1] * len(strides)]


class HBase:
    """Loops and emission, for the mixins of the h_ methods."""

    _b: Builder
    for_range: Callable[..., Any]

    def _emit_run(self, op: str, operands: list[Run], count: Any, middle: tuple = (), attrs: tuple = ()) -> None:
        """An element-wise instruction on ``count`` contiguous elements of each operand."""
        lanes = VECTOR_BYTES // max(SIZE[r.dtype] for r in operands)
        tail = [x for r in operands for x in (r.blk, lanes * SIZE[r.dtype] if r.blk else 0)]
        self._instr(op, operands, (count, 0, 0, *middle, *tail), (MASK_COUNTER, *attrs))

    def _instr(self, op: str, operands: list[Run], args: tuple, attrs: tuple = ()) -> None:
        # Rows of a view lie off the grid; that, an offset of dtype uint64 says.
        refs = tuple(ir.Ref(r.buffer, r.dtype, _anywhere(r.offset)) for r in operands)
        self._b.body.append(ir.Instr(op, refs, args, attrs, self._b.loc()))

    def _over(self, views: list[Tensor], body: Callable[[list[Run], Any], None]) -> None:
        """``body(operands, count)`` for every run of elements that is contiguous in all views."""
        dims, steps = merged(views[0].shape, [v.strides for v in views])
        runs = [Run(v.storage.buffer, v.dtype, v.offset, 0) for v in views]
        if all(s.__class__ is int and s == 1 for s in steps[-1]):
            outer, count = list(zip(dims[:-1], steps[:-1], strict=True)), dims[-1]
        else:
            outer, count = list(zip(dims, steps, strict=True)), 1
        with contextlib.ExitStack() as stack:
            for n, step in outer:
                i = stack.enter_context(self.for_range(0, n)) if not _equal(n, 1) else 0
                runs = [r.moved(i * s) for r, s in zip(runs, step, strict=True)]
            body(runs, count)

    def _elementwise(
        self,
        op: str,
        views: list[Tensor],
        extra: list[Run],
        middle: tuple = (),
        attrs: tuple = (),
        order: tuple | None = None,
    ) -> None:
        """An instruction over whole views; ``extra`` are scalar operands, ``order`` places views and extras."""
        dims, steps = merged(views[0].shape, [v.strides for v in views])
        one = all(s.__class__ is int and s == 1 for s in steps[-1])
        lanes = VECTOR_BYTES // max(SIZE[v.dtype] for v in views)
        count, rest = (dims[-1], len(dims) - 1) if one else (1, len(dims))
        short = count.__class__ is int and count <= lanes and rest > 0
        if not short or any(s.__class__ is not int for s in steps[rest - 1]):
            self._over(views, lambda runs, n: self._emit_run(op, self._placed(runs, extra, order), n, middle, attrs))
            return
        # A short run: the dimension around it becomes the repeats of one instruction.
        outer = list(zip(dims[: rest - 1], steps[: rest - 1], strict=True))
        repeat, rep = dims[rest - 1], steps[rest - 1]
        runs = [Run(v.storage.buffer, v.dtype, v.offset, s * SIZE[v.dtype]) for v, s in zip(views, rep, strict=True)]
        with contextlib.ExitStack() as stack:
            for n, step in outer:
                i = stack.enter_context(self.for_range(0, n)) if not _equal(n, 1) else 0
                runs = [r.moved(i * s) for r, s in zip(runs, step, strict=True)]
            operands = self._placed(runs, extra, order)
            tail = [x for r in operands for x in (r.blk, r.rep)]
            self._instr(op, operands, (count, 0, repeat, *middle, *tail), (MASK_COUNT, *attrs))

    @staticmethod
    def _placed(runs: list[Run], extra: list[Run], order: tuple | None) -> list[Run]:
        everything = [*runs, *extra]
        return everything if order is None else [everything[k] for k in order]

    def _fill(self, run: Run, value: Expr, count: Any) -> None:
        """``count`` elements of the work space = value."""
        self._instr("vector_dup", [run], (count, 0, 0, value, BLOCK_BYTES, VECTOR_BYTES), (MASK_COUNTER,))

    def _scalar_block(self, api: str, name: str, value: Any, dtype: str, number: int) -> Run:
        """A scalar operand as a block of the work space."""
        b = self._b
        if dtype in FLOATS and isinstance(value, int) and not isinstance(value, bool):
            raise b.fail(TikError, api, name, value, f"a float immediate or a {dtype} Scalar")
        run = work_of(b, api).scalar(dtype, number)
        self._fill(run, scalar_operand(b, value, dtype, api, name), BLOCK_BYTES // SIZE[dtype])
        return run

    def _tiles(self, count: Any, body: Callable[[Any, Any], None], size: int = TILE) -> None:
        """``body(first, n)`` for pieces of at most ``size`` of ``count`` elements."""
        if count.__class__ is int and count <= size:
            body(0, count)
            return
        pieces = -(-count // size) if count.__class__ is int else binary("/", as_expr(count) + (size - 1), size)
        with self.for_range(0, pieces) as i:
            first = i * size
            body(first, binary("min", binary("-", as_expr(count), first), size))


def _anywhere(offset: Any) -> Any:
    return cast(offset, "uint64") if isinstance(offset, Expr) else offset
