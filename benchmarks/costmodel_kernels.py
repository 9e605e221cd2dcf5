# SPDX-License-Identifier: Apache-2.0
"""Small TIK kernels with the shapes of published measurements, for the validation of the cost model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ms_custom_ops import ascendc, tik
from ms_custom_ops.cost import CostChip, Profile
from ms_custom_ops.program import ir
from ms_custom_ops.tik.trace import trace

KIB, MI = 1024, 1 << 20
FULL = 8  # blocks of a repeat


def traced(build: Callable[[Any], None], soc: str) -> ir.Program:
    """The Program of ``build(tik_instance)`` on a chip."""
    return trace(lambda: build(tik.Tik()), soc=soc)


@dataclass(frozen=True)
class Queued:
    """z = x + y over float16 in Ascend C, through queues of one block. A part of the tiles is computed, for the rest of
    ``elements`` its time after the launch is taken again."""

    elements: int
    tile: int
    cores: int

    def profile(self, chip: CostChip) -> tuple[Profile, float]:
        """The profile of the part, and microseconds of the whole."""
        kernel = ascendc.build(Path(__file__).with_suffix(".cpp"), "queued", chip.soc.name)
        count = max(2 * MI // (self.tile * self.cores), 1)
        x, y = (np.ones(count * self.tile * self.cores, np.float16) for _ in range(2))
        p = kernel.profile(self.cores, x, y, np.empty_like(x), count, self.tile, chip=chip, traced_blocks=0)
        launch = chip.values["launch_us"]
        return p, launch + (p.us - launch) * self.elements / x.size


def adds(
    src0: int, src1: int, dst: int, rep: int = FULL, times: int = 1000, repeats: int = 64
) -> Callable[[Any], None]:
    """``times`` times the same float32 addition of ``repeats`` repeats; places in UB in blocks of 32 bytes; ``rep`` is
    the repeat stride of the second source."""

    def build(t: Any) -> None:
        out = t.Tensor("float32", (64,), tik.scope_gm, "out")
        ub = t.Tensor("float32", (176 * KIB // 4,), tik.scope_ubuf, "ub")
        with t.for_range(0, times):
            t.vadd(64, ub[dst * 8], ub[src0 * 8], ub[src1 * 8], repeats, 1, 1, 1, FULL, FULL, rep)
        t.data_move(out, ub[dst * 8], 0, 1, 8, 0, 0)
        t.BuildCCE(kernel_name="adds", inputs=[], outputs=[out])

    return build


def streamed(
    elements: int, tile: int, cores: int, times: int = 1, threads: int = 1, shift: int = 0, store: bool = True
) -> Callable[[Any], None]:
    """y = x + b over float16, ``tile`` elements at a time, the addition ``times`` times; ``shift`` blocks of UB lie
    between the buffers."""

    def build(t: Any) -> None:
        x, b = (t.Tensor("float16", (elements,), tik.scope_gm, n) for n in "xb")
        y = t.Tensor("float16", (elements,), tik.scope_gm, "y")
        tiles, blocks = elements // tile, tile // 16
        with t.for_range(0, cores, block_num=cores) as core:
            first = t.Scalar("int64", init_value=core * tiles // cores)
            end = t.Scalar("int64", init_value=(core + 1) * tiles // cores)
            with t.for_range(0, end - first, thread_num=threads) as i:
                room = tile + shift * 16
                xs, bs, ys = (t.Tensor("float16", (room,), tik.scope_ubuf, n) for n in ("xs", "bs", "ys"))
                at = (first + i) * tile
                t.data_move(xs, x[at], 0, 1, blocks, 0, 0)
                t.data_move(bs, b[at], 0, 1, blocks, 0, 0)
                for _ in range(times):
                    for offset in range(0, tile // 128, 255):
                        repeats = min(255, tile // 128 - offset)
                        t.vec_add(128, ys[offset * 128], xs[offset * 128], bs[offset * 128], repeats, 8, 8, 8)
                if store:
                    t.data_move(y[at], ys, 0, 1, blocks, 0, 0)
        t.BuildCCE(kernel_name="streamed", inputs=[x, b], outputs=[y])

    return build


def to_fractals(rows: int, columns: int, cores: int, pitch: int) -> Callable[[Any], None]:
    """128 x 128 tiles of float16 in UB from rows to columns of blocks, whose heads lie ``pitch`` blocks apart."""

    def build(t: Any) -> None:
        x = t.Tensor("float16", (rows * columns,), tik.scope_gm, "x")
        y = t.Tensor("float16", (rows * columns,), tik.scope_gm, "y")
        tiles = rows * columns // (128 * 128)
        with t.for_range(0, cores, block_num=cores) as core:
            first = t.Scalar("int64", init_value=core * tiles // cores)
            end = t.Scalar("int64", init_value=(core + 1) * tiles // cores)
            src = t.Tensor("float16", (128 * 128,), tik.scope_ubuf, "src")
            t.Tensor("float16", (16 * KIB,), tik.scope_ubuf, "gap")
            dst = t.Tensor("float16", (pitch * 8 * 16,), tik.scope_ubuf, "dst")
            with t.for_range(first, end) as i:
                t.data_move(src, x[i * 128 * 128], 0, 1, 1024, 0, 0)
                t.vadds(128, dst, src, 0.0, 128, pitch, 1, 1, FULL)
                t.data_move(y[i * 128 * 128], dst, 0, 8, 128, pitch - 128, 0)
        t.BuildCCE(kernel_name="to_fractals", inputs=[x], outputs=[y])

    return build


def reads(elements: int, tile: int, cores: int, rounds: int = 1, slices: int = 1) -> Callable[[Any], None]:
    """Reads a float16 tensor ``rounds`` times into UB, each core its own part; ``slices`` parts of it one after the
    other, each ``rounds`` times."""

    def build(t: Any) -> None:
        x = t.Tensor("float16", (elements,), tik.scope_gm, "x")
        y = t.Tensor("float16", (16,), tik.scope_gm, "y")
        part = elements // tile // cores // slices
        with t.for_range(0, cores, block_num=cores) as core:
            ub = t.Tensor("float16", (tile,), tik.scope_ubuf, "ub")
            with t.for_range(0, slices) as piece:
                with t.for_range(0, rounds), t.for_range(0, part) as i:
                    t.data_move(ub, x[((core * slices + piece) * part + i) * tile], 0, 1, tile // 16, 0, 0)
            t.data_move(y, ub, 0, 1, 1, 0, 0)
        t.BuildCCE(kernel_name="reads", inputs=[x], outputs=[y])

    return build


def reads_nz(rows: int, columns: int, tile: int, cores: int = 24) -> Callable[[Any], None]:
    """Reads a float16 matrix into L1 as fractals, square tile by tile."""
    tile_rows = tile_columns = tile

    def build(t: Any) -> None:
        x = t.Tensor("float16", (rows * columns,), tik.scope_gm, "x")
        y = t.Tensor("float16", (16,), tik.scope_gm, "y")
        across, down = columns // tile_columns, rows // tile_rows
        with t.for_range(0, cores, block_num=cores) as core:
            l1 = t.Tensor("float16", (tile_rows * tile_columns,), tik.scope_cbuf, "l1")
            with t.for_range(core * down // cores, (core + 1) * down // cores) as r, t.for_range(0, across) as c:
                at = r * tile_rows * columns + c * tile_columns
                t.data_move_multi_nd2nz(l1, x[at], 1, tile_rows, tile_columns, 0, columns, tile_rows, 1, 1)
            t.data_move(y, l1, 0, 1, 1, 0, 0)
        t.BuildCCE(kernel_name="reads_nz", inputs=[x], outputs=[y])

    return build


def gemm(m: int, k: int, n: int, cores: int, out: str = "float16") -> Callable[[Any], None]:
    """C = A B in float16 with tiles of 128 x 256 and k 64 in L0 (two of each input), k 256 in L1 (two of each)."""
    tm, tn, k0, k1 = 128, 256, 64, 256

    def step(t: Any, l0: list, l0c: Any, l1: tuple, inner: int, first: bool) -> None:
        left, right = l0[inner % 2]
        one = (1, 1, 1, 1, 1, 1)  # strides, filter, dilation: the matrix itself
        t.load3dv2(left, l1[0], (0, 0, 0, 0), 1, tm, k1, k0, tm, inner * k0, 0, *one)
        t.load3dv2(right, l1[1], (0, 0, 0, 0), 1, k1, tn, tn, k0, 0, inner * k0, *one)
        t.mmad(l0c, left, right, tm, k0, tn, 0 if first else 1)

    def build(t: Any) -> None:
        a, b = t.Tensor("float16", (m * k,), tik.scope_gm, "a"), t.Tensor("float16", (k * n,), tik.scope_gm, "b")
        c = t.Tensor(out, (m * n,), tik.scope_gm, "c")
        across, tiles = n // tn, (m // tm) * (n // tn)
        to_half = {"quantize_params": {"mode": "fp322fp16", "mode_param": None}}
        quant = {} if out == "float32" else {"extend_params": to_half}
        with t.for_range(0, cores, block_num=cores) as core:
            lefts = [t.Tensor("float16", (tm * k0,), tik.scope_ca, f"left{i}") for i in range(2)]
            rights = [t.Tensor("float16", (k0 * tn,), tik.scope_cb, f"right{i}") for i in range(2)]
            l0 = list(zip(lefts, rights, strict=True))
            l0c = t.Tensor("float32", (tm * tn,), tik.scope_cc, "l0c")
            with t.for_range(core * tiles // cores, (core + 1) * tiles // cores) as tile:
                row, column = (tile // across) * tm, (tile % across) * tn
                with t.for_range(0, k // k1, thread_num=2) as j:
                    l1a = t.Tensor("float16", (tm * k1,), tik.scope_cbuf, "l1a")
                    l1b = t.Tensor("float16", (k1 * tn,), tik.scope_cbuf, "l1b")
                    t.data_move_multi_nd2nz(l1a, a[row * k + j * k1], 1, tm, k1, 0, k, tm, 1, 1)
                    t.data_move_multi_nd2nz(l1b, b[j * k1 * n + column], 1, k1, tn, 0, n, k1, 1, 1)
                    with t.if_scope(j == 0):
                        step(t, l0, l0c, (l1a, l1b), 0, True)
                    with t.else_scope():
                        step(t, l0, l0c, (l1a, l1b), 0, False)
                    for inner in range(1, k1 // k0):
                        step(t, l0, l0c, (l1a, l1b), inner, False)
                t.fixpipe(c[row * n + column], l0c, tn // 16, tm * 16 * 4 // 32, 0, 0, **quant)
        t.BuildCCE(kernel_name="gemm", inputs=[a, b], outputs=[c])

    return build


__all__ = ["adds", "gemm", "partial", "reads", "reads_nz", "streamed", "to_fractals", "traced"]
