# SPDX-License-Identifier: Apache-2.0
"""Moves between GM, UB, L1 and L0C. Gaps of moves run from the end of one burst to the start of the next."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, TikSupportError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.isa import BLOCK_BYTES
from ms_custom_ops.tik.addresses import sides
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import check_apart, check_extent, check_start, ranged
from ms_custom_ops.tik.l0c import BLOCK_MODES
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.where import user_location

MAX_BURSTS, MAX_BURST, MAX_GAP = 4095, 65535, 65535
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
    _move_l0c: Any  # of L0cMixin

    def data_move(self, dst, src, sid, nburst, burst, src_stride, dst_stride, *args, **kwargs):
        """``nburst`` bursts of ``burst`` units; unit 32 bytes, 16x16 fractals for L0C. Gaps in 32 bytes, in
        fractals on the L0C side. L0C routes convert on the way: ``deqscale``, ``relu``, ``sid_store_mode``, or the
        ConvReluMode as one more positional argument (docs/tik.md); GM to L1 takes PadMode 0 there."""
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
            self._store_mode(kwargs.get("sid_store_mode", 0)),
        )

    def _store_mode(self, mode: Any) -> int:
        if mode not in (0, 1, 2):
            raise self._b.fail(TikError, "data_move", "sid_store_mode", mode, "0, 1, 2")
        return int(mode)

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
        """data_move with dst_stride before src_stride. ``block_mode`` matters where L0C takes part, elsewhere units
        are 32-byte blocks: 'm' 16x16 fractals, 'v' the first row of each, 'sc' its first 4 columns, 'dp' halves of 8
        columns.
        ``sid_store_mode`` of an 8-bit dst: 0 and 1 put 16 results into the low or high half of each 32 bytes, 2
        stores them densely."""
        b = self._b
        if b.dead:
            return
        api = "tensor_mov"
        modes = {"": 0, **BLOCK_MODES}
        if block_mode not in modes:
            raise b.fail(TikSupportError, api, "block_mode", repr(block_mode), ", ".join(map(repr, modes)))
        if pad_mode is not None or pad_value is not None or onthefly_mode:
            raise b.fail(
                TikSupportError,
                api,
                "pad_mode, pad_value, onthefly_mode",
                f"{pad_mode}, {pad_value}, {onthefly_mode}",
                "None, None, 0",
            )
        if sid_store_mode not in (0, 1, 2):
            raise b.fail(TikError, api, "sid_store_mode", sid_store_mode, "0, 1, 2")
        dst, src = sides(dst, src, api)
        on_l0c = ir.L0C in (dst.storage.buffer.scope, src.storage.buffer.scope)
        if on_l0c and block_mode == "":
            route = f"{src.storage.buffer.scope}->{dst.storage.buffer.scope}"
            accepted = ", ".join(map(repr, BLOCK_MODES))
            raise b.fail(TikError, api, f"block_mode for {route}", repr(block_mode), accepted)
        extra = (modes[block_mode] if on_l0c else 0, (), sid_store_mode)
        self._move(api, dst, src, 0, nburst, burst_len, src_stride, dst_stride, deqscale, relu, *extra)

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
        store: int = 0,
    ) -> None:
        b = self._b
        if dst.__class__ is not Tensor or src.__class__ is not Tensor:
            dst, src = sides(dst, src, api)
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
        if not any(v not in (0, None) for v in extra):
            extra = ()  # trailing zeros ask for nothing
        if ir.L0C in route:
            self._move_l0c(api, dst, src, nburst, burst, src_gap, dst_gap, deqscale, relu, block_mode, extra, store)
            return
        self._plain_arguments(api, route, deqscale, relu, extra)
        for t, name, gap in ((dst, "dst", dst_gap), (src, "src", src_gap)):
            if t.offset.__class__ is int:
                check_start(t, api, name)
            span = _span(nburst, burst, gap)
            if span is not None:
                check_extent(t, span * BLOCK_BYTES, api, name, True)
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

    def _plain_arguments(self, api: str, route: tuple[str, str], deqscale: Any, relu: Any, extra: tuple) -> None:
        """A move that does not touch L0C converts nothing."""
        b = self._b
        if extra and route == (ir.GM, ir.L1):
            self._pad_mode(api, extra)  # of other routes nothing reads them
        if relu or not (deqscale is None or deqscale.__class__ is int and deqscale == 0):
            raise b.fail(
                TikError,
                api,
                f"conversion arguments for {route[0]}->{route[1]}",
                "given",
                "none (moves between L0C and UB convert)",
            )

    def _pad_mode(self, api: str, extra: tuple) -> None:
        """The positional PadMode of GM to L1: only 0, no padding, is defined in the public documents."""
        b = self._b
        if len(extra) > 1 or extra[0] not in (0, None):
            raise b.fail(TikSupportError, api, "PadMode", ", ".join(map(str, extra)), "0")

    def _check_move_overlap(
        self, api: str, dst: Tensor, src: Tensor, nburst: Any, burst: Any, src_gap: Any, dst_gap: Any
    ) -> None:
        if nburst.__class__ is int and nburst == 1 and burst.__class__ is int:
            check_apart(api, dst, src, burst * BLOCK_BYTES, burst * BLOCK_BYTES)
