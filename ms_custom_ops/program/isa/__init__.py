# SPDX-License-Identifier: Apache-2.0
"""The instruction set of a Program: for each instruction its operands, arguments and attributes, in order.

The three generations of TIK names (``vadd``, ``vec_add``, ``h_add``) all become these canonical instructions, so that
the engines know one form. The table is the one place that says what an instruction takes: the engine's C++ names and
checks (csrc/isa.inc) and docs/instructions.md are generated from it (``ms-custom-ops gen``). What the instruction
computes is written twice on purpose, in the reference engine and in the native one. Common rules:

* Strides, gaps and bursts are BYTES; block strides and repeat strides are distances from head to head, gaps of moves
  run from the end of one burst to the start of the next.
* A vector instruction works on ``lanes = 256 // widest operand size`` lanes per repeat. Lane ``L`` of repeat ``r`` of
  an operand of ``size`` bytes lies at ``base + r*rep + (L // E)*blk + (L % E)*size`` with ``E = 32 // size``.
* ``mask_kind`` 0 ("count"): the first ``mask0`` lanes; 1 ("bits"): lane L is bit L of ``mask1 << 64 | mask0``;
  2 ("counter"): ``mask0`` elements in all, ``repeat`` is ignored and is ``ceil(mask0 / lanes)``.
  Lanes that are off keep their destination.
* Repeats run in order. Within a repeat every source lane is read before a destination lane is written.
* ``repeat`` 0 is a no-op. A negative count, stride or mask is an error of the Program.
* A value that depends on a register is known only while running: where a row names a range for it ("while running"), a
  value outside is an error. Such an offset of an operand on the chip must lie on the grid of its memory (UB and L1: 32
  bytes, or the elements a row names), unless its dtype is uint64. Constants are held to the rules of TIK while tracing.
* float16 and bfloat16 results round to nearest even once per instruction (a multiply-add rounds after each of its two
  steps). With ``Program.saturate`` an infinite result becomes the largest finite value and NaN becomes 0;
  float32 is never saturated. Integer arithmetic wraps.
* exp, ln, rec, rsqrt, sqrt and div are the exact function rounded to the destination dtype (float32: within 1 ulp).
* Order of scores, for every sorting instruction: descending; -0 equals +0; NaN stands behind every number and equals
  other NaN; equal scores keep their order (lower list number first when lists are merged).

What public documents leave open is settled in the sentences of the rows and nowhere else.
"""

from __future__ import annotations

from ms_custom_ops.program.isa import control, cube, gather, image, l0c, move, reduce, sort, vector
from ms_custom_ops.program.isa.row import KINDS, ArgSpec, AttrSpec, OperandSpec, Row, UnknownRouteError
from ms_custom_ops.program.names import (
    ATOMIC_MODES,
    BLOCK_BYTES,
    COMPARES,
    FRACTAL_BYTES,
    FRACTAL_ELEMENTS,
    MASK_BITS,
    MASK_COUNT,
    MASK_COUNTER,
    MASK_PER_REPEAT,
    MODE_FLOAT,
    MODE_INT,
    PIPES,
    ROUND_MODES,
    VECTOR_BYTES,
)

__all__ = [
    "ATOMIC_MODES",
    "BLOCK_BYTES",
    "COMPARES",
    "FAMILIES",
    "FRACTAL_BYTES",
    "FRACTAL_ELEMENTS",
    "ISA",
    "KINDS",
    "MASK_BITS",
    "MASK_COUNT",
    "MASK_COUNTER",
    "MASK_PER_REPEAT",
    "MODE_FLOAT",
    "MODE_INT",
    "PIPES",
    "ROUND_MODES",
    "VECTOR_BYTES",
    "ArgSpec",
    "AttrSpec",
    "OperandSpec",
    "Row",
    "UnknownRouteError",
]

FAMILIES = {
    "Element-wise": vector.ROWS,
    "Reductions and compaction": reduce.ROWS,
    "Gather, scatter, broadcast": gather.ROWS,
    "Sorting and proposals": sort.ROWS,
    "Moves": move.ROWS,
    "Cube": cube.ROWS,
    "Image to column": image.ROWS,
    "L0C": l0c.ROWS,
    "Control": control.ROWS,
}
"""Rows by chapter of docs/instructions.md."""

ISA: dict[str, Row] = {r.name: r for rows in FAMILIES.values() for r in rows}
