# SPDX-License-Identifier: Apache-2.0
"""Moves between GM, UB, L1 and L0C. Gaps of moves run from the end of one burst to the start of the next."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, TikSupportError, describe
from ms_custom_ops.tik import ir
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_tensor, check_apart, check_extent, check_start, flag, ranged, scalar_operand
from ms_custom_ops.tik.dtypes import SIZE
from ms_custom_ops.tik.expr import Expr, const
from ms_custom_ops.tik.isa import BLOCK_BYTES, FRACTAL_ELEMENTS
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.tik.where import user_location

MAX_BURSTS, MAX_BURST, MAX_GAP = 4095, 65535, 65535
L0C_ROW = 16
_FUSED = ("310", "910A", "310P")
_ALL = ("310", "910A", "310P", "310PV", "910B")

# (source, destination): chip families with that path.
ROUTES: dict[tuple[str, str], tuple[str, ...]] = {
    (ir.GM, ir.UB): _ALL,
    (ir.UB, ir.GM): _ALL,
    (ir.UB, ir.UB): _ALL,
    (ir.GM, ir.L1): _ALL[:3] + ("910B",),
    (ir.UB, ir.L1): _FUSED,
    (ir.L1, ir.UB): _FUSED,
    (ir.L1, ir.GM): ("910B",),
    (ir.L0C, ir.UB): _FUSED,
    (ir.UB, ir.L0C): _FUSED,
}
_INSTEAD = {
    (ir.L0C, ir.GM): "fixpipe",
    (ir.L1, ir.L0A): "load2dv1, load2dv2",
    (ir.L1, ir.L0B): "load2dv1, load2dv2",
    (ir.L0C, ir.UB): "fixpipe to GM and data_move from there",
    (ir.UB, ir.L1): "data_move to GM and from there",
    (ir.L1, ir.UB): "data_move to GM and from there",
}
# Conversions on the way between L0C and UB: (source dtype, destination dtype).
_L0C_DTYPES = {
    ("float16", "float16"),
    ("float32", "float32"),
    ("int32", "int32"),
    ("uint32", "uint32"),
    ("float32", "float16"),
    ("float16", "float32"),
    ("int32", "float16"),
}
# Number of the public interface for a conversion: pair, relu, deqscale.
CONV_RELU_MODES: dict[int, tuple[tuple[str, str] | None, bool, bool]] = {
    0: (None, False, False),
    1: (("float32", "float16"), False, False),
    2: (("float32", "float16"), True, False),
    3: (("int32", "float16"), False, True),
    4: (("float16", "float32"), False, False),
    5: (None, True, False),
}


def check_route(b: Builder, api: str, src: Tensor, dst: Tensor) -> tuple[str, str]:
    """(source, destination) scopes, or TikSupportError that names the chip and what to use instead."""
    route = (src.storage.buffer.scope, dst.storage.buffer.scope)
    families = ROUTES.get(route)
    if families is None or b.family not in families:
        have = ", ".join(f"{s}->{d}" for (s, d), f in ROUTES.items() if b.family in f)
        hint = f"; instead: {_INSTEAD[route]}" if route in _INSTEAD else ""
        raise TikSupportError(
            describe(api, f"route on {b.soc.name}", f"{route[0]}->{route[1]}", have) + hint, user_location()
        )
    return route


def _span(nburst: Any, burst: Any, gap: Any) -> int | None:
    if nburst.__class__ is int and burst.__class__ is int and gap.__class__ is int:
        return (nburst - 1) * (burst + gap) + burst
    return None


class MoveMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def data_move(self, dst, src, sid, nburst, burst, src_stride, dst_stride, *args, **kwargs):
        """``nburst`` bursts of ``burst`` units; unit 32 bytes, 16x16 fractals for L0C. Gaps in 32 bytes, in
        fractals on the L0C side. L0C routes convert on the way: ``deqscale`` (int32 to float16),
        ``relu``."""
        b = self._b
        if b.dead:
            return
        unknown = set(kwargs) - {"deqscale", "relu", "sid_store_mode"}
        if unknown:
            raise b.fail(TikError, "data_move", "keyword arguments", ", ".join(sorted(unknown)), "deqscale, relu")
        self._move(
            "data_move",
            dst,
            src,
            sid,
            nburst,
            burst,
            src_stride,
            dst_stride,
            kwargs.get("deqscale"),
            kwargs.get("relu", False),
            0,
            args,
        )

    def tensor_mov(
        self,
        dst,
        src,
        block_mode,
        nburst,
        burst_len,
        dst_stride,
        src_stride,
        deqscale=None,
        sid_store_mode=0,
        relu=False,
        pad_mode=None,
        pad_value=None,
        onthefly_mode=0,
        src_onthefly=None,
        src_onthefly_stride=0,
    ):
        """data_move with dst_stride before src_stride. ``block_mode``: '' 32-byte blocks; 'm' 16x16
        fractals; 'v' the first row of each fractal."""
        b = self._b
        if b.dead:
            return
        api = "tensor_mov"
        modes = {"": 0, "m": 0, "v": 1}
        if block_mode not in modes:
            raise b.fail(TikSupportError, api, "block_mode", repr(block_mode), "'', 'm', 'v'")
        if pad_mode is not None or pad_value is not None or onthefly_mode:
            raise b.fail(
                TikSupportError,
                api,
                "pad_mode, pad_value, onthefly_mode",
                f"{pad_mode}, {pad_value}, {onthefly_mode}",
                "None, None, 0",
            )
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        on_l0c = ir.L0C in (dst.storage.buffer.scope, src.storage.buffer.scope)
        if on_l0c != (block_mode != ""):
            raise b.fail(
                TikError,
                api,
                f"block_mode for {src.storage.buffer.scope}->{dst.storage.buffer.scope}",
                repr(block_mode),
                "'m', 'v'" if on_l0c else "''",
            )
        self._move(api, dst, src, 0, nburst, burst_len, src_stride, dst_stride, deqscale, relu, modes[block_mode], ())

    def _move(
        self,
        api: str,
        dst: Any,
        src: Any,
        sid: Any,
        nburst: Any,
        burst: Any,
        src_gap: Any,
        dst_gap: Any,
        deqscale: Any,
        relu: Any,
        block_mode: int,
        extra: tuple,
    ) -> None:
        b = self._b
        if dst.__class__ is not Tensor or src.__class__ is not Tensor:
            dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        ranged(sid, api, "sid", 0, 15)
        nburst = ranged(nburst, api, "nburst", 1, MAX_BURSTS)
        burst = ranged(burst, api, "burst", 1, MAX_BURST)
        src_gap = ranged(src_gap, api, "src_stride", 0, MAX_GAP)
        dst_gap = ranged(dst_gap, api, "dst_stride", 0, MAX_GAP)
        for t in (dst, src):
            storage = t.storage
            if not storage.alive or storage.builder is not b:
                b.check_alive(storage, api)
            storage.used = True
        route = check_route(b, api, src, dst)
        if ir.L0C in route:
            self._move_l0c(api, dst, src, nburst, burst, src_gap, dst_gap, deqscale, relu, block_mode, extra)
            return
        if extra or deqscale is not None or relu:
            raise b.fail(
                TikError,
                api,
                f"conversion arguments for {route[0]}->{route[1]}",
                "given",
                "none (moves between L0C and UB convert)",
            )
        if dst._dtype != src._dtype:
            raise b.fail(TikError, api, "dtype of src", src.dtype, f"dtype of dst, {dst.dtype}")
        for t, name, gap in ((dst, "dst", dst_gap), (src, "src", src_gap)):
            if t.offset.__class__ is int:
                check_start(t, api, name)
            span = _span(nburst, burst, gap)
            if span is not None:
                check_extent(t, span * BLOCK_BYTES, api, name)
        if dst.storage is src.storage:
            self._check_move_overlap(api, dst, src, nburst, burst, src_gap, dst_gap)
        b.body.append(
            ir.Instr(
                "data_move",
                (dst.ref(), src.ref()),
                (nburst, burst * BLOCK_BYTES, src_gap * BLOCK_BYTES, dst_gap * BLOCK_BYTES),
                (),
                b.loc(),
            )
        )

    def _check_move_overlap(
        self, api: str, dst: Tensor, src: Tensor, nburst: Any, burst: Any, src_gap: Any, dst_gap: Any
    ) -> None:
        if nburst.__class__ is int and nburst == 1 and burst.__class__ is int:
            check_apart(api, dst, src, burst * BLOCK_BYTES, burst * BLOCK_BYTES)

    def _move_l0c(
        self,
        api: str,
        dst: Tensor,
        src: Tensor,
        nburst: Any,
        burst: Any,
        src_gap: Any,
        dst_gap: Any,
        deqscale: Any,
        relu: Any,
        block_mode: int,
        extra: tuple,
    ) -> None:
        b = self._b
        pair = (src.dtype, dst.dtype)
        if extra:
            relu = self._conv_relu_mode(api, pair, extra, deqscale, relu)
        scale = self._l0c_scale(api, pair, deqscale)
        gaps = []
        elements = FRACTAL_ELEMENTS if block_mode == 0 else L0C_ROW
        for t, name, gap in ((src, "src", src_gap), (dst, "dst", dst_gap)):
            size = SIZE[t.dtype]
            on_l0c = t.storage.buffer.scope == ir.L0C
            unit = (FRACTAL_ELEMENTS if on_l0c else elements) * size
            gap_bytes = gap * (FRACTAL_ELEMENTS * size if on_l0c else BLOCK_BYTES)
            gaps.append(gap_bytes)
            check_start(t, api, name)
            span = _span(nburst, burst * unit, gap_bytes)
            if span is not None:
                # In row mode only the first row of the last fractal is touched.
                check_extent(t, span - (unit - elements * size), api, name)
        b.body.append(
            ir.Instr(
                "data_move_l0c",
                (dst.ref(), src.ref()),
                (nburst, burst, *gaps, scale),
                (block_mode, int(flag(relu, api, "relu"))),
                b.loc(),
            )
        )

    def _l0c_scale(self, api: str, pair: tuple[str, str], deqscale: Any) -> Expr:
        """Check the conversion and give its scale (1 where there is none)."""
        b = self._b
        if pair not in _L0C_DTYPES:
            raise b.fail(
                TikSupportError,
                api,
                "dtypes between L0C and UB",
                " to ".join(pair),
                ", ".join(f"{s} to {d}" for s, d in sorted(_L0C_DTYPES)),
            )
        scale = const(1.0, "float16")
        if pair == ("int32", "float16"):
            if deqscale is None or isinstance(deqscale, Tensor):
                raise b.fail(
                    TikError,
                    api,
                    "deqscale for int32 to float16",
                    type(deqscale).__name__,
                    "a number or float16 Scalar",
                )
            scale = scalar_operand(b, deqscale, "float16", api, "deqscale")
        elif deqscale is not None:
            raise b.fail(TikError, api, f"deqscale for {pair[0]} to {pair[1]}", deqscale, "None")
        return scale

    def _conv_relu_mode(self, api: str, pair: tuple[str, str], extra: tuple, deqscale: Any, relu: Any) -> bool:
        b = self._b
        number = extra[0]
        if len(extra) > 1 or number not in CONV_RELU_MODES:
            raise b.fail(
                TikSupportError, api, "ConvReluMode", ", ".join(map(str, extra)), ", ".join(map(str, CONV_RELU_MODES))
            )
        wanted, with_relu, needs_scale = CONV_RELU_MODES[number]
        same = pair[0] == pair[1]
        if (wanted is None) != same or wanted is not None and wanted != pair:
            raise b.fail(
                TikError,
                api,
                f"dtypes for ConvReluMode {number}",
                " to ".join(pair),
                "equal dtypes" if wanted is None else " to ".join(wanted),
            )
        if needs_scale and deqscale is None:
            raise b.fail(TikError, api, f"deqscale for ConvReluMode {number}", None, "a number or float16 Scalar")
        return with_relu or bool(relu)
