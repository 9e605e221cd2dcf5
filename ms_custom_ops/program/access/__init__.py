# SPDX-License-Identifier: Apache-2.0
"""Which bytes an instruction touches, from its row, its arguments and its attributes.

:func:`boxes` is the one question of checks (bounds: the hull), hazards (do two accesses meet), shadows (every byte),
cost (how many runs, how long, how far apart) and export. Each row of :mod:`ms_custom_ops.program.isa` names one
function of this package, written once per family:

=============  ====================================================================================================
``lanes``      masked lanes with block and repeat strides: element-wise instructions, fills, conversions
``reductions`` masked lanes read, a few results per repeat written
``gather``     masked lanes on one side, offsets, and a tensor touched at places known only while running
``groups``     sorting and proposals: whole records, fields of records
``bursts``     moves: runs with gaps, rows of matrices, fractals
``cube``       fractals of products, with the tail of k
``image``      taps of a filter that lie in the feature map
``l0c``        units of a fractal on the way out of L0C
=============  ====================================================================================================

Bytes are counted from the start of the operand (its ``Ref``: buffer plus offset). A byte is listed when the
instruction's definition needs or writes it; hardware may fetch whole blocks around it. Which of an operand's bytes are
read and which written follows from its mark in the row (:meth:`~ms_custom_ops.program.isa.row.Row.reads`,
:meth:`~ms_custom_ops.program.isa.row.Row.writes`): where an operand is both, both are the same bytes. Two things are
not in the row of an instruction: a move to GM under ``set_atomic_add`` reads what it adds to, and control flow.

Neither engine uses this package: they find their bytes by themselves, and a test compares all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ms_custom_ops.program.access.box import Box, hull, touched
from ms_custom_ops.program.access.use import Access, Use

__all__ = ["Access", "Box", "Use", "access", "boxes", "hull", "touched"]


def access(
    row: Any,
    operand: int,
    dtypes: Sequence[str],
    args: Sequence[int | float],
    attrs: Sequence[int],
    scopes: Sequence[str] | None = None,
    rooms: Sequence[int] | None = None,
) -> Access:
    """The bytes operand number ``operand`` is touched on.

    ``dtypes``, ``args`` and ``attrs`` are in the order of the row, the arguments as numbers that an engine accepts.
    ``scopes`` (one per operand) matter to ``data_move_pad``, ``data_move_l0c``; ``rooms`` (bytes from the start
    of each operand to the end of its tensor) to operands that are touched at places known only while running.
    ValueError when one of them is missing.
    """
    found = row.access(Use(row, dtypes, args, attrs, scopes, rooms), row.tensors[operand])
    return found if isinstance(found, Access) else Access(tuple(found))


def boxes(
    row: Any,
    operand: int,
    dtypes: Sequence[str],
    args: Sequence[int | float],
    attrs: Sequence[int],
    scopes: Sequence[str] | None = None,
    rooms: Sequence[int] | None = None,
) -> tuple[Box, ...]:
    """The boxes of :func:`access`; for an access that is not exact, those it stays within."""
    return access(row, operand, dtypes, args, attrs, scopes, rooms).boxes
